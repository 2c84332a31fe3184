"""Typed rows as JSON has them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["ONLY_IF_GIVEN", "WITHOUT_PREFIX", "plain"]

# What the metadata of a field may say:
ONLY_IF_GIVEN = {"only_if_given": True}  # it is left out where it is None
WITHOUT_PREFIX = {"prefix": ""}  # it is a row itself, whose names stand for themselves


def plain(value: Any) -> Any:
    """A row, a table or a figure, ready for JSON.

    Parameters
    ----------
    value : object
        A dataclass (a row), a tuple (a table), or a number, a text or None.

    Returns
    -------
    object
        A dict for a row and a list for a table. A row inside a row is written into it, each of its
        names with the name of the field in front. A trailing underscore of a name is dropped: from
        is no name in Python. What is not known (nan) is None, infinity is "inf".

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Ends:
    ...     from_: float
    ...     to: float
    >>> @dataclass
    ... class Row:
    ...     value: float
    ...     range: Ends
    >>> plain((Row(float("nan"), Ends(0.0, float("inf"))),))
    [{'value': None, 'range_from': 0.0, 'range_to': 'inf'}]
    """
    if is_dataclass(value):
        row: dict[str, Any] = {}
        for part in fields(value):
            entry = getattr(value, part.name)
            if is_dataclass(entry):
                prefix = part.metadata.get("prefix", f"{part.name}_")
                row |= {f"{prefix}{name}": inner for name, inner in plain(entry).items()}
            elif entry is not None or "only_if_given" not in part.metadata:
                row[part.name.rstrip("_")] = plain(entry)
        return row
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
