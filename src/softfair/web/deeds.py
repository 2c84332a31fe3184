"""What a tap or a form does: it becomes a small file, which the function of a command imports.

So a mark on the page and a row of a worksheet are the same thing in the database: a batch, signed
by the person who made it. Later batches may correct it; nothing overwrites it.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..programme.batches import Imported
from ..programme.changes import hand_out
from ..programme.commands.shared import software
from ..programme.imports import import_history, import_people
from ..programme.plans import plan_of
from ..programme.reading import Upload
from ..programme.records import record
from ..programme.snapshot import take_snapshot
from ..programme.store import Store
from ..programme.tables import table_bytes

__all__ = ["correct", "leave", "mark", "opt"]

PAGE = "the page"  # the name of these files


def _file(reason: str | None, **columns: object) -> Upload:
    """A Parquet file of one row; in CSV, an entry with a comma could be read as two."""
    texts = {name: [str(value)] for name, value in columns.items()}
    return Upload(PAGE, table_bytes(texts, "row.parquet"), reason)


def _said(reason: str) -> str:
    if not reason.strip():
        raise InvalidInput("a change is made for a reason; say it, it is kept")
    return reason.strip()


def mark(
    database: Store, round: int, name: str, contacted: bool | None, state: str | None
) -> Imported:
    """Record whether somebody was contacted in a round, or the state that they reached.

    Parameters
    ----------
    database
        The programme.
    round
        Its number.
    name
        The person's identifier.
    contacted
        None: not recorded.
    state
        Its name; None: not recorded.
    """
    told: dict[str, object] = {"id": name, "round": round}
    told |= {} if contacted is None else {"contacted": int(contacted)}
    told |= {} if state is None else {"state": state}
    if len(told) == 2:
        raise InvalidInput("say whether they were reached, or the state that they reached")
    return record(database, _file(None, **told), software(), round, again=True, sure=True)


def correct(database: Store, name: str, round: int, state: str, reason: str) -> Imported:
    """Correct the state that somebody was in at the start of a round.

    Parameters
    ----------
    database
        The programme.
    name
        The person's identifier.
    round
        Its number.
    state
        Its name.
    reason
        Why; it is kept.
    """
    file = _file(_said(reason), id=name, round=round, state=state)
    return import_history(database, file, software(), again=True, sure=True)


def opt(database: Store, name: str, out: bool, reason: str) -> Imported:
    """Note that somebody wants no contacts any more, or wants them again.

    Parameters
    ----------
    database
        The programme.
    name
        The person's identifier.
    out
        Whether they opt out.
    reason
        Why; it is kept.
    """
    file = _file(_said(reason), id=name, opted_out=int(out))
    return _filled(database, import_people(database, file, software(), again=True))


def leave(database: Store, name: str, round: int | None, reason: str) -> Imported:
    """Note that somebody has left the programme, or is back in it.

    Parameters
    ----------
    database
        The programme.
    name
        The person's identifier.
    round
        The first round without them; None: they are back.
    reason
        Why; it is kept.
    """
    file = _file(_said(reason), id=name, left="none" if round is None else round)
    return _filled(database, import_people(database, file, software(), again=True))


def _filled(database: Store, imported: Imported) -> Imported:
    """The same import, after places that became free were given to the next in order."""
    with database.reading() as connection:
        planned = take_snapshot(connection).open_rounds()
    for round in planned:
        hand_out(database, plan_of(database, round), software())
    return imported
