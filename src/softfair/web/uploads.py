"""Files between upload and import: the meaning of each column, a rehearsal, then the import."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..for_json import read_json
from ..programme.batches import Imported
from ..programme.columns import ReadAs, match_columns, remembered
from ..programme.commands.shared import software
from ..programme.formats import read_format
from ..programme.imports import HISTORY, import_history, import_people
from ..programme.reading import FACTS, Upload
from ..programme.records import READ, record
from ..programme.store import Store

__all__ = ["KINDS", "Looked", "Options", "choose", "keep", "kept", "look", "take"]

KINDS = {
    "people": "people: who is in the programme, and their groups",
    "history": "history: states and contacts of earlier rounds",
    "record": "record: what happened in a round",
}
WANTED = {
    "people": ("id", *FACTS, "absent"),
    "history": ("id", "round", *HISTORY),
    "record": ("id", *READ),
}
SHOWN = 5  # rows of the file
HOUR = 3600.0  # age in seconds at which files are deleted, when another is uploaded

AS_GROUP, KEEP, IGNORE = "(group)", "(worksheets)", "(not read)"


@dataclass(frozen=True)
class Options:
    """How a file is to be imported."""

    kind: str
    columns: tuple[tuple[str, str], ...] = ()  # heading, and what the column means
    dates: str = ""
    twins: str = ""
    sheet: str = ""
    threshold: str = ""
    add_people: bool = False
    states_after: bool = False
    again: bool = False
    sure: bool = False
    close: bool = False
    round: int | None = None

    def read_as(self) -> ReadAs:
        """The options of reading, as the commands pass them."""
        special = (AS_GROUP, KEEP, IGNORE)
        return ReadAs(
            {ours: heading for heading, ours in self.columns if ours not in special},
            tuple(heading for heading, ours in self.columns if ours == KEEP),
            tuple(heading for heading, ours in self.columns if ours == IGNORE),
            self.dates or None,
            self.twins or None,
            self.sheet or None,
        )


@dataclass(frozen=True)
class Looked:
    """A file as it would be read."""

    columns: tuple[tuple[str, str], ...]  # heading, and what the column means
    choices: tuple[str, ...]  # what a column can mean
    rows: tuple[tuple[str, ...], ...]  # the first rows
    many: int  # number of all rows


def keep(spool: Path, who: str, name: str, data: bytes, kind: str) -> str:
    """Keep a file for its import, and delete files older than an hour; returns its key.

    Parameters
    ----------
    spool
        The folder.
    who
        The account that uploads it.
    name, data
        Of the file.
    kind
        One of `KINDS`.

    Raises
    ------
    InvalidInput
        If there is no file, or no such kind.
    """
    if kind not in KINDS:
        raise InvalidInput(f"the kind is {kind!r}; choose {', '.join(KINDS)}")
    if not data:
        raise InvalidInput("choose a file that is not empty")
    for old in spool.glob("*"):
        if time.time() - old.stat().st_mtime > HOUR:
            old.unlink(missing_ok=True)
    key = secrets.token_hex(16)
    _write(spool / f"{key}.data", data)
    _write_about(spool, key, {"who": who, "name": Path(name).name}, Options(kind))
    return key


def _write(path: Path, content: bytes) -> None:
    """Write a file that nobody else reads, whole or not at all."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
    os.replace(new, path)


def _write_about(spool: Path, key: str, whose: dict[str, Any], options: Options) -> None:
    _write(spool / f"{key}.json", json.dumps({**whose, "options": asdict(options)}).encode())


def choose(spool: Path, who: str, key: str, options: Options) -> None:
    """Remember how a file that was kept is to be imported.

    Parameters
    ----------
    spool, who, key
        As in `kept`.
    options
        What was chosen.
    """
    file, _ = kept(spool, who, key)
    _write_about(spool, key, {"who": who, "name": file.name}, options)


def kept(spool: Path, who: str, key: str) -> tuple[Upload, Options]:
    """A file that was kept, and how it is to be imported.

    Parameters
    ----------
    spool
        The folder.
    who
        The account that asks.
    key
        Of the file.

    Raises
    ------
    InvalidInput
        If it is not there any more, or another account uploaded it.
    """
    gone = InvalidInput("that file is not here any more; choose it again")
    if not re.fullmatch("[0-9a-f]{32}", key):
        raise gone
    try:
        about = read_json((spool / f"{key}.json").read_text())
        data = (spool / f"{key}.data").read_bytes()
    except FileNotFoundError:
        raise gone from None
    if about["who"] != who:
        raise gone
    chosen = about["options"]
    columns = tuple((heading, ours) for heading, ours in chosen["columns"])
    return Upload(about["name"], data), Options(**{**chosen, "columns": columns})


def look(database: Store, file: Upload, options: Options) -> Looked:
    """What the columns of a file mean, and its first rows.

    Parameters
    ----------
    database
        The programme, which remembers how earlier files were read.
    file
        The file.
    options
        What was chosen; without ``columns``, their meanings are guessed.
    """
    wanted, special = WANTED[options.kind], (AS_GROUP, KEEP) if options.kind == "people" else ()
    raw = read_format(io.BytesIO(file.data), file.name, options.sheet or None)
    columns = options.columns
    if not columns:
        before = remembered(database, options.kind)
        names, _ = match_columns(raw.names, wanted, before, ReadAs(), file.name)
        other = AS_GROUP if options.kind == "people" else IGNORE
        columns = tuple((heading, names.get(heading, other)) for heading in raw.names)
    shown = raw.table.slice(0, SHOWN)
    cells = [["" if v is None else str(v) for v in column.to_pylist()] for column in shown.columns]
    rows = tuple(zip(*cells, strict=True))
    return Looked(columns, (*wanted, *special, IGNORE), rows, len(raw.lines))


def take(database: Store, file: Upload, options: Options) -> Imported:
    """Import a file, as the commands `import` and `record` do.

    Parameters
    ----------
    database
        The programme; in a rehearsal nothing is written.
    file
        The file.
    options
        How it is to be imported.
    """
    how, given = options.read_as(), (database, file, software())
    if options.kind == "people":
        return import_people(*given, options.again, how)
    threshold = options.threshold or None
    if options.kind == "history":
        return import_history(
            *given,
            threshold,
            options.add_people,
            options.again,
            how,
            options.sure,
            options.states_after,
        )
    return record(*given, options.round, threshold, options.again, how, options.sure, options.close)
