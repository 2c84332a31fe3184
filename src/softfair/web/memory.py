"""Results for one moment of the database, kept until the database changes.

A page that lists thousands of people would otherwise read the whole history each time. A moment is
known by the last rows of the tables of a programme; visits and accounts do not change it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from ..programme import schema
from ..programme.store import Connection, Store
from .work import StillWorking, Task

__all__ = ["Memory", "moment_of"]

Result = TypeVar("Result")


@dataclass
class _Kept:
    moment: tuple[Any, ...]
    task: Task[Any]
    told: bool = False  # whether any request got the result


class Memory:
    """The last results; each is computed once, also if many requests need it at the same time.

    Parameters
    ----------
    most
        How many results are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, _Kept] = OrderedDict()

    def of(
        self,
        database: Store,
        what: str,
        make: Callable[[], Result],
        *about: Any,
        patience: float | None = None,
        late: bool = False,
        moment: tuple[Any, ...] | None = None,
    ) -> Result:
        """The result of a function, as of what the database holds now.

        Parameters
        ----------
        database
            The programme.
        what
            What the function makes, in words for the people who wait for it.
        make
            The function; it reads the database.
        *about
            What else the result depends on.
        patience
            Seconds to wait for it; None: as long as it takes.
        late
            Whether to take a result whose computation began before the database changed. Otherwise
            a page that asks again would never get a result while others write.
        moment
            Of the database; None: it is read.

        Raises
        ------
        StillWorking
            If the function takes longer.
        """
        if moment is None:
            with database.reading() as connection:
                moment = moment_of(connection)
        key = (what, about)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or (kept.moment != moment and not (late and not kept.told)):
                kept = self._kept[key] = _Kept(moment, Task(make, f"working on {what} ..."))
            self._kept.move_to_end(key)
            self._forget(moment)
        try:
            result: Result = kept.task.result(patience)
        except StillWorking:
            raise
        except BaseException:
            with self._lock:  # the next request tries again
                if self._kept.get(key) is kept:
                    del self._kept[key]
            raise
        kept.told = True
        return result

    def _forget(self, moment: tuple[Any, ...]) -> None:
        """Drop results of another moment, and the oldest results if there are too many."""
        for key, old in list(self._kept.items()):
            if old.told and old.moment != moment:
                del self._kept[key]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


# The tables whose last rows tell one moment of a programme from another.
_GROWING = (
    *(schema.setting, schema.batch, schema.model, schema.plan),
    *(schema.call, schema.commitment, schema.trial),
)
_HIGHEST = sa.select(*(sa.select(sa.func.max(one.c.id)).scalar_subquery() for one in _GROWING))


def moment_of(connection: Connection) -> tuple[Any, ...]:
    """The last row of each of these tables: the moment of a programme."""
    return tuple(connection.execute(_HIGHEST).one())
