"""Which of the paper's claims are so: each is tried, and answered with a verdict and a witness::

    from softfair import theory
    for verdict in theory.verdicts():
        print(verdict)

Each claim is an inequality ``left <= right``. A check looks for the instance with the least
``right - left``: the witness holds that instance and both sides, the margin is ``|right - left|``.
:func:`recheck` evaluates a witness anew, by plain recursion and enumeration that share nothing with
the search. Where the paper's claim fails, the verdict carries a corrected statement, which is
itself a claim with its own check.

The truth to hold claims against is :class:`Joint`: the dynamic programme over all joint states and
all sets of k arms, for small n. Numbers are the paper's: Lemma 1 bounds Q, Lemma 2 bounds
max - softmax, Lemma 3 (the appendix's) says that values fall with t; Definition 2 is the
appendix's.
"""

from .catalogue import CLAIMS, Row, claim_of, recheck, table, verdicts
from .claim import Claim, Verdict
from .joint import Joint, highest, set_law, softmax_value

__all__ = [
    "CLAIMS",
    "Claim",
    "Joint",
    "Row",
    "Verdict",
    "claim_of",
    "highest",
    "recheck",
    "set_law",
    "softmax_value",
    "table",
    "verdicts",
]
