"""Readings of the paper: which of them reproduce Table 2 and Figure 1.

The paper describes the cohort of Table 2 in two sentences (see :func:`softfair.datasets.cpap`). A
:class:`Reading` fills in what these sentences leave open. Each reading of a grid is run as an
experiment and compared with the paper's table: its *distance* is the largest difference between our
mean benefit and the paper's, over the four policies, in units of the paper's standard deviation. A
reading with a distance of at most 1 is within the paper's standard deviations. The default reading
was chosen after seeing the table, so that its agreement confirms nothing by itself.

Figure 1 says that "almost 50% of the arms never get activated" by the Whittle index. Here the
question is on which of the paper's cohorts, and with which form of the index, half of the arms are
never helped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..datasets import CPAP_MIX, EffectBy, EffectKind, NoiseOn
from ..errors import InvalidInput
from .paper import PAPER_TABLE_2

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CHOICES",
    "DEFAULT",
    "FIGURE_1_COHORTS",
    "STANDS_FOR",
    "Distance",
    "Effect",
    "Reading",
    "distance_of",
    "grid",
    "main_effects",
    "nearest",
    "starved",
]

#: The policy of an experiment for each line of Table 2. The mean field is the fixed point of the
#: paper's algorithm, and takes a thousandth of the time.
STANDS_FOR = {
    "Random": "Random",
    "Myopic": "Myopic",
    "FairMyopic": "FairMyopic",
    "SoftFair": "SoftFair (mean field)",
}


@dataclass(frozen=True)
class Reading:
    """One way to fill in what the paper leaves open about the CPAP cohort."""

    adherent: float  # share of patients in the adherent cluster
    effect_by: EffectBy
    effect_kind: EffectKind
    noise: float
    noise_on: NoiseOn

    @property
    def id(self) -> str:
        """A name for files and for the command line."""
        share = f"{100 * self.adherent:g}"
        return f"{share}-{self.effect_by}-{self.effect_kind}-{self.noise:g}-{self.noise_on}"

    def parameters(self) -> dict[str, Any]:
        """Give the parameters of :func:`softfair.datasets.cpap`."""
        return {
            "mix": {"adherent": self.adherent, "non-adherent": 1 - self.adherent},
            "effect_by": self.effect_by,
            "effect_kind": self.effect_kind,
            "noise": self.noise,
            "noise_on": self.noise_on,
        }


#: The default of :func:`softfair.datasets.cpap`.
DEFAULT = Reading(CPAP_MIX["adherent"], "group", "added", 0.01, "both")

#: The choices that are varied, in words.
CHOICES = {
    "adherent": "share of adherent patients",
    "effect_by": "one effect drawn for each",
    "effect_kind": "the effect is",
    "noise": "noise, half-width",
    "noise_on": "noise on",
}


def grid(
    adherent: Sequence[float] = (CPAP_MIX["adherent"], 0.29, 0.5, 0.83),
    effect_by: Sequence[EffectBy] = ("group", "patient", "state"),
    effect_kind: Sequence[EffectKind] = ("added", "relative", "share"),
    noise: Sequence[float] = (0.01, 0.05),
    noise_on: Sequence[NoiseOn] = ("both", "passive"),
) -> list[Reading]:
    """List all combinations of the values of each choice.

    Parameters
    ----------
    adherent : sequence of float
        Shares of adherent patients. The paper quotes that 29 to 83 % of patients adhere; by default
        the share of :data:`softfair.datasets.CPAP_MIX` and one half are tried as well.
    effect_by, effect_kind, noise, noise_on : sequence
        Values of the parameters of :func:`softfair.datasets.cpap`.

    Returns
    -------
    list of Reading
        In the order of the parameters, the last one varying fastest.

    Raises
    ------
    InvalidInput
        A choice has no value, so that the grid is empty.
    """
    values: dict[str, Sequence[Any]] = {
        "adherent": adherent,
        "effect_by": effect_by,
        "effect_kind": effect_kind,
        "noise": noise,
        "noise_on": noise_on,
    }
    empty = [name for name, choices in values.items() if not len(choices)]
    if empty:
        raise InvalidInput(
            f"the grid of readings has nothing in it: {empty[0]} has no value ({len(empty)} of "
            f"{len(values)} choices have none); give at least one value of each"
        )
    return [Reading(*combination) for combination in product(*values.values())]


@dataclass(frozen=True)
class Distance:
    """The figures of one reading, and their distance from Table 2."""

    benefit: Mapping[str, float]  # mean over cohorts, by line of Table 2
    entropy: Mapping[str, float]
    distance: float  # largest |benefit - paper's| in the paper's standard deviations
    cohorts: int
    cohorts_within: int  # cohorts in which all four benefits are within the paper's sds

    @property
    def within(self) -> bool:
        """Whether all four mean benefits lie within the paper's standard deviations."""
        return self.distance <= 1


def distance_of(rows: pd.DataFrame) -> Distance:
    """Compare the rows of the experiment of one reading with Table 2.

    Parameters
    ----------
    rows : DataFrame
        One row for each run, with columns ``policy``, ``instance``, ``benefit`` and ``entropy``.

    Returns
    -------
    Distance
    """
    means = rows.groupby(["instance", "policy"])[["benefit", "entropy"]].mean()
    benefit = means["benefit"].unstack()[list(STANDS_FOR.values())]  # [cohorts, 4]
    entropy = means["entropy"].unstack()[list(STANDS_FOR.values())]
    paper, sd = (np.array([line[0][i] for line in PAPER_TABLE_2.values()]) for i in (0, 1))
    deviations = np.abs(benefit.to_numpy() - paper) / sd  # [cohorts, 4]
    return Distance(
        benefit=dict(zip(STANDS_FOR, benefit.mean().tolist(), strict=True)),
        entropy=dict(zip(STANDS_FOR, entropy.mean().tolist(), strict=True)),
        distance=float(np.max(np.abs(benefit.mean().to_numpy() - paper) / sd)),
        cohorts=len(benefit),
        cohorts_within=int(np.count_nonzero((deviations <= 1).all(axis=1))),
    )


def nearest(distances: Mapping[Reading, Distance], count: int) -> list[tuple[Reading, Distance]]:
    """Give the nearest readings, nearest first, and the default if it is not among them."""
    ordered = sorted(distances.items(), key=lambda item: item[1].distance)
    shown = ordered[:count]
    return shown + [item for item in ordered[count:] if item[0] == DEFAULT]


@dataclass(frozen=True)
class Effect:
    """Averages over all readings that share one value of one choice."""

    choice: str
    value: str
    readings: int
    within: int
    random: float  # mean benefit of Random, which the readings move most
    distance: float  # mean distance


def main_effects(distances: Mapping[Reading, Distance]) -> list[Effect]:
    """Average over the readings that share a value, for each value of each choice.

    The differences between the values of a choice show how much the choice matters.
    """
    effects = []
    for choice in CHOICES:
        for value in dict.fromkeys(getattr(reading, choice) for reading in distances):
            shared = [o for reading, o in distances.items() if getattr(reading, choice) == value]
            effects.append(
                Effect(
                    choice,
                    f"{100 * value:g} %" if choice == "adherent" else f"{value}",
                    len(shared),
                    sum(o.within for o in shared),
                    float(np.mean([o.benefit["Random"] for o in shared])),
                    float(np.mean([o.distance for o in shared])),
                )
            )
    return effects


#: Cohorts on which Figure 1 is tried, by name: the cohorts that the paper uses.
FIGURE_1_COHORTS: dict[str, tuple[Literal["synthetic", "cpap"], dict[str, Any]]] = {
    "synthetic": ("synthetic", {}),
    **{
        f"p10={chance:g}": ("synthetic", {"recovery": chance})
        for chance in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    },
    "cpap": ("cpap", {}),
}


def starved(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, tuple[float, float]]]:
    """Give the share of arms never helped, in per cent, by policy and cohort.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Rows of the experiments by name of the cohort.

    Returns
    -------
    dict
        ``[policy][cohort]`` is the lowest and the highest mean over the runs on one instance.
    """
    shares: dict[str, dict[str, tuple[float, float]]] = {}
    for cohort, rows in tables.items():
        means = 100 * rows.groupby(["policy", "instance"])["never_selected"].mean()
        for policy in rows["policy"].unique():
            of_policy = means.loc[policy]
            shares.setdefault(str(policy), {})[cohort] = (
                float(of_policy.min()),
                float(of_policy.max()),
            )
    return shares
