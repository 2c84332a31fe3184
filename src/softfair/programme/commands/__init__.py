"""The commands of a programme: init, import, fit, plan, record, audit, export.

They read their arguments, call the other modules of `programme` and print what comes of it. The
rooms of this folder are imported in the order in which `softfair --help` lists their commands.
"""

from . import setting_up, taking_in, fitting, planning, giving_out  # noqa: F401, I001
from .shared import commands

__all__ = ["commands"]
