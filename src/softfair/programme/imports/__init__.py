"""Importing people and history into the database.

people    people and facts about them
history   states and contacts of earlier rounds
"""

from .history import HISTORY, import_history
from .people import import_people

__all__ = ["HISTORY", "import_history", "import_people"]
