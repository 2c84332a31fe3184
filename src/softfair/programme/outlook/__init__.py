"""What a plan is expected to bring, and the multiplier c that meets a target.

site        the people waiting at one site: their gains, chances and course over the horizon
worth       what a contact is worth to each person, by the posterior
statement   what is stated of a plan
choosing    c, given or found for a target
"""

from .choosing import Prospects, choose_c
from .site import NOTHING, ROUGH, Followed, Keeping, Shares, SiteCohort
from .statement import ROUNDING, LowestGroup, Outlook
from .worth import Reach, Worth, weigh

__all__ = [
    "NOTHING",
    "ROUGH",
    "ROUNDING",
    "Followed",
    "Keeping",
    "LowestGroup",
    "Outlook",
    "Prospects",
    "Reach",
    "Shares",
    "SiteCohort",
    "Worth",
    "choose_c",
    "weigh",
]
