"""What a trial in the programme found: the effect of each arm, by intention to treat.

Everybody who was assigned counts in their arm, whatever they got and wherever they went. The
outcome of a person is the mean reward of the states seen after the rounds of the trial. People who
left count with the states seen before. People who were never seen again are left out, and a test
compares their shares in the arms. People who came after the assignment are not counted: they may
have come because of the arm. `softfair.programme.effects` says how the effect is estimated.

The comparisons of several arms share 5 % among them (Holm). A verdict is given once, when the trial
is over: people who look every round, and stop when an effect shows, find effects that do not exist.
Each interval by itself holds at 95 % whenever it is looked at for the first time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..assignment import Trial
from ..effects import LEVEL, Contrast, Means
from ..power import outcomes, pairs_of
from ..snapshot import People
from ..tracks import FOREVER, History
from .planned import Planned
from .statistics import alarm_level

__all__ = ["ArmRow", "EffectRow", "Listed", "MissingRow", "TrialResult", "trial_result"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The trial is over when this share of the people with an outcome was seen after its last round.
NEARLY_ALL = 0.5


@dataclass(frozen=True)
class ArmRow:
    """One arm."""

    arm: str
    units: int  # people or sites that were assigned
    people: int
    left: int  # of the people, no longer in the programme
    seen: int  # of the people, with an outcome
    listed: float  # share of their rounds in which they were listed
    contacted: float  # share of their recorded rounds in which they were contacted
    outcome: float  # mean over people
    adjusted: float  # the same, had all people been in this arm


@dataclass(frozen=True)
class EffectRow:
    """One arm against another, in mean outcome."""

    arm: str
    against: str
    effect: float  # adjusted for what was known before
    low: float
    high: float
    se: float
    p: float
    plain: float  # difference of means
    plain_low: float
    plain_high: float
    told: bool | None = None  # beyond chance, all comparisons together; None: the trial is not over


@dataclass(frozen=True)
class MissingRow:
    """People without an outcome, in one arm against another."""

    arm: str
    against: str
    missing: float  # share
    missing_against: float
    p: float
    flagged: bool = False


@dataclass(frozen=True)
class TrialResult:
    """What a trial found.

    Attributes
    ----------
    first, last : int
        Its rounds.
    seen_until : int
        The last of them after which states are known; less than ``first``: none.
    over : bool
        Whether the trial is over.
    sites : str
        The column whose values were assigned; empty: people were assigned.
    later : int
        People who came after the assignment, and are not counted.
    numbers : int
        How many numbers, known before the assignment, effects are adjusted for.
    arms, effects, missing : tuple
        The rows of each table.
    luck : str
        Where the luck of the assignment came from.
    undrawn : int
        Commitments of a trial that were never drawn.
    """

    first: int
    last: int
    seen_until: int
    over: bool
    sites: str
    later: int
    numbers: int
    arms: tuple[ArmRow, ...]
    effects: tuple[EffectRow, ...]
    missing: tuple[MissingRow, ...]
    luck: str
    undrawn: int = 0


class Listed:
    """How often the people of each arm were listed and contacted.

    Parameters
    ----------
    trial : Trial
        Who is in which arm.
    n : int
        Number of people.
    """

    def __init__(self, trial: Trial, n: int) -> None:
        self._trial = trial
        self._arm = np.full(n, -1)
        self._arm[trial.person] = trial.arm
        # By arm: rounds in the programme, and recorded rounds; of these, listed and contacted.
        self._of, self._done = np.zeros((2, 2, len(trial.design.arms)))

    def add(self, one: Planned) -> None:
        """Count a round."""
        if not self._trial.runs_in(one.round):
            return
        arm, A = self._arm[one.person], self._of.shape[1]
        here = one.in_programme & (arm >= 0)
        for row, (counted, hit) in enumerate(
            ((here, one.listed == 1), (here & (one.contacted >= 0), one.contacted == 1))
        ):
            self._of[row] += np.bincount(arm[counted], minlength=A)
            self._done[row] += np.bincount(arm[counted & hit], minlength=A)

    @property
    def rates(self) -> Floats:
        """Shares of rounds in the programme: listed, and of recorded rounds, contacted [2, A]."""
        nothing = np.full(self._of.shape, np.nan)
        rates: Floats = np.divide(self._done, self._of, out=nothing, where=self._of > 0)
        return rates


def trial_result(
    trial: Trial, people: People, history: History, listed: Listed, S: int
) -> TrialResult:
    """What a trial found so far.

    Parameters
    ----------
    trial : Trial
        Who is in which arm.
    people : People
        Everybody, with what is in force.
    history : History
        All that was recorded.
    listed : Listed
        Of all planned rounds.
    S : int
        Number of states.

    Returns
    -------
    TrialResult
        Every figure.
    """
    design, A = trial.design, len(trial.design.arms)
    y = outcomes(history, trial.first, trial.last, people.n, S)[trial.person]
    means, plain, seen = _fitted(trial, y)
    over, until = _progress(trial, history, y)
    effects = tuple(
        _effect(trial, means.contrast(*pair), plain.contrast(*pair), pair)
        for pair in pairs_of(design.arms)
    )
    if over:
        level = alarm_level((row.p for row in effects), 1 - LEVEL)
        effects = tuple(replace(row, told=bool(row.p <= level)) for row in effects)
    gone = np.isin(trial.person, people.gone(trial.last + 1))
    rates = listed.rates
    rows = []
    for a, arm in enumerate(design.arms):
        here = trial.arm == a
        known = here & ~np.isnan(y)
        rows.append(
            ArmRow(
                arm=str(arm),
                units=int(np.count_nonzero(trial.unit_arms == a)),
                people=int(here.sum()),
                left=int((here & gone).sum()),
                seen=int(known.sum()),
                listed=float(rates[0, a]),
                contacted=float(rates[1, a]),
                outcome=float(y[known].mean()) if known.any() else math.nan,
                adjusted=float(means.mean[a]),
            )
        )
    return TrialResult(
        first=trial.first,
        last=trial.last,
        seen_until=until,
        over=over,
        sites=design.sites or "",
        later=_later(trial, people),
        numbers=means.numbers,
        arms=tuple(rows),
        effects=effects,
        missing=_missing(trial, y) if A and seen else (),
        luck=trial.luck.sentence("Assigned"),
    )


def _later(trial: Trial, people: People) -> int:
    """How many people were neither assigned nor gone when the trial began."""
    before = np.union1d(trial.person, people.gone(trial.first))
    return people.n - len(before)


def _fitted(trial: Trial, y: Floats) -> tuple[Means, Means, int]:
    """Means of the arms, adjusted and plain, and the number of units with a known outcome."""
    m, A, known = len(trial.X), len(trial.design.arms), ~np.isnan(y)
    weight = np.bincount(trial.unit[known], minlength=m).astype(np.float64)
    seen = np.flatnonzero(weight > 0)
    mean = np.bincount(trial.unit[known], y[known], m)[seen] / weight[seen]
    X, arm = trial.X[seen], trial.unit_arms[seen]
    adjusted = Means.of(mean, X, arm, A, weight[seen])
    return adjusted, Means.of(mean, X[:, :0], arm, A, weight[seen]), len(seen)


def _progress(trial: Trial, history: History, y: Floats) -> tuple[bool, int]:
    """Whether a trial is over, and the last of its rounds after which states are known."""
    during = history.between(trial.first + 1, FOREVER)
    known = trial.person[trial.person < history.n]
    seen = np.count_nonzero(during.state[:, known] >= 0, axis=1)
    rounds = during.rounds[seen > 0]
    until = min(int(rounds[-1]) - 1, trial.last) if len(rounds) else trial.first - 1
    after_last = int(seen[during.rounds == trial.last + 1].sum())
    nearly_all = after_last >= max(NEARLY_ALL * np.count_nonzero(~np.isnan(y)), 1)
    return bool(nearly_all or (rounds > trial.last + 1).any()), until


def _effect(trial: Trial, adjusted: Contrast, plain: Contrast, pair: tuple[int, int]) -> EffectRow:
    a, b = pair
    return EffectRow(
        arm=str(trial.design.arms[a]),
        against=str(trial.design.arms[b]),
        effect=adjusted.value,
        low=adjusted.low,
        high=adjusted.high,
        se=adjusted.se,
        p=adjusted.p,
        plain=plain.value,
        plain_low=plain.low,
        plain_high=plain.high,
    )


def _missing(trial: Trial, y: Floats) -> tuple[MissingRow, ...]:
    """Whether more people of one arm have no outcome than of another."""
    A, arms, missing = len(trial.design.arms), trial.design.arms, np.isnan(y)
    many = np.bincount(trial.arm, minlength=A)
    without = np.bincount(trial.arm[missing], minlength=A)
    m = len(trial.X)
    sizes = np.bincount(trial.unit, minlength=m).astype(np.float64)
    share = np.bincount(trial.unit, missing, m) / np.maximum(sizes, 1)
    means = Means.of(share, trial.X[:, :0], trial.unit_arms, A, np.maximum(sizes, 1))
    rows = []
    for a, b in pairs_of(arms):
        if not without[[a, b]].any():
            p = math.nan
        elif trial.design.sites is None:
            p = _fisher(without[[a, b]], many[[a, b]])
        else:  # people of a site are not independent; an arm without spread allows no test
            p = means.contrast(a, b).p if (means.variance[[a, b]] > 0).all() else math.nan
        rows.append(
            MissingRow(str(arms[a]), str(arms[b]), without[a] / many[a], without[b] / many[b], p)
        )
    return tuple(rows)


def _fisher(without: Ints, many: Ints) -> float:
    """Fisher's exact test of two counts [2] among many [2]."""
    from scipy.stats import fisher_exact

    return float(fisher_exact(np.stack([without, many - without]))[1])
