"""Cohorts by name: the two data sets of the paper's experiments, made anew from a seed.

``synthetic`` follows the paper to the letter. ``cpap`` starts from published figures, but the paper leaves the rest of
its construction open; what it leaves open is a parameter here, with a default and the reason for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cohort import Cohort
from .errors import InvalidInput, refuse, whole

__all__ = ["CPAP_MARGIN", "CPAP_MATRICES", "CPAP_MIX", "cpap", "synthetic"]

Floats = NDArray[np.float64]

#: Nightly CPAP use without intervention: Kang, Prabhu, Sawyer and Griffin (2013), "Markov models for treatment
#: adherence in obstructive sleep apnea", reduced to two states, 0 = did not adhere and 1 = adhered. Rows are tonight's
#: state, columns tomorrow's. "adherent" and "non-adherent" are clusters of patients, "all" is every patient, "male" and
#: "female" split them by sex.
CPAP_MATRICES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = MappingProxyType(
    {
        "adherent": ((0.020, 0.980), (0.050, 0.950)),
        "non-adherent": ((0.766, 0.234), (0.334, 0.666)),
        "all": ((0.731, 0.269), (0.172, 0.828)),
        "male": ((0.649, 0.351), (0.147, 0.853)),
        "female": ((0.786, 0.214), (0.209, 0.791)),
    }
)

#: Share of each cluster in :func:`cpap` unless told otherwise.
CPAP_MIX: Mapping[str, float] = MappingProxyType({"adherent": 0.5, "non-adherent": 0.5})

#: Every chance in :func:`cpap` is clipped to [CPAP_MARGIN, 1 - CPAP_MARGIN], a unit in the last digit of the published
#: figures: nobody is certain to adhere, and an arm that could never leave a state would not be restless.
CPAP_MARGIN = 0.001

SUM_TOLERANCE = 1e-8  # rounding of shares or rows that were computed


def synthetic(n: int = 100, seed: int = 0, *, recovery: float | None = None) -> Cohort:
    """n arms drawn uniformly from the two-state chains that the paper calls natural (appendix, Datasets).

    With ``p[a, s]`` the chance of the good state next: ``p[0, 0] < p[0, 1]`` and ``p[1, 0] < p[1, 1]`` (a good state
    helps), ``p[0, 0] < p[1, 0]`` and ``p[0, 1] < p[1, 1]`` (so does an intervention), strictly inside (0, 1). The order
    leaves open only which of ``p[0, 1]`` and ``p[1, 0]`` is larger, so four sorted uniforms with the middle two in
    random order are uniform on this set. States at decision 0 are uniform; the good state is worth 1.

    ``recovery`` sets ``p[1, 0]``, the chance that helping in the bad state brings the good one, to the same value for every arm
    (Figure 3b of the paper); the others are then uniform on what the inequalities leave.

    >>> import softfair as sf
    >>> sf.datasets.synthetic(n=3, seed=1)
    Cohort(n=3, S=2)
    """
    n, rng = whole("n", n, 1), _generator(seed)
    low_to_high = np.sort(rng.random((n, 4)), axis=1)  # [n, 4]
    while (bad := (low_to_high[:, 0] == 0) | (np.diff(low_to_high, axis=1) == 0).any(axis=1)).any():
        # Uniform floats lie on a grid that includes 0: a zero or a tie is rare, but the inequalities are strict.
        low_to_high[bad] = np.sort(rng.random((np.count_nonzero(bad), 4)), axis=1)
    swap = rng.random(n) < 0.5
    low_to_high[swap, 1:3] = low_to_high[swap, 2:0:-1]
    if recovery is not None:
        low_to_high = _with_recovery(n, recovery, rng)
    return Cohort.two_state(low_to_high.reshape(n, 2, 2))  # smallest p[0, 0], largest p[1, 1]


def _with_recovery(n: int, recovery: float, rng: np.random.Generator) -> Floats:
    """p [n, 4] in the order (0, 0), (0, 1), (1, 0), (1, 1), uniform given p[1, 0]; by rejection."""
    if not _is_number(recovery) or not 0 < recovery < 1:
        raise InvalidInput(
            f"recovery is {recovery!r}; give the chance p[1, 0] of every arm, strictly between 0 and 1"
        )
    p = np.full((n, 4), float(recovery))
    todo = np.arange(n)
    while len(todo):
        p[todo, 0], p[todo, 1], p[todo, 3] = (
            rng.uniform(0, recovery, len(todo)),
            *rng.uniform(0, 1, (2, len(todo))),
        )
        p00, p01, p10, p11 = p[todo].T
        todo = todo[~((p00 > 0) & (p00 < p01) & (p01 < p11) & (p10 < p11) & (p00 < p10))]
    return p


def cpap(
    n: int = 100,
    seed: int = 0,
    *,
    mix: Mapping[str, float] = CPAP_MIX,
    effect: tuple[float, float] = (0.05, 0.5),
    effect_kind: Literal["relative", "added"] = "relative",
    noise: float = 0.02,
    matrices: Mapping[str, ArrayLike] = CPAP_MATRICES,
) -> Cohort:
    """n patients with sleep apnea who do or do not use their CPAP device tonight; ``groups`` is the cluster of each.

    Source of the passive chains: :data:`CPAP_MATRICES` (Kang et al. 2013). The paper says: two groups, adherent and
    non-adherent; an intervention brings "a random increase from 5-50% to good CPAP use status per night for both two
    groups"; "a small noise" on each matrix; a random state at decision 0. It does not say how many patients each group
    has, whether 5-50 % is of the chance or added to it, whether it is drawn by patient, by state or by group, nor how
    large the noise is. So the absolute figures of its Table 2 cannot be recovered. With the defaults (n=100, k=10,
    T=80) Myopic has its entropy (2.6; the paper: 2.67) and its benefit (nearly the Oracle's), but Random keeps a
    quarter of that benefit (the paper: 79 %), because an adherent patient has almost nothing left to gain. With
    ``mix={"all": 1.0}`` Random keeps 65 %.

    Parameters
    ----------
    n, seed : number of arms, and the seed; the same two with the same parameters give the same cohort.
    mix : cluster name -> share; shares sum to 1. Arms are counted by largest remainder, so shares are exact to one arm,
        and then shuffled. Default: half adherent, half non-adherent, within the 29-83 % that the paper quotes for
        adherence.
    effect : (low, high), the range of the intervention's effect; one draw a patient, uniform, the same in both states:
        how well somebody responds is taken as a trait of the person.
    effect_kind : ``"relative"`` multiplies the chance of the good state by 1 + effect, ``"added"`` adds effect to it.
        Default relative, the usual meaning of "an increase of 5-50 %"; added, 50 % would lift a chance of .234 to .734.
    noise : half-width of the uniform noise on each passive chance of the good state. Default .02, the widest that keeps
        the published .98 below 1, so that clipping hardly moves a cluster's mean (by less than 2e-5).
    matrices : cluster name -> 2 x 2 passive matrix, rows the current state; default the published ones.

    Chances are clipped to [:data:`CPAP_MARGIN`, 1 - :data:`CPAP_MARGIN`], passive and active alike, so an intervention
    never lowers the chance of the good state, though it may leave it as it is.

    >>> import softfair as sf
    >>> sf.datasets.cpap(n=10, mix={"male": 0.7, "female": 0.3})
    Cohort(n=10, S=2, groups=2)
    """
    n, rng = whole("n", n, 1), _generator(seed)
    names, counts = _counts_of(mix, n, matrices)
    passive_good = np.array(
        [_chance_of_good(name, matrices[name]) for name in names]
    )  # [clusters, 2]
    low, high = _range_of(effect)
    if effect_kind not in ("relative", "added"):
        raise InvalidInput(
            f'effect_kind is {effect_kind!r}; give "relative" (of the chance) or "added" (to it)'
        )
    if not _is_number(noise) or not 0 <= noise < 1:
        raise InvalidInput(
            f"noise is {noise!r}; give the half-width of the noise on a chance, at least 0 and below 1"
        )

    cluster = rng.permutation(np.repeat(np.arange(len(names)), counts))  # [n]
    passive = passive_good[cluster] + rng.uniform(-noise, noise, (n, 2))  # [n, 2]
    passive = np.clip(passive, CPAP_MARGIN, 1 - CPAP_MARGIN)
    lift = rng.uniform(low, high, (n, 1))
    active = passive * (1 + lift) if effect_kind == "relative" else passive + lift
    active = np.clip(active, CPAP_MARGIN, 1 - CPAP_MARGIN)
    return Cohort.two_state(np.stack([passive, active], axis=1), groups=np.array(names)[cluster])


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole("seed", seed, 0))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(np.isfinite(value))


def _counts_of(
    mix: Mapping[str, float], n: int, matrices: Mapping[str, ArrayLike]
) -> tuple[list[str], NDArray[np.int64]]:
    """The clusters and how many of the n arms each gets: largest remainder, ties to the one named first."""
    if not isinstance(mix, Mapping) or not mix:
        raise InvalidInput(
            f'mix is {mix!r}; give a mapping of cluster to share, such as {{"adherent": 0.5, "non-adherent": 0.5}}'
        )
    if not isinstance(matrices, Mapping):
        raise InvalidInput(
            f"matrices is a {type(matrices).__name__}; give a mapping of cluster to 2 x 2 matrix"
        )
    unknown = [name for name in mix if name not in matrices]
    if unknown:
        known = ", ".join(map(repr, matrices))
        raise InvalidInput(
            f"mix names {unknown[0]!r} ({len(unknown)} of {len(mix)} clusters are unknown); choose from {known}"
        )
    wrong = [name for name, share in mix.items() if not _is_number(share) or share < 0]
    if wrong:
        raise InvalidInput(
            f"mix[{wrong[0]!r}] is {mix[wrong[0]]!r} ({len(wrong)} of {len(mix)} shares are wrong); give shares >= 0"
        )
    shares = np.array(list(mix.values()), dtype=np.float64)
    if abs(shares.sum() - 1) > SUM_TOLERANCE:
        raise InvalidInput(
            f"the {len(mix)} shares of mix sum to {shares.sum():.12g}, not 1; divide each by their sum"
        )
    exact = shares / shares.sum() * n
    counts = np.floor(exact).astype(np.int64)
    short = n - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    return list(mix), counts


def _chance_of_good(name: str, matrix: ArrayLike) -> Floats:
    """Column 1 [2] of a checked 2 x 2 matrix."""
    what = f"matrices[{name!r}]"
    try:
        rows = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{what} is not an array of numbers; give a 2 x 2 matrix, rows the current state"
        ) from None
    if rows.shape != (2, 2):
        raise InvalidInput(
            f"{what} has shape {rows.shape}; give a 2 x 2 matrix, rows the current state"
        )
    refuse(~((rows >= 0) & (rows <= 1)), rows, what, "give probabilities between 0 and 1")
    sums = rows.sum(axis=1)
    refuse(np.abs(sums - 1) > SUM_TOLERANCE, sums, f"the sum of {what}", "each row must sum to 1")
    good: Floats = rows[:, 1]
    return good


def _range_of(effect: tuple[float, float]) -> tuple[float, float]:
    pair = tuple(effect) if isinstance(effect, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2 or not all(map(_is_number, pair)) or not 0 <= pair[0] <= pair[1]:
        raise InvalidInput(
            f"effect is {effect!r}; give (low, high) with 0 <= low <= high, such as (0.05, 0.5)"
        )
    return float(pair[0]), float(pair[1])
