"""How the columns of a file are read: which heading in the file stands for which name here.

People's files have other headings than the names here. The heading for a name is the one that was
asked for (``--map round=Week``), else that in the last file of the same kind, else the name itself,
a usual other name for it, or a similar one. Guesses are shown to the user and stored with the
batch, so that the next file is read in the same way. Retracted batches are not used for that.
"""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

import sqlalchemy as sa

from ..errors import InvalidInput
from ..for_json import read_json
from . import schema
from .dates import ORDERS, PLAIN
from .store import Connection, Store
from .tracks import retracted_batches

__all__ = ["APART", "TOGETHER", "ReadAs", "among", "folded", "match_columns", "remembered"]

TOGETHER, APART = "together", "apart"
NAMED = 40  # headings that a message names
NEAR = 0.8  # a heading at least so similar to a known name is taken for it

# Other names that columns often have, in the form of `folded`.
OTHER_NAMES = {
    "id": "identifier person person_id beneficiary beneficiary_id patient patient_id client "
    "client_id participant participant_id member member_id case_id id_number id_no uid mrn",
    "round": "week date week_no week_number week_of week_starting week_commencing week_start wk "
    "month period visit_date call_date day round_no round_number",
    "state": "adherent engaged doing_well outcome",
    "contacted": "called reached contact contact_made visited phoned call_made",
    "enrolled": "joined enrolment enrollment enrolment_date enrollment_date start_date",
    "left": "departed exit exit_date end_date left_on leaving_date dropped_out",
    "opted_out": "opt_out optout do_not_contact do_not_call dnc unsubscribed",
    "reserved": "appointment appointment_date arranged",
    "absent": "away absence on_leave travelling",
}


def folded(name: str) -> str:
    """A heading without its case, spaces, hyphens and marks: ``Opted-Out?`` is ``opted_out``."""
    return re.sub(r"[^\w]+|_+", "_", name.strip().lower()).strip("_")


@dataclass(frozen=True)
class ReadAs:
    """How a file is read, where that differs from the default.

    Parameters
    ----------
    columns
        Name here -> heading in the file.
    keep
        Headings of a file of people that are kept for worksheets, and are no groups.
    ignore
        Headings that are not read.
    dates
        Whether the day or the month stands first: ``day-first`` or ``month-first``.
    twins
        Whether spellings that differ in case, accents or spaces alone are one group (``together``)
        or several (``apart``).
    sheet
        Which sheet of a workbook.

    Raises
    ------
    InvalidInput
        If ``dates`` or ``twins`` is something else.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    dates: str | None = None
    twins: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (("dates", (*ORDERS, PLAIN)), ("twins", (TOGETHER, APART))):
            if (given := getattr(self, name)) is not None and given not in choices:
                raise InvalidInput(f"--{name} is {given!r}; say {' or '.join(choices)}")

    @staticmethod
    def parse_columns(text: str) -> dict[str, str]:
        """What ``round=Week,id=Beneficiary ID`` says.

        Examples
        --------
        >>> ReadAs.parse_columns('round=Week,id="Name, first"')
        {'round': 'Week', 'id': 'Name, first'}
        """
        quoted = re.sub(r'([^,=]+)="([^"]*)"', r'"\1=\2"', text)
        parts = [part.partition("=") for part in next(csv.reader([quoted]), [])]
        if not all(name.strip() and heading.strip() for name, _, heading in parts):
            raise InvalidInput(
                f"--map is {text!r}; say what each column is, such as round=Week,id='Person no'"
            )
        return {folded(name): heading.strip() for name, _, heading in parts}

    def over(self, before: ReadAs) -> ReadAs:
        """These choices, and for all others the choices in ``before``."""
        return ReadAs(
            {**before.columns, **self.columns},
            self.keep or before.keep,
            self.ignore or before.ignore,
            self.dates or before.dates,
            self.twins or before.twins,
            self.sheet or before.sheet,
        )

    def to_json(self) -> str | None:
        """As it is stored; None if everything is at its default."""
        told = {name: value for name, value in asdict(self).items() if value}
        return json.dumps(told, sort_keys=True, ensure_ascii=False) if told else None

    @classmethod
    def from_json(cls, text: str | None) -> ReadAs:
        """The inverse of `to_json`."""
        told = read_json(text or "{}")
        lists = {name: tuple(told[name]) for name in ("keep", "ignore") if name in told}
        return cls(**{**told, **lists})


def remembered(database: Store | Connection, kind: str) -> ReadAs:
    """How the files of a kind that are in force were read; a later file overrides earlier ones."""
    if isinstance(database, Store):
        with database.reading() as connection:
            return remembered(connection, kind)
    b = schema.batch
    query = sa.select(b.c.id, b.c.read_as).where(b.c.kind == kind).order_by(b.c.id)
    gone, known = retracted_batches(database), ReadAs()
    for number, read_as in database.execute(query):
        if number not in gone:
            known = ReadAs.from_json(read_as).over(known)
    return known


def match_columns(
    headings: list[str], wanted: Iterable[str], how: ReadAs, asked: ReadAs, where: str
) -> tuple[dict[str, str], ReadAs]:
    """The name here that each heading of a file stands for.

    Parameters
    ----------
    headings
        The headings of the file, trimmed.
    wanted
        The names here that are looked for.
    how
        What was asked for and remembered.
    asked
        What was asked for now: if such a heading is missing, the file is refused; if a remembered
        one is missing, it is ignored.
    where
        The name of the file, for messages.

    Returns
    -------
    tuple of dict and ReadAs
        Heading -> name here, for the headings that were recognised; and how the file was read.

    Raises
    ------
    InvalidInput
        If a column that was asked for is not there.
    """
    wanted, matched = list(wanted), {}
    own = {folded(heading): heading for heading in headings}
    for ours, given in how.columns.items():
        heading = own.get(folded(given))
        if heading is not None and ours in wanted:
            matched[ours] = heading
        elif asked.columns.get(ours) == given:
            what = f"no column {given!r}" if heading is None else f"nothing called {ours!r} to take"
            raise InvalidInput(
                f"{where} has {what} {among(headings, wanted)}; "
                f"known here: {', '.join(wanted)}; mend --map"
            )
    taken = set(matched.values())
    for ours in wanted:
        if ours not in matched and ours in own and own[ours] not in taken:
            matched[ours] = own[ours]
            taken.add(own[ours])
    left_out = {folded(name) for name in (*how.ignore, *how.keep)}
    free = {
        name: heading
        for name, heading in own.items()
        if heading not in taken and name not in left_out
    }
    for ours in wanted:
        if ours not in matched and (heading := _guess(ours, free)):
            matched[ours] = free.pop(heading)
    others = {ours: heading for ours, heading in matched.items() if folded(heading) != ours}
    return {heading: ours for ours, heading in matched.items()}, replace(how, columns=others)


def among(headings: list[str], wanted: Iterable[str]) -> str:
    """The headings of a file if one of them is known, else how many: they may be about people."""
    usual = {name for ours in wanted for name in (ours, *OTHER_NAMES.get(ours, "").split())}
    if usual & {folded(heading) for heading in headings}:
        more = f" and {len(headings) - NAMED:,} more" if len(headings) > NAMED else ""
        return f"(it has {', '.join(map(repr, headings[:NAMED]))}{more})"
    return f"among the {len(headings)} names in its first line, none of which is known"


def _guess(ours: str, free: Mapping[str, str]) -> str | None:
    """The free heading (in folded form) that is likely meant for a name; None: there is none."""
    for name in OTHER_NAMES.get(ours, "").split():
        if name in free:
            return name
    plain = {name.replace("_", ""): name for name in free}
    near = difflib.get_close_matches(ours.replace("_", ""), plain, 1, NEAR)
    return plain[near[0]] if near else None
