"""From a file to the database: people, history, and what happened in a round.

A file is CSV (comma, semicolon or tab; UTF-8) or Parquet. It is checked whole before anything is written: each bad entry is listed with its
line, column, value and what to do, and then nothing is imported. What a file says again is not stored again; what it says differently
supersedes, and the earlier entry is kept.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import BadRows, Fault, InvalidInput
from ..progress import say
from . import store
from .settings import Settings, current_settings
from .store import Connection, Store, append, fetch, names_of, plan_in_force

__all__ = [
    "History",
    "Imported",
    "People",
    "import_history",
    "import_people",
    "load_history",
    "load_people",
    "read_table",
    "record",
]

Ints = NDArray[np.int64]

UNKNOWN = -1  # a state or contact that was not observed, a round that is not set
WRONG = -2
CLEARED = -3  # said to be set no longer
FAR = 1000  # rounds without any observation, beyond which a round is taken for a slip or a date
FACTS = ("enrolled", "left", "opted_out", "reserved")
COLUMNS = ("id", "round", "state", "value", "contacted", *FACTS)
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)  # controls, and marks that turn text around
WORDS = {"1": 1, "yes": 1, "true": 1, "y": 1, "t": 1, "0": 0, "no": 0, "false": 0, "n": 0, "f": 0}
WORKSHEET = (
    "round",
    "listed",
    "probability",
    "score",
    "state_now",
    "status",
    "site",
    "reason",
)  # of an exported plan; not read
BATCH = 2**18  # batch * BATCH + state and contact: one number more
MANY = 1_000_000  # rows, from which on they take seconds
STRIDE = 2**31  # person * STRIDE + round: one number a person and round


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    batch: int
    rows: int  # in the file
    added: int
    corrected: int
    before: bool  # the same content was taken already, so that nothing changed
    details: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0  # of a file that was taken before: entries that have been corrected since
    groups: tuple[str, ...] = ()  # columns of people that were taken as groups

    @property
    def unchanged(self) -> int:
        return self.rows - self.added - self.corrected


# Reading a file.


@dataclass(frozen=True)
class Table:
    """A file as text: for each column the distinct entries and which of them each row has."""

    where: str
    digest: str
    columns: Mapping[str, tuple[list[str], Ints]]  # name -> (distinct, codes [rows])
    lines: Ints  # [rows]
    faults: list[Fault]

    def __len__(self) -> int:
        return len(self.lines)

    def parse(self, column: str, read: Callable[[str], int]) -> Ints:
        """The column by a function of one entry, [rows]; what it refuses (ValueError) becomes faults and WRONG."""
        distinct, codes = self.columns[column]
        values = np.empty(len(distinct), np.int64)
        problems: dict[int, str] = {}
        for i, text in enumerate(distinct):
            try:
                values[i] = read(text)
            except ValueError as problem:
                values[i], problems[i] = WRONG, str(problem)
        parsed: Ints = values[codes]
        for row in np.flatnonzero(parsed == WRONG):
            self.faults.append(
                Fault(int(self.lines[row]), column, distinct[codes[row]], problems[int(codes[row])])
            )
        return parsed

    def refuse(self) -> None:
        """Stop if anything was wrong."""
        if self.faults:
            raise BadRows(self.where, sorted(self.faults, key=lambda fault: fault.line))


def read_table(
    source: str | Path | bytes, required: tuple[str, ...], known: tuple[str, ...] | None = None
) -> Table:
    """A CSV or Parquet file, standard input for ``-``, or its bytes. ``known``: the only columns allowed besides; None: any."""
    where, data = _bytes(source)
    if len(data) > 20 * MANY:  # bytes, of which a row has some twenty
        say(f"checking {where}, {len(data) / 2**20:.0f} MiB ...")
    import pyarrow as pa
    import pyarrow.compute as pc

    faults: list[Fault] = []
    try:
        table, lines = _parquet(data) if data[:4] == b"PAR1" else _csv(data, where, faults)
        names = table.column_names
    except (
        pa.ArrowException,
        OSError,
        csv.Error,
        UnicodeDecodeError,
    ) as error:  # what a damaged Parquet file brings
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{where} is not a CSV or Parquet table ({reason}); nothing was imported"
        ) from None
    names = [_heading(name, where) for name in names]
    _check_columns(names, required, known, where)
    columns = {}
    for name, column in zip(names, table.columns, strict=True):
        try:
            text = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(column, pa.string()), ""))
        except pa.ArrowException:
            raise InvalidInput(
                f"{where}: column {name} is a {column.type}; give text or numbers"
            ) from None
        encoded = pc.dictionary_encode(text).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # what an empty column combines to
            encoded = (
                encoded.chunk(0)
                if encoded.num_chunks
                else pa.array([], pa.string()).dictionary_encode()
            )
        columns[name] = (
            encoded.dictionary.to_pylist(),
            encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        )
    if not len(lines) and not faults:
        raise InvalidInput(f"{where} has no rows; nothing was imported")
    return Table(where, hashlib.sha256(data).hexdigest(), columns, lines, faults)


def _bytes(source: str | Path | bytes) -> tuple[str, bytes]:
    if isinstance(source, bytes):
        return "the data", source
    if str(source) == "-":
        return "standard input", sys.stdin.buffer.read()
    try:
        return Path(source).name, Path(source).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no file {source}; give a CSV or Parquet file, or - for standard input"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read {source}: {reason}; give a CSV or Parquet file") from None


def _parquet(data: bytes) -> tuple[Any, Ints]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    return table, np.arange(1, len(table) + 1)


def _csv(data: bytes, where: str, faults: list[Fault]) -> tuple[Any, Ints]:
    """The table as text, with the line of each row; rows with too few or too many entries go to the faults, blank lines are skipped."""
    import pyarrow as pa
    import pyarrow.csv

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"{where}: line {line} is not UTF-8 text; save the file as UTF-8; nothing was imported"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidInput(
            f"{where}: line {line} has a zero byte, so it is no text; save it as CSV; nothing was imported"
        )
    heading = text.partition("\n")[0].strip("\r")
    if not heading.strip():
        raise InvalidInput(
            f"{where} does not begin with the names of its columns; nothing was imported"
        )
    delimiter = max(",;\t", key=heading.count)
    names = [name.strip() for name in next(csv.reader([heading], delimiter=delimiter))]
    if len(set(names)) < len(names) and all(names):
        again = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{where} has the column {again!r} twice; rename one")
    if not all(names):
        raise InvalidInput(
            f"{where}: column {names.index('') + 1} of the heading has no name; name it, or remove it and a {delimiter!r}"
        )
    skipped = []

    def note(row: Any) -> str:
        skipped.append(row.number)
        has = f"has {row.actual_columns} entries, the heading has {row.expected_columns}"
        faults.append(
            Fault(
                row.number, "", row.text[:60], f"{has}; quote entries that contain a {delimiter!r}"
            )
        )
        return "skip"

    table = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        pyarrow.csv.ReadOptions(
            use_threads=False, column_names=names, skip_rows=1
        ),  # one thread: rows are then numbered
        pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=note,
        ),
        pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    count = len(table) + len(skipped)
    lines = np.delete(np.arange(2, count + 2), np.array(skipped, dtype=np.int64) - 2)
    blank = np.ones(len(table), bool)
    for name in names:
        blank &= np.asarray(pa.compute.equal(table[name], ""))
    if blank.any():
        table, lines = table.filter(pa.array(~blank)), lines[~blank]
    return table, lines


def _heading(name: str, where: str) -> str:
    """A column's name; one that is known counts whatever its case, spaces and hyphens, and one that is nearly known is refused."""
    folded = re.sub(r"[\s_-]+", "_", name.strip().lower())
    if folded in COLUMNS:
        return folded
    if near := difflib.get_close_matches(
        folded.replace("_", ""), [column.replace("_", "") for column in FACTS], 1, 0.8
    ):
        fact = next(column for column in FACTS if column.replace("_", "") == near[0])
        raise InvalidInput(
            f"{where} has a column {name!r}; is that {fact}? rename it to that, or to something else; nothing was imported"
        )
    if UNPRINTABLE.search(name):
        raise InvalidInput(
            f"{where} has a column {name!r} with a control character; rename it; nothing was imported"
        )
    return name.strip()


def _check_columns(
    found: list[str], required: tuple[str, ...], known: tuple[str, ...] | None, where: str
) -> None:
    missing = [name for name in required if name not in found]
    if not all(found):
        raise InvalidInput(f"{where} has a column without a name; name it or remove it")
    if len(set(found)) < len(found):
        again = next(name for name in found if found.count(name) > 1)
        raise InvalidInput(f"{where} has the column {again!r} twice; rename one")
    if missing:
        raise InvalidInput(
            f"{where} has no column {missing[0]!r} (it has {', '.join(map(repr, found[:8]))}); nothing was imported"
        )
    extra = [] if known is None else [name for name in found if name not in (*required, *known)]
    if extra:
        expected = ", ".join((*required, *(known or ())))
        raise InvalidInput(
            f"{where} has a column {extra[0]!r} that is not known here; expected {expected}; nothing was imported"
        )


# One entry each. What is wrong is said as: the problem; what to do.


def _identifier(text: str) -> int:
    if not text:
        raise ValueError("is empty; give each person an identifier")
    if UNPRINTABLE.search(text):
        raise ValueError("has a line break or control character; give plain text")
    return 0


def _group(text: str) -> int:
    return _identifier(text) if text else 0


def _round(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,10})(\.0+)?", text)
    if not match or int(match[1]) >= STRIDE:
        raise ValueError("is no round; give a whole number of at least 0")
    return int(match[1])


def _optional_round(text: str) -> int:
    if text.lower() == "none":
        return CLEARED
    return _round(text) if text else UNKNOWN


def _flag(text: str) -> int:
    if not text:
        return UNKNOWN
    if text.lower() not in WORDS:
        raise ValueError("is neither yes nor no; give 1 or 0, or nothing if it is not known")
    return WORDS[text.lower()]


def _state_reader(states: tuple[str, ...]) -> Callable[[str], int]:
    by_name = {name.lower(): s for s, name in enumerate(states)}
    if not any(
        re.fullmatch(r"[-+]?[0-9.]+", name) for name in states
    ):  # else "1" is a name, and may be another state's number
        by_name |= {str(s): s for s in range(len(states))}

    def read(text: str) -> int:
        if not text:
            return UNKNOWN
        if text.lower() not in by_name:
            choices = ", ".join(
                f"{s} or {name}" if str(s) in by_name and str(s) != name else name
                for s, name in enumerate(states)
            )
            raise ValueError(f"is no state; give {choices}, or nothing if it is not known")
        return by_name[text.lower()]

    return read


def _threshold_reader(threshold: str, states: tuple[str, ...]) -> Callable[[str], int]:
    match = re.fullmatch(r"\s*(>=|<=)?\s*([-+0-9.eE]+)\s*", threshold)
    try:
        limit = float(match[2]) if match else float("nan")
    except ValueError:
        limit = float("nan")
    if limit != limit or match is None:
        raise InvalidInput(
            f"the threshold is {threshold!r}; give a number such as 4 (good from 4 up) or '<=3' (good up to 3)"
        )
    if len(states) != 2:
        raise InvalidInput(
            f"a threshold tells two states apart, the programme has {len(states)}; give states by name"
        )
    sign = -1 if match[1] == "<=" else 1

    def read(text: str) -> int:
        if not text:
            return UNKNOWN
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value:
            raise ValueError("is no number; give a number, or nothing if it is not known")
        return int(sign * value >= sign * limit)

    return read


def _states(table: Table, settings: Settings, threshold: str | None) -> Ints | None:
    """The column of states, named or by a number and its threshold; None if there is none."""
    if "value" in table.columns and "state" in table.columns:
        raise InvalidInput(f"{table.where} has both a state and a value; leave one out")
    if "value" in table.columns:
        if threshold is None:
            raise InvalidInput(
                f"{table.where} has a column value; say from where on it is good, such as --threshold 4 or '<=3'"
            )
        return table.parse("value", _threshold_reader(threshold, settings.states))
    if threshold is not None:
        raise InvalidInput(
            f"a threshold was given, but {table.where} has no column value; rename the column of numbers to value"
        )
    return (
        table.parse("state", _state_reader(settings.states)) if "state" in table.columns else None
    )


# What the database holds.


@dataclass(frozen=True, eq=False)
class People:
    """Everybody, in the order of their number; what is in force of what was said about them."""

    names: list[str]
    groups: list[str]  # JSON
    enrolled: Ints  # [n]; UNKNOWN: not set
    departed: Ints
    opted_out: Ints
    reserved: Ints

    @property
    def n(self) -> int:
        return len(self.names)

    def columns(self) -> list[str]:
        """Names of the group columns, in the order they came."""
        return list(
            dict.fromkeys(name for text in dict.fromkeys(self.groups) for name in json.loads(text))
        )

    def group(self, column: str) -> tuple[list[str], Ints]:
        """The values of a group column and which of them each person has [n]; who has none has the value ''."""
        if column not in (columns := self.columns()):
            known = ", ".join(columns) if columns else "none: import people with such a column"
            raise InvalidInput(f"there is no group column {column!r}; known: {known}")
        distinct = {text: json.loads(text).get(column, "") for text in dict.fromkeys(self.groups)}
        values = sorted(set(distinct.values()))
        place = {text: values.index(value) for text, value in distinct.items()}
        return values, np.array([place[text] for text in self.groups], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class History:
    """What was observed, sorted by person and round; UNKNOWN where it was not. Arrays [m]."""

    person: Ints
    round: Ints
    state: Ints
    contacted: Ints

    @property
    def key(self) -> Ints:
        return self.person * STRIDE + self.round

    def of(self, round: int, n: int) -> tuple[Ints, Ints]:
        """State and contact of each of n people in a round [n]; UNKNOWN where there is none."""
        rows = np.flatnonzero(self.round == round)
        state, contacted = np.full(n, UNKNOWN, np.int64), np.full(n, UNKNOWN, np.int64)
        state[self.person[rows]], contacted[self.person[rows]] = (
            self.state[rows],
            self.contacted[rows],
        )
        return state, contacted


def how_many(database: Store) -> int:
    """People in the programme."""
    with database.reading() as connection:
        return int(
            connection.execute(sa.select(sa.func.count()).select_from(store.person)).scalar_one()
        )


def load_people(connection: Connection) -> People:
    names = names_of(connection)
    f = store.person_fact
    groups = ["{}"] * len(names)
    facts = [[UNKNOWN] * 4 for _ in names]
    columns = [
        f.c.person,
        f.c.groups,
        *(
            sa.func.coalesce(c, UNKNOWN)
            for c in (f.c.enrolled, f.c.departed, f.c.opted_out, f.c.reserved)
        ),
    ]
    for person, group, *fact in connection.execute(
        sa.select(*columns).order_by(f.c.batch)
    ):  # a later batch overwrites
        groups[person], facts[person] = group, fact
    return People(names, groups, *np.array(facts, dtype=np.int64).reshape(-1, 4).T.copy())


def load_history(connection: Connection, first: int = 0, last: int = STRIDE - 1) -> History:
    """Observations of rounds first to last, each as the latest batch that knew it says."""
    o = store.observation
    if (many := connection.execute(sa.select(sa.func.count()).select_from(o)).scalar_one()) > MANY:
        say(f"reading {many:,} entries of history ...")
    key = sa.cast(o.c.person, sa.BigInteger) * STRIDE + o.c.round
    told = (
        (sa.func.coalesce(o.c.state, UNKNOWN) + 1) * 4
        + sa.func.coalesce(o.c.contacted, UNKNOWN)
        + 1
    )
    packed = sa.cast(o.c.batch, sa.BigInteger) * BATCH + told
    # Two numbers a row, not five: most of the time goes into making Python's numbers. Sorted here, for PostgreSQL would sort on disk.
    rows = fetch(connection, sa.select(key, packed).where(o.c.round.between(first, last)), np.int64)
    ascending = np.diff(rows[:, 0])
    if not ((ascending > 0) | ((ascending == 0) & (np.diff(rows[:, 1]) > 0))).all():
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]  # by person and round, then by batch
    if not len(rows):
        return History(*np.empty((4, 0), np.int64))
    keys, states, contacts = rows[:, 0], rows[:, 1] % BATCH // 4 - 1, rows[:, 1] % 4 - 1
    starts = np.flatnonzero(np.diff(keys, prepend=-1))  # of each person and round

    def latest_known(column: Ints) -> Ints:
        place = np.maximum.reduceat(np.where(column >= 0, np.arange(len(column)), -1), starts)
        return np.where(place >= 0, column[place], UNKNOWN)

    return History(
        keys[starts] // STRIDE, keys[starts] % STRIDE, latest_known(states), latest_known(contacts)
    )


# Writing.


def import_people(
    database: Store, source: str | Path | bytes, software: str, again: bool = False
) -> Imported:
    """People: ``id``, group columns of any name, and optionally ``enrolled``, ``left``, ``opted_out``, ``reserved`` (rounds, yes or no).

    An empty entry leaves what was known as it was; ``none`` clears a round.
    """
    table = read_table(source, ("id",))
    named = table.parse("id", _identifier)
    grouping = [name for name in table.columns if name not in COLUMNS]
    if odd := [
        name for name in table.columns if name in COLUMNS and name != "id" and name not in FACTS
    ]:
        raise InvalidInput(
            f"{table.where} has a column {odd[0]!r}, which is of history; import it as history, or rename the column"
        )
    facts = {
        name: table.parse(name, _flag if name == "opted_out" else _optional_round)
        for name in FACTS
        if name in table.columns
    }
    for name in grouping:
        table.parse(name, _group)
    names, codes = table.columns["id"]
    _refuse_repeats(table, named)
    table.refuse()
    ids = [names[code] for code in codes]
    with database.writing() as connection:
        earlier, later = _known(connection, table, "people", {})
        if earlier is not None and not later:
            return earlier
        people = load_people(connection)
        number = {name: i for i, name in enumerate(people.names)}
        person = np.array([number.get(name, UNKNOWN) for name in ids], dtype=np.int64)
        new = person == UNKNOWN
        person[new] = people.n + np.arange(new.sum())

        def merged(name: str, before: Ints) -> Ints:
            """The fact for each row: what the file says, else what was known."""
            was = np.where(
                new, UNKNOWN, before[np.minimum(person, people.n - 1)] if people.n else UNKNOWN
            )
            said = facts.get(name, was)
            return np.where(said == CLEARED, UNKNOWN, np.where(said == UNKNOWN, was, said))

        enrolled, left = merged("enrolled", people.enrolled), merged("left", people.departed)
        opted_out, reserved = (
            np.maximum(merged("opted_out", people.opted_out), 0),
            merged("reserved", people.reserved),
        )
        groups = _merged_groups(
            table, grouping, ["{}" if new[i] else people.groups[p] for i, p in enumerate(person)]
        )
        changed = new.copy()
        for i in np.flatnonzero(~new):
            p = person[i]
            was = (
                people.groups[p],
                people.enrolled[p],
                people.departed[p],
                max(people.opted_out[p], 0),
                people.reserved[p],
            )
            changed[i] = was != (groups[i], enrolled[i], left[i], opted_out[i], reserved[i])
        if earlier is not None and not again:
            return replace(earlier, superseded=int(changed.sum()))
        batch = _new_batch(connection, table, "people", {}, int(changed.sum()), None, software)
        fresh = np.flatnonzero(new)
        append(
            connection,
            store.person,
            {"id": person[fresh], "name": [ids[i] for i in fresh], "batch": [batch] * len(fresh)},
        )
        rows = np.flatnonzero(changed)
        append(
            connection,
            store.person_fact,
            {
                "person": person[rows],
                "batch": [batch] * len(rows),
                "groups": [groups[i] for i in rows],
                "enrolled": enrolled[rows],
                "departed": left[rows],
                "opted_out": opted_out[rows],
                "reserved": reserved[rows],
            },
            "people",
        )
        return Imported(
            batch,
            len(table),
            int(new.sum()),
            int((changed & ~new).sum()),
            before=False,
            groups=tuple(grouping),
        )


def import_history(
    database: Store,
    source: str | Path | bytes,
    software: str,
    threshold: str | None = None,
    add_people: bool = False,
    again: bool = False,
) -> Imported:
    """History: ``id``, ``round``, ``state`` (or ``value`` with a threshold) at its start, ``contacted`` during it; empty is unknown."""
    table = read_table(source, ("id", "round"), ("state", "value", "contacted"))
    named = table.parse("id", _identifier)
    rounds = table.parse("round", _round)
    contacted = (
        table.parse("contacted", _flag)
        if "contacted" in table.columns
        else np.full(len(table), UNKNOWN, np.int64)
    )
    options = {"threshold": threshold}
    with database.writing() as connection:
        _, settings = current_settings(connection)
        states = _states(table, settings, threshold)
        _refuse_repeats(table, named, rounds)
        _refuse_far(connection, table, rounds)
        earlier, later = _known(connection, table, "history", options)
        if earlier is not None and not later:
            return earlier
        person, added = _numbers_of(connection, table, add_people)
        table.refuse()
        state = states if states is not None else np.full(len(table), UNKNOWN, np.int64)
        news = _news(connection, person, rounds, state, contacted)
        if earlier is not None and not again:
            return replace(earlier, superseded=news.stored)
        batch = _new_batch(connection, table, "history", options, news.stored, None, software)
        _enrol(connection, added, batch)
        news.append(connection, batch)
        return Imported(
            batch, len(table), news.stored - news.corrected, news.corrected, before=False
        )


def record(
    database: Store,
    source: str | Path | bytes,
    software: str,
    round: int | None = None,
    threshold: str | None = None,
    again: bool = False,
) -> Imported:
    """What happened in a round: ``id``, ``contacted``, and ``state`` or ``value`` reached; a file of identifiers alone names the contacted.

    The first record of a round is taken to name all who were contacted: who is not in it was not. A later one corrects only whom it names.
    The round is what a column ``round`` says (an exported plan has one), else the first that was planned and not recorded.
    """
    table = read_table(source, ("id",), ("contacted", "state", "value", *WORKSHEET))
    named = table.parse("id", _identifier)
    said = (
        table.parse("round", _optional_round) if "round" in table.columns else np.empty(0, np.int64)
    )
    implied = UNKNOWN if {"state", "value"} & set(table.columns) else 1
    contacted = (
        table.parse("contacted", _flag)
        if "contacted" in table.columns
        else np.full(len(table), implied, np.int64)
    )
    with database.writing() as connection:
        _, settings = current_settings(connection)
        states = _states(table, settings, threshold)
        _refuse_repeats(table, named)
        at = _round_of(connection, table, said[said >= 0], round)
        options = {"threshold": threshold, "round": at}
        earlier, later = _known(connection, table, "record", options)
        if earlier is not None and not later:
            return earlier
        person, _ = _numbers_of(connection, table, add_people=False)
        table.refuse()
        people = load_people(connection)
        o = store.observation
        first = connection.execute(
            sa.select(o.c.person).where(o.c.round == at, o.c.contacted.is_not(None)).limit(1)
        ).first()
        here = (people.enrolled <= at) & ((people.departed == UNKNOWN) | (people.departed > at))
        others = (
            np.setdiff1d(np.flatnonzero(here), person) if first is None else np.empty(0, np.int64)
        )
        if first is None:
            contacted = np.maximum(contacted, 0)
        rows = [
            (person, at, np.full(len(person), UNKNOWN), contacted),
            (others, at, np.full(len(others), UNKNOWN), np.zeros(len(others))),
        ]
        if states is not None:
            rows.append((person, at + 1, states, np.full(len(person), UNKNOWN)))
        who = np.concatenate([row[0] for row in rows])
        when = np.concatenate([np.full(len(row[0]), row[1]) for row in rows])
        state, contact = (np.concatenate([row[j] for row in rows]).astype(np.int64) for j in (2, 3))
        told = (state >= 0) | (contact >= 0)
        news = _news(connection, who[told], when[told], state[told], contact[told])
        if earlier is not None and not again:
            return replace(earlier, superseded=news.stored)
        batch = _new_batch(connection, table, "record", options, news.stored, at, software)
        news.append(connection, batch)
        r = store.plan_row
        listed = set(
            connection.execute(
                sa.select(r.c.person).where(
                    r.c.plan == plan_in_force(connection, at), r.c.listed == 1
                )
            ).scalars()
        )
        reached = set(person[contacted == 1].tolist())
        details = {
            "round": at,
            "contacted": len(reached),
            "listed": len(listed),
            "not_reached": len(listed - reached)
            if first is None
            else len(listed & set(person[contacted == 0].tolist())),
            "off_list": len(reached - listed),
            "absent": len(others),
        }
        return Imported(
            batch,
            len(table),
            news.stored - news.corrected,
            news.corrected,
            before=False,
            details=details,
        )


def _round_of(connection: Connection, table: Table, said: Ints, asked: int | None) -> int:
    """The round that a record is of."""
    if len(said) and said.min() != said.max():
        raise InvalidInput(
            f"{table.where} is of rounds {said.min()} to {said.max()}; record one round at a time"
        )
    if len(said) and asked is not None and said[0] != asked:
        raise InvalidInput(
            f"{table.where} is of round {said[0]}, not of round {asked}; leave --round out, or mend the file"
        )
    if len(said):
        return int(said[0])
    if asked is not None:
        return asked
    p, o = store.plan, store.observation
    planned = (
        connection.execute(sa.select(p.c.round).distinct().order_by(p.c.round)).scalars().all()
    )
    if not planned:
        raise InvalidInput(
            "no round has been planned; say which round this was, such as --round 21"
        )
    recorded = set(
        connection.execute(
            sa.select(o.c.round)
            .where(o.c.round >= planned[0], o.c.contacted.is_not(None))
            .distinct()
        ).scalars()
    )
    return int(next((r for r in planned if r not in recorded), planned[-1]))


def _refuse_repeats(table: Table, ids: Ints, rounds: Ints | None = None) -> None:
    """A person (and round) may be named once a file; entries that are wrong already are not counted again."""
    column = "id" if rounds is None else "round"
    rows = np.flatnonzero((ids != WRONG) & (True if rounds is None else rounds != WRONG))
    key = table.columns["id"][1][rows] * STRIDE + (0 if rounds is None else rounds[rows])
    if np.diff(np.sort(key)).all():  # the usual case, in a tenth of the time
        return
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    entries, codes = table.columns[column]
    for i in np.flatnonzero(first[inverse] != np.arange(len(key))):
        row, line = rows[i], table.lines[rows[first[inverse[i]]]]
        problem = f"is there already, for the same person, on line {line}; keep one"
        table.faults.append(Fault(int(table.lines[row]), column, entries[codes[row]], problem))


def _refuse_far(connection: Connection, table: Table, rounds: Ints) -> None:
    """Rounds are consecutive numbers: one that lies far beyond all others is a slip, or a date."""
    known = connection.execute(sa.select(sa.func.max(store.observation.c.round))).scalar()
    distinct = np.unique(np.append(rounds[rounds >= 0], [] if known is None else [known])).astype(
        np.int64
    )
    gaps = np.flatnonzero(np.diff(distinct) > FAR)
    if not len(gaps):
        return
    last = int(distinct[gaps[0]])
    entries, codes = table.columns["round"]
    for row in np.flatnonzero(rounds > last + FAR):
        problem = (
            f"is more than {FAR} rounds after round {last}; number the rounds one after another"
        )
        table.faults.append(Fault(int(table.lines[row]), "round", entries[codes[row]], problem))


def _numbers_of(
    connection: Connection, table: Table, add_people: bool
) -> tuple[Ints, dict[str, int]]:
    """The number of the person of each row [rows], and who is new (if they may be added; else each is a fault)."""
    number: dict[str, int] = {
        row.name: row.id
        for row in connection.execute(sa.select(store.person.c.name, store.person.c.id))
    }
    names, codes = table.columns["id"]
    added: dict[str, int] = {}
    known = np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        if (
            name not in number and name[:1] == "'" and name[1:] in number
        ):  # an export's guard against formulas
            name = name[1:]
        if name not in number and add_people:
            added[name] = number[name] = len(number)
        known[i] = number.get(name, UNKNOWN)
    guarded = [
        i
        for i, name in enumerate(names)
        if name[:1] == "'" and known[i] >= 0 and np.count_nonzero(known == known[i]) > 1
    ]
    for row in np.flatnonzero(np.isin(codes, guarded)):
        problem = "is there already without the apostrophe; keep one"
        table.faults.append(Fault(int(table.lines[row]), "id", names[codes[row]], problem))
    person: Ints = known[codes]
    for row in np.flatnonzero(person == UNKNOWN):
        if names[codes[row]]:
            problem = "is not a person of this programme; import people first, or add --add-people to history"
            table.faults.append(Fault(int(table.lines[row]), "id", names[codes[row]], problem))
    return person, added


def _enrol(connection: Connection, added: Mapping[str, int], batch: int) -> None:
    """People of whom nothing is known but their identifier."""
    if added:
        append(
            connection,
            store.person,
            {"id": list(added.values()), "name": list(added), "batch": [batch] * len(added)},
        )


@dataclass(frozen=True, eq=False)
class _News:
    """Entries that say something new or different, sorted by person and round; arrays [m]."""

    person: Ints
    round: Ints
    state: Ints
    contacted: Ints
    corrected: int  # of these, how many contradict what was known

    @property
    def stored(self) -> int:
        return len(self.person)

    def append(self, connection: Connection, batch: int) -> None:
        columns = {"person": self.person, "round": self.round, "batch": np.full(self.stored, batch)}
        append(
            connection,
            store.observation,
            {**columns, "state": self.state, "contacted": self.contacted},
            "history",
        )


def _news(
    connection: Connection, person: Ints, rounds: Ints, state: Ints, contacted: Ints
) -> _News:
    """What of these entries, one a person and round, is not known already."""
    if not len(person):
        return _News(person, rounds, state, contacted, 0)
    order = np.argsort(person * STRIDE + rounds, kind="stable")
    person, rounds, state, contacted = (
        column[order] for column in (person, rounds, state, contacted)
    )
    before = load_history(connection, int(rounds.min()), int(rounds.max()))
    key, known = (
        person * STRIDE + rounds,
        np.append(before.key, -1),
    )  # the last one is nobody's: where no other matches
    place = np.searchsorted(before.key, key)
    place[known[place] != key] = len(known) - 1
    new, corrected = place == len(known) - 1, np.zeros(len(key), bool)
    for now, then in ((state, before.state), (contacted, before.contacted)):
        was = np.append(then, UNKNOWN)[place]
        new |= (now >= 0) & (now != was)
        corrected |= (now >= 0) & (was >= 0) & (now != was)
    return _News(
        person[new], rounds[new], state[new], contacted[new], int(np.count_nonzero(corrected))
    )


def _merged_groups(table: Table, grouping: list[str], before: list[str]) -> list[str]:
    """Groups of each row as JSON: what was known, overwritten by the columns of the file; each combination is put together once."""
    made: dict[tuple[Any, ...], str] = {}
    columns = [table.columns[name] for name in grouping]
    combined = zip(before, *(codes.tolist() for _, codes in columns), strict=True)
    out = []
    for combination in combined:
        if combination not in made:
            old, *picked = combination
            new = {
                name: entries[i]
                for name, (entries, _), i in zip(grouping, columns, picked, strict=True)
            }
            known = {
                name: value for name, value in new.items() if value
            }  # an empty entry leaves what was known
            made[combination] = json.dumps({**json.loads(old), **known}, ensure_ascii=False)
        out.append(made[combination])
    return out


def _content(table: Table, kind: str, options: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        f"{kind} {table.digest} {json.dumps(options, sort_keys=True)}".encode()
    ).hexdigest()


def _known(
    connection: Connection, table: Table, kind: str, options: Mapping[str, Any]
) -> tuple[Imported | None, bool]:
    """The last batch of the same content, if there is one, and whether others came after it."""
    same = store.batch.c.digest.startswith(_content(table, kind, options))
    row = connection.execute(
        sa.select(store.batch).where(same).order_by(store.batch.c.id.desc()).limit(1)
    ).first()
    if row is None:
        return None, False
    latest = connection.execute(sa.select(sa.func.max(store.batch.c.id))).scalar_one()
    return Imported(row.id, row.rows, 0, 0, before=True), latest > row.id


def _new_batch(
    connection: Connection,
    table: Table,
    kind: str,
    options: Mapping[str, Any],
    stored: int,
    round: int | None,
    software: str,
) -> int:
    digest = _content(table, kind, options)
    taken = connection.execute(
        sa.select(sa.func.count())
        .select_from(store.batch)
        .where(store.batch.c.digest.startswith(digest))
    )
    if times := taken.scalar_one():  # the same content again, on purpose
        digest += f"+{times}"
    values = {"kind": kind, "digest": digest, "rows": len(table), "stored": stored, "round": round}
    result = connection.execute(
        store.batch.insert().values(created=store.now(), software=software, **values)
    )
    return int(result.inserted_primary_key[0])  # type: ignore[index]
