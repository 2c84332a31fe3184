"""One entry of a file: from its text to a whole number, or a ValueError that says what is wrong.

The message of a ValueError continues the sentence "line 3, column round: 'x' ...": the problem,
then what to do.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..terminal import UNPRINTABLE
from .bulk import UNKNOWN

__all__ = [
    "CLEARED",
    "STRIDE",
    "UNPRINTABLE",
    "appearance",
    "flag",
    "group",
    "identifier",
    "number_reader",
    "numbers_of",
    "optional_round",
    "round_number",
    "says_nothing",
    "state_reader",
    "threshold_rule",
]

CLEARED = -3  # an entry that removes a round that was set before
STRIDE = 2**31  # rounds are below this, so that person * STRIDE + round is one number for both
NAMES = 10  # a column about people with up to so many different numbers is a group column
# Invisible characters besides those of the category Cf (format).
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
YES = ("1", "yes", "true", "y", "t", "x", "\u2713", "\u2714")  # the last two are ticks
NO = ("0", "no", "false", "n", "f")
FLAGS = {**dict.fromkeys(YES, 1), **dict.fromkeys(NO, 0)}
NOTHING = {"", "n/a", "na", "#n/a", "#null!", "nan", "null", "-", "--", "?", "unknown", "not known"}

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Reader = Callable[[str], int]


def says_nothing(text: str) -> bool:
    """Whether an entry is empty, or a word for that: n/a, -, ?."""
    return text.lower() in NOTHING


def _whole(text: str) -> str:
    """``1`` for ``1.0``, as spreadsheets write it."""
    return re.sub(r"(?<=\d)[.,]0+$", "", text)


def identifier(text: str) -> int:
    """Check a person's identifier; the number returned means nothing."""
    if not text:
        raise ValueError("is empty; give each person an identifier")
    if UNPRINTABLE.search(text):
        raise ValueError("has a line break or control character; give plain text")
    if not appearance(text):
        raise ValueError("cannot be seen; give each person an identifier that can be read")
    return 0


def appearance(name: str) -> str:
    """An identifier as a reader sees it: no invisible characters, wide letters as usual ones."""
    if name.isascii():  # ASCII has neither invisible nor wide letters
        return name.strip()
    seen = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", UNSEEN.sub("", seen)).strip()


def group(text: str) -> int:
    """Check a value of a group column, which may be empty; the number returned means nothing."""
    return identifier(text) if text else 0


def round_number(text: str) -> int:
    """A round: 7 or 7.0."""
    match = re.fullmatch(r"([0-9]{1,10})(\.0+)?", text)
    if not match or int(match[1]) >= STRIDE:
        raise ValueError("is no round; give a whole number of at least 0, or a date")
    return int(match[1])


def optional_round(text: str) -> int:
    """A round, UNKNOWN for an empty entry, CLEARED for ``none``."""
    if text.lower() == "none":
        return CLEARED
    return UNKNOWN if says_nothing(text) else round_number(text)


def flag(text: str) -> int:
    """1 for yes, 0 for no, UNKNOWN for an empty entry."""
    if says_nothing(text):
        return UNKNOWN
    plain = _whole(text.lower())
    if plain not in FLAGS:
        raise ValueError("is neither yes nor no; give 1 or 0, or nothing if it is not known")
    return FLAGS[plain]


def state_reader(states: tuple[str, ...]) -> Reader:
    """The reader of states by their name or, unless names look like numbers, by their number."""
    number_of = {name.lower(): s for s, name in enumerate(states)}
    # A name such as "1" could be mistaken for the number of another state.
    if not any(re.fullmatch(r"[-+]?[0-9.]+", name) for name in states):
        number_of |= {str(s): s for s in range(len(states))}

    def read(text: str) -> int:
        for known in (text.lower(), _whole(text)):
            if known in number_of:
                return number_of[known]
        if not says_nothing(text):
            choices = ", ".join(
                f"{s} or {name}" if str(s) in number_of and str(s) != name else name
                for s, name in enumerate(states)
            )
            raise ValueError(f"is no state; give {choices}, or nothing if it is not known")
        return UNKNOWN

    return read


def threshold_rule(threshold: str, states: tuple[str, ...]) -> Callable[[Floats], Ints]:
    """The rule that turns values into states.

    Parameters
    ----------
    threshold
        Values are good from it up (``4``), or up to it (``<=3``).
    states
        Names of the states.

    Returns
    -------
    callable
        From values [m] to states [m]; UNKNOWN where the value is nan.

    Raises
    ------
    InvalidInput
        If the threshold cannot be read, or there are more than two states.
    """
    match = re.fullmatch(r"\s*(>=|<=)?\s*([-+0-9.eE]+)\s*", threshold)
    try:
        limit = float(match[2]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise InvalidInput(
            f"the threshold is {threshold!r}; "
            "give a number such as 4 (good from 4 up) or '<=3' (good up to 3)"
        )
    if len(states) != 2:
        raise InvalidInput(
            f"a threshold tells two states apart, the programme has {len(states)}; "
            "give states by name"
        )
    sign = -1 if match[1] == "<=" else 1

    def apply(values: Floats) -> Ints:
        good = sign * values >= sign * limit
        return np.where(np.isnan(values), UNKNOWN, good.astype(np.int64))

    return apply


def number_reader(texts: Iterable[str], comma: bool) -> Callable[[str], float]:
    """The reader of the numbers of a column: ``3.5``, ``3,5``, ``1,234.5``, ``1.234,5``, ``1 234``.

    Parameters
    ----------
    texts
        The distinct entries, which may show whether a comma is decimal.
    comma
        Whether a comma is decimal if no entry shows it.

    Returns
    -------
    callable
        From an entry to its number, nan if it says nothing; ValueError for any other text.
    """
    texts = list(texts)
    point_groups = any(re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+,\d+", text) for text in texts)
    comma_groups = any(re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+\.\d+", text) for text in texts)
    comma_decimal = any(re.fullmatch(r"[-+]?\d*,(\d{1,2}|\d{4,})", text) for text in texts)
    point_decimal = any(re.fullmatch(r"[-+]?\d*\.(\d{1,2}|\d{4,})", text) for text in texts)
    if point_groups or comma_groups or comma_decimal or point_decimal:
        comma = (point_groups or comma_decimal) and not (comma_groups or point_decimal)
        mixed = (point_groups or comma_decimal) and (comma_groups or point_decimal)
    else:
        mixed = False

    def read(text: str) -> float:
        if says_nothing(text):
            return math.nan
        plain = re.sub(r"(?<=\d)[\s\u00a0\u202f'](?=\d{3})", "", text)
        if "," in plain and mixed:
            raise ValueError(
                "has a comma where other entries have a decimal point; write all of them alike"
            )
        if comma:
            plain = plain.replace(".", "").replace(",", ".") if "," in plain else plain
        else:
            plain = re.sub(r",(?=\d{3}(\D|$))", "", plain)
        try:
            value = math.nan if "_" in plain else float(plain)  # Python would read 1_000
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError("is no number; give a number, or nothing if it is not known")
        return value

    return read


def numbers_of(texts: Sequence[str]) -> Floats | None:
    """The distinct entries of a column about people as numbers; None: they are names of groups.

    Parameters
    ----------
    texts
        The distinct entries.

    Returns
    -------
    numpy.ndarray or None
        A number for each entry, nan if it says nothing. A column of up to NAMES different numbers
        is a group column: a worker's number is a name.
    """
    read = number_reader(texts, comma=False)
    try:
        numbers = np.array([read(text) for text in texts], dtype=np.float64)
    except ValueError:
        return None
    return numbers if np.count_nonzero(np.isfinite(numbers)) > NAMES else None
