"""Values for JSON, in which there are neither rows nor infinity, and JSON that may be hostile."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["ONLY_IF_GIVEN", "WITHOUT_PREFIX", "for_json", "read_json"]

# What the metadata of a field may say:
ONLY_IF_GIVEN = {"only_if_given": True}  # it is left out where it is None
WITHOUT_PREFIX = {"prefix": ""}  # it is a row itself, whose names stand for themselves


def for_json(value: Any) -> Any:
    """A row, a table or a figure, ready for JSON.

    Parameters
    ----------
    value : object
        A dataclass (a row), a tuple or list (a table), a dict, or a number, a text or None.

    Returns
    -------
    object
        A dict for a row and a list for a table. A row inside a row is written into it, each of its
        names with the name of the field in front. A trailing underscore of a name is dropped:
        ``from`` is no name in Python. What is not known (nan) is None; infinity is "inf", which
        ``float`` turns back into infinity.

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
    >>> for_json((Row(float("nan"), Ends(0.0, float("inf"))),))
    [{'value': None, 'range_from': 0.0, 'range_to': 'inf'}]
    """
    if is_dataclass(value):
        row: dict[str, Any] = {}
        for part in fields(value):
            entry = getattr(value, part.name)
            if is_dataclass(entry):
                prefix = part.metadata.get("prefix", f"{part.name}_")
                row |= {f"{prefix}{name}": inner for name, inner in for_json(entry).items()}
            elif entry is not None or "only_if_given" not in part.metadata:
                row[part.name.rstrip("_")] = for_json(entry)
        return row
    if isinstance(value, tuple | list):
        return [for_json(entry) for entry in value]
    if isinstance(value, dict):
        return {name: for_json(entry) for name, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def read_json(text: str | bytes) -> Any:
    """What a text in JSON says.

    Parameters
    ----------
    text : str or bytes
        From a file or a database, which somebody may have altered.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        The text is no JSON, or too deeply nested to be read.

    Examples
    --------
    >>> read_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: JSON that is too deeply nested
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is too deeply nested") from None
