"""What was worked out for one moment of the database, kept until the database changes.

A page that lists thousands of people would otherwise read the whole history each time. What is kept
belongs to the last rows of the tables of a programme; visits and accounts change nothing of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from ..programme import store
from ..programme.store import Store

__all__ = ["Memory"]

Result = TypeVar("Result")

KEPT = 64  # results


class Memory:
    """The last results, each worked out once though many ask for it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._working: dict[Any, threading.Lock] = {}

    def of(self, database: Store, what: str, make: Callable[[], Result], *about: Any) -> Result:
        """The result of a function, as of what the database holds now.

        Parameters
        ----------
        database
            The programme.
        what
            A name for the function.
        make
            The function; it reads the database.
        *about
            What else the result depends on.
        """
        moment = _moment(database)
        key = (what, about, moment)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[no-any-return]
            working = self._working.setdefault(key, threading.Lock())
        with working:
            with self._lock:
                if key in self._kept:
                    return self._kept[key]  # type: ignore[no-any-return]
            made = make()
            with self._lock:
                for old in [one for one in self._kept if one[2] != moment]:
                    del self._kept[old]
                self._kept[key] = made
                self._working.pop(key, None)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return made


def _moment(database: Store) -> tuple[Any, ...]:
    """How far the tables go that a programme is made of."""
    growing = (store.setting, store.batch, store.model, store.plan, store.commitment)
    highest = [sa.select(sa.func.max(table.c.id)).scalar_subquery() for table in growing]
    with database.reading() as connection:
        return tuple(connection.execute(sa.select(*highest)).one())
