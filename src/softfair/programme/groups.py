"""Spellings of a group: Pune, pune and Puné may be one place or three."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import replace

from ..errors import InvalidInput
from .columns import APART, TOGETHER, ReadAs
from .reading import Table
from .snapshot import People

__all__ = ["settle_twins"]


def _plain(value: str) -> str:
    """A value without case, accents, marks and spaces."""
    letters = unicodedata.normalize("NFKD", value.casefold())
    return "".join(letter for letter in letters if letter.isalnum())


def settle_twins(
    table: Table, grouping: list[str], people: People, read_as: ReadAs
) -> tuple[Table, ReadAs, tuple[str, ...]]:
    """Settle whether spellings that differ in case, accents or spaces alone are one group.

    Parameters
    ----------
    table
        A file of people.
    grouping
        Its group columns.
    people
        Everybody who is known, with their groups.
    read_as
        How the file is read: its ``twins``, told or remembered, is `TOGETHER`, `APART` or None.

    Returns
    -------
    tuple
        The table, with each such group under the known spelling, else the most frequent one; how
        the file was read; and sentences that say what was put together.

    Raises
    ------
    InvalidInput
        If there are such spellings, and ``twins`` is None.
    """
    columns, notes = dict(table.columns), []
    for name in grouping:
        distinct, codes = table.columns[name]
        known = set(people.group(name)[0]) if name in people.columns() else set()
        rows = Counter({text: 0 for text in known if text})
        rows.update(text for text in (distinct[i] for i in codes.tolist()) if text)
        alike: dict[str, list[str]] = {}
        for text in rows:
            alike.setdefault(_plain(text) or text, []).append(text)
        # Spellings that were known before, and that this file does not have, are settled.
        twins = [
            texts
            for texts in alike.values()
            if len(texts) > 1 and any(text in distinct and text not in known for text in texts)
        ]
        if not twins or read_as.twins == APART:
            continue
        shown = "; ".join(", ".join(f"{text} ({rows[text]})" for text in one) for one in twins[:3])
        if read_as.twins is None:
            raise InvalidInput(
                f"{table.where}: column {name} has spellings that look like one group: {shown}; "
                f"take them as one with --twins {TOGETHER}, keep them with --twins {APART}; "
                "nothing was imported"
            )
        chosen = {
            text: max(one, key=lambda text: (text in known, rows[text]))
            for one in twins
            for text in one
        }
        columns[name] = ([chosen.get(text, text) for text in distinct], codes)
        notes.append(f"Taken as one {name} each: {shown}.")
    return replace(table, columns=columns), read_as, tuple(notes)
