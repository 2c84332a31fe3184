"""Importing people and facts about them: groups, rounds that matter, what worksheets show."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...for_json import read_json
from .. import schema
from ..batches import Content, Imported
from ..bulk import UNKNOWN, append
from ..columns import ReadAs, folded, remembered
from ..entries import CLEARED, flag, group, identifier, numbers_of
from ..groups import settle_twins
from ..matching import Matches, match_people, reading_notes
from ..meanings import FAR, refuse_repeats, round_column
from ..reading import FACTS, Source, Table, read_table
from ..settings import Settings, current_settings
from ..snapshot import People, load_details, load_people
from ..store import Connection, Store

__all__ = ["import_people"]

Ints = NDArray[np.int64]

PERSONAL = 0.5  # a column with a larger share of different entries is no group: names, telephones
FEW = 20  # rows below which no column is taken for personal
NO_GROUP = ("", "n/a", "#n/a")  # entries that name no group; NA may be Namibia
LIKE_TELEPHONE = re.compile(r"\s*(\+|0\d|[\d\s()./-]*(\d[\s()./-]*){7}$)")  # or a day as a number


def import_people(
    database: Store,
    source: Source,
    software: str,
    again: bool = False,
    how: ReadAs | None = None,
) -> Imported:
    """Import people and facts about them.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id``, group columns of any name, and optionally ``enrolled``, ``left``,
        ``reserved`` (rounds or dates), ``absent`` (two of these, such as ``12 to 14``) and
        ``opted_out`` (yes or no). An empty entry leaves what was known as it was; ``none`` clears
        a round.
    software
        Name and version that the batch is stamped with.
    again
        Take a file again, although what it says was corrected after it was taken.
    how
        How the file is read, where that differs from the default.

    Returns
    -------
    Imported
        How many entries are new or corrected.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is imported then.
    InvalidInput
        If the file cannot be used at all, or a group is spelt in several ways.
    """
    table = read_table(
        source, ("id",), None, (*FACTS, "absent"), how, remembered(database, "people")
    )
    if odd := [name for name in table.columns if folded(name) in ("round", "contacted")]:
        raise InvalidInput(
            f"{table.where} has a column {odd[0]!r}, which is of history; "
            "import it as history, or rename the column"
        )
    table = _split_absences(table)
    table.parse("id", identifier, np.int8)
    content = Content(table, "people", {})
    with database.writing() as connection:
        _, settings = current_settings(connection)
        facts, read_as = _facts(table, settings)
        people = load_people(connection)
        matches = match_people(people, table, add=True)
        refuse_repeats(table, matches.person)
        grouping, kept = _sorts_of_columns(table, read_as)
        for name in grouping:
            table.parse(name, group)
        table.refuse()
        spelt = [name for name in grouping if numbers_of(table.columns[name][0]) is None]
        table, read_as, notes = settle_twins(table, spelt, people, read_as)
        earlier = content.earlier(connection)
        if earlier is not None and not earlier.later:
            return earlier.imported
        merged = _merge(connection, table, facts, (grouping, kept), matches, people)
        changed = int(np.count_nonzero(merged.changed))
        if earlier is not None and not again:
            return replace(earlier.imported, superseded=changed)
        batch = content.new_batch(connection, changed, software, read_as=read_as)
        merged.append(connection, batch, matches)
        added = int(np.count_nonzero(merged.new))
        return Imported(
            batch,
            len(table),
            added,
            changed - added,
            before=False,
            groups=tuple(grouping),
            kept=tuple(kept),
            read_as=read_as,
            notes=(*reading_notes(table, matches), *notes),
        )


def _split_absences(table: Table) -> Table:
    """Make ``absent_from`` and ``absent_to`` from ``absent``: 12, 12-14, or two dates."""
    if "absent" not in table.columns:
        return table
    distinct, codes = table.columns["absent"]
    ends = []
    for text in distinct:
        for mark in (" to ", " until ", "..", "\u2013", " - "):
            first, mark_there, last = text.partition(mark)
            if mark_there:
                break
        else:
            first, last = (text, text) if not _is_span(text) else text.split("-")
        ends.append((first.strip(), last.strip() or "none"))
    columns = {name: column for name, column in table.columns.items() if name != "absent"}
    for j, name in enumerate(("absent_from", "absent_to")):
        columns[name] = ([end[j] for end in ends], codes)
    return replace(table, columns=columns)


def _is_span(text: str) -> bool:
    """Whether a text is two numbers of rounds, such as 12-14."""
    first, _, last = text.partition("-")
    return first.strip().isdecimal() and last.strip().isdecimal()


def _facts(table: Table, settings: Settings) -> tuple[dict[str, Ints], ReadAs]:
    """The FACTS that a file has, by name [rows]; and how dates were read."""
    facts, read_as = {}, table.read_as
    for name in FACTS:
        if name not in table.columns:
            continue
        if name == "opted_out":
            facts[name] = table.parse(name, flag)
            continue
        rounds, calendar, order = round_column(table, name, settings, read_as.dates, optional=True)
        facts[name] = rounds
        if calendar is not None:
            read_as = replace(read_as, dates=order)
        for row in np.flatnonzero(rounds > FAR * 10):
            table.fault(int(row), name, "is no round of this programme; give a round or a date")
    return facts, read_as


def _is_measure(distinct: list[str], codes: Ints) -> bool:
    """Whether a column measures something about people, such as age; not a name or telephone."""
    numbers = numbers_of(distinct)
    if numbers is None or any(LIKE_TELEPHONE.match(text) for text in distinct):
        return False
    is_number = np.isfinite(numbers)
    whole = bool((numbers[is_number] % 1 == 0).all())
    # Whole numbers of which everybody has a different one are more like identifiers.
    return not whole or int(is_number[codes].sum()) > int(is_number.sum())


def _sorts_of_columns(table: Table, read_as: ReadAs) -> tuple[list[str], list[str]]:
    """Which columns of a file of people are groups, and which are kept for worksheets."""
    told = {folded(name) for name in read_as.keep}
    grouping: list[str] = []
    kept: list[str] = []
    for name, (distinct, codes) in table.columns.items():
        if name in ("id", *FACTS):
            continue
        filled = int(np.count_nonzero([bool(text) for text in distinct]))
        personal = (
            len(codes) >= FEW
            and filled > PERSONAL * len(codes)
            and not _is_measure(distinct, codes)
        )
        (kept if folded(name) in told or personal else grouping).append(name)
    return grouping, kept


@dataclass(frozen=True, eq=False)
class _Merged:
    """The people of a file with what the file and the database say of them together; [rows]."""

    person: Ints
    new: NDArray[np.bool_]  # not known before
    changed: NDArray[np.bool_]  # new, or with another fact or group than before
    groups: list[str]  # JSON
    details: list[str]  # JSON
    facts: Mapping[str, Ints]

    def append(self, connection: Connection, batch: int, matches: Matches) -> None:
        """Write the new people, and the facts that changed, as part of a batch."""
        matches.add(connection, batch)
        rows = np.flatnonzero(self.changed)
        append(
            connection,
            schema.person_fact,
            {
                "person": self.person[rows],
                "batch": [batch] * len(rows),
                "groups": [self.groups[i] for i in rows],
                "enrolled": self.facts["enrolled"][rows],
                "departed": self.facts["left"][rows],
                "opted_out": self.facts["opted_out"][rows],
                "reserved": self.facts["reserved"][rows],
                "absent_from": self.facts["absent_from"][rows],
                "absent_to": self.facts["absent_to"][rows],
                "details": [self.details[i] for i in rows],
            },
            "people",
        )


def _merge(
    connection: Connection,
    table: Table,
    entries: Mapping[str, Ints],
    sorts: tuple[list[str], list[str]],
    matches: Matches,
    people: People,
) -> _Merged:
    person = matches.person
    new = np.isin(person, list(matches.added.values()))
    # New people refer to one place beyond the end, where nothing is known.
    place = np.where(new, people.n, person)
    known = {
        "enrolled": people.enrolled,
        "left": people.departed,
        "opted_out": np.maximum(people.opted_out, 0),  # unknown: no
        "reserved": people.reserved,
        "absent_from": people.absent_from,
        "absent_to": people.absent_to,
    }
    facts, changed = {}, new | np.isin(person, matches.again)
    for name, values in known.items():
        before = np.append(values, 0 if name == "opted_out" else UNKNOWN)[place]
        entry = entries.get(name, before)
        facts[name] = np.where(entry == CLEARED, UNKNOWN, np.where(entry == UNKNOWN, before, entry))
        changed |= facts[name] != before
    details = load_details(connection)
    details_of = [json.dumps(details.get(i, {}), ensure_ascii=False) for i in range(people.n)]
    texts = []
    for columns, texts_before in zip(
        sorts, ([*people.groups, "{}"], [*details_of, "{}"]), strict=True
    ):
        before_ = [texts_before[i] for i in place]
        texts.append(_merged_texts(table, columns, before_))
        differ = (now != then for now, then in zip(texts[-1], before_, strict=True))
        changed |= np.fromiter(differ, bool, len(before_))
    return _Merged(person, new, changed, texts[0], texts[1], facts)


def _merged_texts(table: Table, names: list[str], before: list[str]) -> list[str]:
    """Columns of each row as JSON: what was known before, overwritten by the entries of the file.

    Each combination of the two is put together once.
    """
    columns = [table.columns[name] for name in names]
    made: dict[tuple[Any, ...], str] = {}
    merged = []
    for combination in zip(before, *(codes.tolist() for _, codes in columns), strict=True):
        if combination not in made:
            old, *picked = combination
            entries = {
                name: distinct[i]
                for name, (distinct, _), i in zip(names, columns, picked, strict=True)
            }
            # An empty entry leaves what was known.
            known = {
                name: value for name, value in entries.items() if value.lower() not in NO_GROUP
            }
            made[combination] = json.dumps({**read_json(old), **known}, ensure_ascii=False)
        merged.append(made[combination])
    return merged
