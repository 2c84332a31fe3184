"""All claims, their verdicts, and the verdicts as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InvalidInput
from . import (
    algorithm_1,
    asymptotics,
    bounded,
    chances,
    definitions,
    entropy,
    fairness,
    index_decay,
    operator_loss,
    optimality,
    rates,
    softmax,
)
from .claim import Claim, Verdict

__all__ = ["CLAIMS", "Row", "claim_of", "recheck", "table", "verdicts"]

CLAIMS: tuple[Claim, ...] = (
    *index_decay.CLAIMS,
    *optimality.CLAIMS,
    *fairness.CLAIMS,
    *definitions.CLAIMS,
    *chances.CLAIMS,
    *bounded.CLAIMS,
    *softmax.CLAIMS,
    *rates.CLAIMS,
    *operator_loss.CLAIMS,
    *algorithm_1.CLAIMS,
    *asymptotics.CLAIMS,
    *entropy.CLAIMS,
)
_BY_ID = {claim.id: claim for claim in CLAIMS}


@dataclass(frozen=True)
class Row:
    """One verdict as a row of a table.

    Parameters
    ----------
    claim, statement : str
        As in :class:`Verdict`.
    verdict : str
        "holds", "fails", or "holds under" with its condition after a colon.
    corrected : str
        The corrected statement of a claim that fails; "" otherwise.
    margin : str
        The margin to three digits, with its unit.
    instances : int
        The number of instances that were tried.
    """

    claim: str
    statement: str
    verdict: str
    corrected: str
    margin: str
    instances: int


def table(verdicts: Iterable[Verdict]) -> list[Row]:
    """Lay out verdicts as the rows of a table, for a report.

    Parameters
    ----------
    verdicts : iterable of Verdict

    Returns
    -------
    list of Row
        In the order given.

    Examples
    --------
    >>> from softfair import theory
    >>> [row] = theory.table(theory.verdicts(claims=["entropy-kn"]))
    >>> row.verdict, row.margin
    ('fails', '0.697 nats')
    >>> row.corrected[:30]
    'With P(i) = selections / (k T)'
    """
    return [
        Row(
            claim=verdict.claim,
            statement=verdict.statement,
            verdict=verdict.verdict + (f": {verdict.condition}" if verdict.condition else ""),
            corrected=verdict.corrected,
            margin=f"{verdict.margin:.3g} {verdict.measure}",
            instances=verdict.instances,
        )
        for verdict in verdicts
    ]


def claim_of(name: str) -> Claim:
    """The claim of this name.

    Parameters
    ----------
    name : str

    Returns
    -------
    Claim

    Raises
    ------
    InvalidInput
        There is no such claim; the message lists all names.
    """
    if name not in _BY_ID:
        raise InvalidInput(f"no claim is called {name!r}; choose from {', '.join(_BY_ID)}")
    return _BY_ID[name]


def verdicts(
    quick: bool = False, seed: int = 0, claims: Sequence[str] | None = None
) -> list[Verdict]:
    """Try the claims of the paper, and those that correct it.

    Parameters
    ----------
    quick : bool
        Whether to try only a quarter of the instances.
    seed : int
        The same seed makes the same instances, and the same verdicts.
    claims : sequence of str, optional
        Names of the claims to try; by default all.

    Returns
    -------
    list of Verdict

    Raises
    ------
    InvalidInput
        There is no claim of one of the names.

    Notes
    -----
    A search that finds no violation proves nothing. If a claim holds, the docstring of its search
    gives the proof, or says that there is none.

    Examples
    --------
    >>> from softfair import theory
    >>> [v.verdict for v in theory.verdicts(quick=True, claims=["theorem-1", "lemma-2-sharp"])]
    ['fails', 'holds']
    """
    chosen = CLAIMS if claims is None else [claim_of(name) for name in claims]
    return [
        claim.check(
            count=max(2, -(-claim.count // 4)) if quick and claim.count else None,
            seed=seed,
        )
        for claim in chosen
    ]


def recheck(verdict: Verdict) -> bool:
    """Tell whether the witness confirms the verdict.

    Both sides are computed again from the numbers of the witness, in plain Python that shares no
    code with the search. The bound is that of the claim of this name: a witness for another bound
    is not confirmed.

    Parameters
    ----------
    verdict : Verdict

    Returns
    -------
    bool

    Raises
    ------
    InvalidInput
        There is no such claim, or the witness lacks a number or has an absurd one.

    Examples
    --------
    >>> from softfair import theory
    >>> theory.recheck(theory.verdicts(quick=True, claims=["theorem-1"])[0])
    True
    """
    return claim_of(verdict.claim).confirms(verdict)
