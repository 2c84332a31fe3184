"""The two data sets of the paper's experiments, made from a seed.

:func:`synthetic` follows the paper to the letter. :func:`cpap` starts from published matrices. The
paper leaves the rest of the construction open; every open choice is a parameter of :func:`cpap`,
with a default and the reason for the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cohort import Cohort
from .errors import InvalidInput, refuse, whole

__all__ = ["CPAP_MARGIN", "CPAP_MATRICES", "CPAP_MIX", "cpap", "synthetic"]

Floats = NDArray[np.float64]
EffectKind = Literal["added", "relative", "share"]
EffectBy = Literal["group", "patient", "state"]
NoiseOn = Literal["both", "passive"]

#: Nightly CPAP use without intervention, as two states: 0 = did not adhere, 1 = adhered. Rows are
#: tonight's state, columns tomorrow's. Source: Kang, Prabhu, Sawyer and Griffin (2013), "Markov
#: models for treatment adherence in obstructive sleep apnea". "adherent" and "non-adherent" are
#: clusters of patients, "all" is every patient, "male" and "female" split them by sex.
CPAP_MATRICES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = MappingProxyType(
    {
        "adherent": ((0.020, 0.980), (0.050, 0.950)),
        "non-adherent": ((0.766, 0.234), (0.334, 0.666)),
        "all": ((0.731, 0.269), (0.172, 0.828)),
        "male": ((0.649, 0.351), (0.147, 0.853)),
        "female": ((0.786, 0.214), (0.209, 0.791)),
    }
)

#: Default share of each cluster in :func:`cpap`.
CPAP_MIX: Mapping[str, float] = MappingProxyType({"adherent": 0.17, "non-adherent": 0.83})

#: Every chance in :func:`cpap` is clipped to [CPAP_MARGIN, 1 - CPAP_MARGIN]. The margin is a unit
#: in the last digit of the published figures. So nobody is certain to adhere, and every arm can
#: leave each of its states.
CPAP_MARGIN = 0.001

SUM_TOLERANCE = 1e-8  # allowed for rounding in the sum of shares or of a row


def synthetic(n: int = 100, seed: int = 0, *, recovery: float | None = None) -> Cohort:
    """Draw n arms uniformly from the two-state chains that the paper calls natural.

    Parameters
    ----------
    n : int
        Number of arms.
    seed : int
        The same n and seed give the same cohort.
    recovery : float, optional
        The value of ``p[1, 0]``, the chance that help in the bad state leads to the good state, for
        every arm (Figure 3b of the paper). The other chances are then uniform under the
        inequalities.

    Returns
    -------
    Cohort
        Two states, of which the good one is worth 1. States at decision 0 are uniform.

    Raises
    ------
    InvalidInput
        n, seed or recovery is out of its range.

    Notes
    -----
    With ``p[a, s]`` the chance of the good state next, the paper (appendix, Datasets) requires
    ``p[0, 0] < p[0, 1]`` and ``p[1, 0] < p[1, 1]`` (the good state is likelier after the good
    state), ``p[0, 0] < p[1, 0]`` and ``p[0, 1] < p[1, 1]`` (and after an intervention), strictly
    inside (0, 1). The inequalities leave open only which of ``p[0, 1]`` and ``p[1, 0]`` is larger.
    So four sorted uniforms with the middle two in random order are uniform on this set.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.datasets.synthetic(n=3, seed=1)
    Cohort(n=3, S=2)
    """
    n, rng = whole("n", n, 1), _generator(seed)
    low_to_high = rng.random((n, 4))
    low_to_high.sort(axis=1)
    # Uniform floats lie on a grid that includes 0. A zero or a tie is rare, but the inequalities
    # are strict, so such rows are drawn again.
    while (bad := (low_to_high[:, 0] == 0) | (np.diff(low_to_high, axis=1) == 0).any(axis=1)).any():
        low_to_high[bad] = np.sort(rng.random((np.count_nonzero(bad), 4)), axis=1)
    swap = rng.random(n) < 0.5
    low_to_high[swap, 1:3] = low_to_high[swap, 2:0:-1]
    if recovery is not None:
        low_to_high = _with_recovery(n, recovery, rng)
    low_to_high.flags.writeable = False  # so that the cohort does not copy the array
    return Cohort.two_state(low_to_high.reshape(n, 2, 2))  # smallest p[0, 0], largest p[1, 1]


def _with_recovery(n: int, recovery: float, rng: np.random.Generator) -> Floats:
    """Draw p [n, 4] in the order (0, 0), (0, 1), (1, 0), (1, 1), given p[1, 0], by rejection."""
    if not _is_number(recovery) or not 0 < recovery < 1:
        raise InvalidInput(
            f"recovery is {recovery!r}; give the chance p[1, 0] of every arm, strictly between 0 "
            "and 1"
        )
    p = np.full((n, 4), float(recovery))
    rejected = np.arange(n)
    while len(rejected):
        count = len(rejected)
        p[rejected, 0] = rng.uniform(0, recovery, count)
        p[rejected, 1], p[rejected, 3] = rng.uniform(0, 1, (2, count))
        p00, p01, p10, p11 = p[rejected].T
        meets = (p00 > 0) & (p00 < p01) & (p01 < p11) & (p10 < p11) & (p00 < p10)
        rejected = rejected[~meets]
    return p


def cpap(
    n: int = 100,
    seed: int = 0,
    *,
    mix: Mapping[str, float] = CPAP_MIX,
    effect: tuple[float, float] = (0.05, 0.5),
    effect_kind: EffectKind = "added",
    effect_by: EffectBy = "group",
    noise: float = 0.01,
    noise_on: NoiseOn = "both",
    matrices: Mapping[str, ArrayLike] = CPAP_MATRICES,
) -> Cohort:
    """Make n patients with sleep apnea who do or do not use their CPAP device tonight.

    Parameters
    ----------
    n : int
        Number of patients.
    seed : int
        The same seed with the same parameters gives the same cohort.
    mix : mapping of str to float
        Share of each cluster; shares sum to 1. The number of patients of each cluster follows by
        largest remainder, so that shares are exact to one patient; patients are shuffled. The paper
        gives no mix. It quotes that 29 to 83 % of patients adhere. The default, 17 % adherent, was
        chosen after seeing the paper's Table 2 (see Notes).
    effect : (float, float)
        Lowest and highest effect of an intervention; effects are uniform in between.
    effect_kind : {"added", "relative", "share"}
        How an effect e changes the chance p of the good state: to p + e, to p (1 + e), or to
        p + e (1 - p), which removes the share e of the failures.
    effect_by : {"group", "patient", "state"}
        Whether one effect is drawn for each cluster, for each patient, or for each patient and
        state.
    noise : float
        Half-width of the uniform noise on a chance.
    noise_on : {"both", "passive"}
        With "both", the effect acts on the published chance, and each of a patient's two matrices
        gets separate noise. With "passive", only the passive matrix gets noise, and the effect acts
        on the noisy chance.
    matrices : mapping of str to 2 x 2 array
        Passive matrix of each cluster, rows the current state. Default: :data:`CPAP_MATRICES`.

    Returns
    -------
    Cohort
        Two states; ``groups`` is the cluster of each patient. States at decision 0 are uniform.

    Raises
    ------
    InvalidInput
        A parameter is out of its range; or an added effect exceeds 1 - CPAP_MARGIN, so that no
        chance plus the effect is a chance.

    Notes
    -----
    The paper says: two groups, adherent and non-adherent; an intervention brings "a random
    increase from 5-50% to good CPAP use status per night for both two groups"; "a small noise to
    each transition matrix so that the dynamics of each individual arm in same group is different".
    The defaults follow these words literally: one effect for each group, added to the chance of the
    good state, and noise on each of the two matrices of every patient. The words do not give the
    mix and the size of the noise. Both were chosen because they reproduce Table 2, so that
    agreement with Table 2 does not confirm them. ``softfair reproduce table2`` shows the table
    under every combination of these choices.

    Chances are clipped to [:data:`CPAP_MARGIN`, 1 - :data:`CPAP_MARGIN`]. With nearly every added
    effect, the chance of an adherent patient is at the upper end, so that an intervention can
    hardly help this patient. With noise on both matrices, an intervention may then lower the chance
    of the good state by up to twice the noise. With ``noise_on="passive"`` an intervention never
    lowers a chance.

    The former default was ``mix={"adherent": 0.5, "non-adherent": 0.5},
    effect_kind="relative", effect_by="patient", noise=0.02, noise_on="passive"``; these
    parameters still give the same cohorts.

    References
    ----------
    Kang, Prabhu, Sawyer and Griffin (2013), "Markov models for treatment adherence in obstructive
    sleep apnea".

    Examples
    --------
    >>> import softfair as sf
    >>> sf.datasets.cpap(n=10, mix={"male": 0.7, "female": 0.3})
    Cohort(n=10, S=2, groups=2)
    """
    n, rng = whole("n", n, 1), _generator(seed)
    names, counts = _counts_of(mix, n, matrices)
    published = np.array([_chance_of_good(name, matrices[name]) for name in names])  # [clusters, 2]
    _one_of("effect_kind", effect_kind, EffectKind)
    _one_of("effect_by", effect_by, EffectBy)
    _one_of("noise_on", noise_on, NoiseOn)
    low, high = _range_of(effect, effect_kind)
    if not _is_number(noise) or not 0 <= noise < 1:
        raise InvalidInput(
            f"noise is {noise!r}; give the half-width of the noise on a chance, at least 0 and "
            "below 1"
        )

    cluster = rng.permutation(np.repeat(np.arange(len(names)), counts))  # [n]
    passive = _clip(published[cluster] + rng.uniform(-noise, noise, (n, 2)))  # [n, 2]
    draws = {"patient": (n, 1), "state": (n, 2), "group": (len(names), 1)}[effect_by]
    e = rng.uniform(low, high, draws)
    e = e[cluster] if effect_by == "group" else e  # [n, 1] or [n, 2]
    before = published[cluster] if noise_on == "both" else passive
    if effect_kind == "added":
        active = before + e
    elif effect_kind == "relative":
        active = before * (1 + e)
    else:
        active = before + e * (1 - before)
    active = _clip(active)
    if noise_on == "both":
        active = _clip(active + rng.uniform(-noise, noise, (n, 2)))
    return Cohort.two_state(np.stack([passive, active], axis=1), groups=np.array(names)[cluster])


def _clip(chances: Floats) -> Floats:
    """Move chances into [CPAP_MARGIN, 1 - CPAP_MARGIN]."""
    return np.clip(chances, CPAP_MARGIN, 1 - CPAP_MARGIN)


def _one_of(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not one of the literals."""
    known = get_args(choices)
    if value not in known:
        raise InvalidInput(f"{name} is {value!r}; choose one of {', '.join(map(repr, known))}")


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole("seed", seed, 0))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(np.isfinite(value))


def _counts_of(
    mix: Mapping[str, float], n: int, matrices: Mapping[str, ArrayLike]
) -> tuple[list[str], NDArray[np.int64]]:
    """The number of arms of each cluster by largest remainder; ties go to the first cluster."""
    if not isinstance(mix, Mapping) or not mix:
        raise InvalidInput(
            f"mix is {mix!r}; give a mapping of cluster to share, such as "
            '{"adherent": 0.5, "non-adherent": 0.5}'
        )
    if not isinstance(matrices, Mapping):
        raise InvalidInput(
            f"matrices is a {type(matrices).__name__}; give a mapping of cluster to 2 x 2 matrix"
        )
    unknown = [name for name in mix if name not in matrices]
    if unknown:
        known = ", ".join(map(repr, matrices))
        raise InvalidInput(
            f"mix names {unknown[0]!r} ({len(unknown)} of {len(mix)} clusters are unknown); "
            f"choose from {known}"
        )
    wrong = [name for name, share in mix.items() if not _is_number(share) or share < 0]
    if wrong:
        raise InvalidInput(
            f"mix[{wrong[0]!r}] is {mix[wrong[0]]!r} ({len(wrong)} of {len(mix)} shares are "
            "wrong); give shares >= 0"
        )
    shares = np.array(list(mix.values()), dtype=np.float64)
    if abs(shares.sum() - 1) > SUM_TOLERANCE:
        raise InvalidInput(
            f"the {len(mix)} shares of mix sum to {shares.sum():.12g}, not 1; divide each by "
            "their sum"
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


def _range_of(effect: tuple[float, float], kind: EffectKind) -> tuple[float, float]:
    """Check the range of effects; added effects and shares must leave some chance valid."""
    pair = tuple(effect) if isinstance(effect, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2 or not all(map(_is_number, pair)) or not 0 <= pair[0] <= pair[1]:
        raise InvalidInput(
            f"effect is {effect!r}; give (low, high) with 0 <= low <= high, such as (0.05, 0.5)"
        )
    low, high = float(pair[0]), float(pair[1])
    most = {"added": 1 - CPAP_MARGIN, "share": 1.0, "relative": np.inf}[kind]
    if high > most:
        raise InvalidInput(
            f"effect is ({low:g}, {high:g}) and effect_kind is {kind!r}; above {most:g} no chance "
            "stays valid, give a smaller effect or effect_kind='relative'"
        )
    return low, high
