"""The commands of a programme: init, import, fit, plan, reserve, trial, check, audit, export.

Others show where things stand, take something back, or keep a copy.

They read their arguments, call the other modules of `programme` and print the results. The modules
of this folder are imported in the order in which `softfair --help` lists their commands.
"""

from . import setting_up, taking_in, fitting, planning, reserving, trying  # noqa: F401, I001
from . import looking, checking, giving_out, keeping  # noqa: F401
from .shared import commands

__all__ = ["commands"]
