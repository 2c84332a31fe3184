"""A claim, the search for the instance that decides it, and the verdict that follows.

Every claim is an inequality ``left <= right``. An equality is ``|difference| <= 0``; a strict
inequality is tested up to rounding. The instance with the least ``right - left`` decides a
universal claim; the instance with the greatest ``right - left`` decides an existential claim
("there is an arm such that ...").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..cohort import Floats
from ..errors import InvalidInput
from ..terminal import as_html
from .witness import refuse_unusable

__all__ = [
    "NOT_SO",
    "ROUNDING",
    "Claim",
    "Existence",
    "Outcome",
    "Search",
    "Sides",
    "Verdict",
    "as_stated",
]

Outcome = Literal["holds", "fails", "holds under"]
Witness = Mapping[str, Any]
Sides = tuple[float, float]
Describe = Callable[..., dict[str, Any]]

ROUNDING = 1e-10  # error of values up to some hundreds, computed in some hundred steps
AGREEMENT = 1e-9  # relative and absolute, between a witness and its recomputation
NOT_SO: Sides = (math.nan, math.nan)  # the sides of a witness that is no instance of the claim


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim.

    Parameters
    ----------
    claim : str
        Short name of the claim.
    statement : str
        The claim in one plain sentence.
    verdict : {"holds", "fails", "holds under"}
        Whether the claim holds on all instances that were tried.
    condition : str
        The condition under which the claim holds; "" unless the verdict is "holds under".
    margin : float
        ``|right - left|`` of the witness: the least slack if the claim holds, the largest excess
        if it fails.
    measure : str
        The unit of the margin, and what the margin measures.
    instances : int
        The number of instances that were tried.
    witness : dict
        The instance, in plain numbers and lists; "left" and "right" are the two sides.
    corrected : str
        The corrected statement if the claim fails; "" otherwise.
    """

    claim: str
    statement: str
    verdict: Outcome
    condition: str
    margin: float
    measure: str
    instances: int
    witness: dict[str, Any] = field(repr=False)
    corrected: str = ""

    def __str__(self) -> str:
        under = f" [{self.condition}]" if self.condition else ""
        instead = f" Instead: {self.corrected}" if self.corrected else ""
        return (
            f"{self.claim}: {self.verdict}{under}, by {self.margin:.3g} {self.measure} "
            f"({self.instances} tried). {self.statement}{instead}"
        )

    def _repr_html_(self) -> str:
        facts = {"claim": self.statement, "verdict": self.verdict}
        if self.condition:
            facts["condition"] = self.condition
        if self.corrected:
            facts["instead"] = self.corrected
        facts["margin"] = f"{self.margin:.3g} {self.measure}, {self.instances:,} tried"
        return as_html(self.claim, facts)


class Search:
    """Keeps the instance of least right - left of all that are added, for a universal claim."""

    sign: ClassVar[float] = 1.0  # the instance of least sign * (right - left) is kept

    def __init__(self) -> None:
        self.slack = math.inf
        self.tried = 0
        self.witness: dict[str, Any] = {}
        self.counted: dict[str, Any] = {}

    @staticmethod
    def refutes(slack: float) -> bool:
        """Whether a witness with this right - left refutes the claim."""
        return slack < -ROUNDING

    def add(
        self,
        left: ArrayLike,
        right: ArrayLike,
        tried: int,
        describe: Describe,
        meets: ArrayLike = True,
    ) -> None:
        """Add instances, one for each entry of the sides; only entries with ``meets`` count.

        describe(*place) returns the witness of the instance at that place of the arrays.
        """
        low, high, counts = np.broadcast_arrays(*np.atleast_1d(left, right, meets))
        signed = np.where(counts, self.sign * (high - low), np.inf)
        place = tuple(int(x) for x in np.unravel_index(int(np.argmin(signed)), signed.shape))
        self.tried += tried
        if math.isnan(signed[place]):
            raise InvalidInput(
                f"a side of the inequality is not a number ({low[place]}, {high[place]}); "
                "check what was passed in"
            )
        if signed[place] < self.sign * self.slack or (not self.witness and counts[place]):
            self.slack = float(high[place] - low[place])
            self.witness = {**describe(*place), "left": low[place], "right": high[place]}

    def add_pairs(
        self, order: Floats, value: Floats, tried: int, describe: Describe, ties: bool = False
    ) -> float:
        """Add all pairs of a row: no entry of higher order [B, A] should have a lower value.

        With ``ties`` this is also tested for pairs of equal order. describe(b, high, low) returns
        the witness. The result is the share of pairs in which the value is lower.
        """
        ahead = (  # [B, high, low]
            order[:, :, None] >= order[:, None, :]
            if ties
            else order[:, :, None] > order[:, None, :]
        )
        ahead &= ~np.eye(order.shape[1], dtype=np.bool_)
        self.add(value[:, None, :], value[:, :, None], tried, describe, ahead)
        broken = np.count_nonzero(ahead & (value[:, :, None] < value[:, None, :] - ROUNDING))
        return broken / (len(order) * math.comb(order.shape[1], 2))

    def count(self, **counted: Any) -> None:
        """Store further counts; they go into the witness, and :func:`recheck` ignores them."""
        self.counted.update(counted)


class Existence(Search):
    """Keeps the instance of greatest right - left, for the claim that such an instance exists."""

    sign = -1.0

    def __init__(self) -> None:
        super().__init__()
        self.slack = -math.inf

    @staticmethod
    def refutes(slack: float) -> bool:
        return slack <= ROUNDING


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim, the search for its witness, and the recomputation of a witness.

    Parameters
    ----------
    id : str
        Short name.
    statement : str
        One plain sentence.
    measure : str
        Unit of the margin, and what the margin measures.
    search : callable
        ``search(tightest, count=, seed=, ...)`` adds instances to ``tightest``. What is tested (the
        index, the gains, the bound, the law) is an argument, so that a test can make it fail.
    sides : callable
        From a witness to (left, right), in plain Python that shares no code with the search.
    count : int or None
        The number of instances that the search makes of each kind; None if nothing is sampled.
    condition : str
        The condition under which the claim is tested; "" if there is none.
    instead : Claim or None
        If the claim fails: the corrected claim, which has a check of its own.
    kind : type
        :class:`Search` for "for all", :class:`Existence` for "there is".
    """

    id: str
    statement: str
    measure: str
    search: Callable[..., None] = field(repr=False)
    sides: Callable[[Witness], Sides] = field(repr=False)
    count: int | None = None
    condition: str = ""
    instead: Claim | None = field(default=None, repr=False)
    kind: type[Search] = Search

    @property
    def corrected(self) -> str:
        """The statement of the corrected claim with its condition; "" if there is none."""
        if self.instead is None:
            return ""
        under = f" Condition: {self.instead.condition}." if self.instead.condition else ""
        return f"{self.instead.statement}{under} ({self.instead.id})"

    def check(self, count: int | None = None, seed: int = 0, **settings: Any) -> Verdict:
        """Search for the witness, and judge the claim by it.

        Parameters
        ----------
        count : int, optional
            Instances of each kind; by default :attr:`count`.
        seed : int
            The same seed makes the same instances.
        **settings
            Further arguments of the search of this claim.

        Returns
        -------
        Verdict

        Raises
        ------
        InvalidInput
            No instance meets the condition, or a side is not a number.
        """
        if self.count is not None:
            settings |= {"count": self.count if count is None else count, "seed": seed}
        tightest = self.kind()
        self.search(tightest, **settings)
        if not tightest.tried or not tightest.witness:
            raise InvalidInput(
                f"{self.id}: no instance meets the condition; try more instances or a wider range"
            )
        witness = {name: _plain(x) for name, x in {**tightest.witness, **tightest.counted}.items()}
        fails = self.kind.refutes(tightest.slack)
        outcome: Outcome = "fails" if fails else "holds under" if self.condition else "holds"
        return Verdict(
            claim=self.id,
            statement=self.statement,
            verdict=outcome,
            condition="" if fails else self.condition,
            margin=abs(tightest.slack) if fails else max(tightest.slack, 0.0),
            measure=self.measure,
            instances=tightest.tried,
            witness=witness,
            corrected=self.corrected if fails else "",
        )

    def confirms(self, verdict: Verdict) -> bool:
        """Whether both sides, computed again from the witness, agree with the verdict.

        Parameters
        ----------
        verdict : Verdict
            A verdict on this claim.

        Returns
        -------
        bool

        Raises
        ------
        InvalidInput
            A number of the witness is missing or cannot be used.
        """
        refuse_unusable(self.id, verdict.witness)
        try:
            left, right = self.sides(verdict.witness)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"{self.id}: {_why(error)}; give one that softfair verify --json wrote"
            ) from None
        return (
            self.kind.refutes(right - left) == (verdict.verdict == "fails")
            and as_stated(verdict.witness, left, right)
            and _agree(abs(right - left), verdict.margin)
        )


def as_stated(w: Witness, left: float, right: float) -> bool:
    """Whether these are the sides that the witness states.

    Parameters
    ----------
    w : mapping
        A witness.
    left, right : float
        Its sides, computed again.

    Returns
    -------
    bool
    """
    return _agree(left, w["left"]) and _agree(right, w["right"])


def _agree(x: float, y: float) -> bool:
    """Whether two numbers agree up to AGREEMENT."""
    return math.isclose(x, y, rel_tol=AGREEMENT, abs_tol=AGREEMENT)


def _why(error: Exception) -> str:
    """The reason for which a witness cannot be evaluated, in words."""
    if isinstance(error, KeyError) and isinstance(error.args[0], str):
        return f"the witness has no {error}"
    if isinstance(error, LookupError):
        return "a set or state of the witness does not fit its k or its arms"
    return f"the witness cannot be evaluated ({error})"


def _plain(value: Any) -> Any:
    """The value as JSON has it; infinity and nan, which JSON does not have, by name."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
