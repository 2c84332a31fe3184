"""Values for JSON, which has neither rows nor infinity, and reading JSON that may be hostile."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["ONLY_IF_GIVEN", "WITHOUT_PREFIX", "for_json", "read_json"]

# Metadata that a field may have:
ONLY_IF_GIVEN = {"only_if_given": True}  # the field is left out if it is None
WITHOUT_PREFIX = {"prefix": ""}  # the field is a row, whose names get no prefix


def for_json(value: Any) -> Any:
    """A row, a table or a figure, ready for JSON.

    Parameters
    ----------
    value : object
        A dataclass (a row), a tuple or list (a table), a dict, or a number, a text or None.

    Returns
    -------
    object
        A dict for a row and a list for a table. The entries of a row inside a row are put into the
        outer row; their names get the name of the field as a prefix. A trailing underscore of a
        name is dropped, because a name such as ``from`` is not allowed in Python. nan becomes None;
        infinity becomes "inf", which ``float`` turns back into infinity.

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
