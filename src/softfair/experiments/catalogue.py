"""Every figure and table of the paper as data: cohorts, policies and sizes.

Choices that the paper does not state are made here and recorded in every result: c (except c = 2 in
Figure 1), the number of episodes, and the CPAP cohort. Above about c = 9 the paper's coupled c no
longer raises the benefit on the synthetic cohort. All solvers get the same c.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .. import datasets
from ..cohort import Cohort
from ..errors import InvalidInput
from ..policies import (
    EvenHanded,
    FairMyopic,
    FaWT,
    Myopic,
    Oracle,
    Policy,
    ProbFair,
    Random,
    SoftFair,
    ThresholdWhittle,
    Whittle,
)
from . import readings

__all__ = ["EXPERIMENTS", "Experiment", "find", "names_of_experiments"]

C = 9.0
# At c = 1 and in Table 2, Algorithm 1 runs until its gains have settled. On the synthetic cohort at
# c = 9 that would take 50 to 80 T episodes, and all such fits together far more than the few
# minutes that the report may take. There Algorithm 1 runs 7 T episodes, and figures whose values
# have not settled are marked.
EPISODES = 7  # times T; with fewer episodes, the report does not judge claims
SOON_SETTLED = 1.0  # c up to which few episodes are enough
READING_COHORTS = 5  # of each reading: enough to rank readings, and the grid takes under a minute
MOST_LISTED = 10  # a figure with more parts is listed under one name

DATASETS: dict[str, Callable[..., Cohort]] = {
    "synthetic": datasets.synthetic,
    "cpap": datasets.cpap,
}


def softfair(
    c: float, c_value: float | None = None, episodes: int | None = None
) -> dict[str, Policy]:
    """SoftFair by all three solvers; the priced one has the joint design, the others successive.

    ``episodes`` is for Algorithm 1; with None it runs until its gains have settled.
    """
    paper = SoftFair(c=c, solver="paper", design="successive", c_value=c_value, episodes=episodes)
    return {
        "SoftFair (paper)": paper,
        "SoftFair (mean field)": replace(paper, solver="meanfield", episodes=None),
        "SoftFair (priced)": SoftFair(c=c, solver="priced", design="joint", c_value=c_value),
    }


BASELINES: dict[str, Policy] = {
    "Random": Random(),
    "Myopic": Myopic(),
    "FairMyopic": FairMyopic(),
    "Oracle": Oracle(),
}


@dataclass(frozen=True)
class Experiment:
    """One point of a figure, or one table.

    Parameters
    ----------
    id : str
        The name on the command line and of the files.
    figure : str
        The figure or table that the experiment is a part of.
    dataset : {"synthetic", "cpap"}
        The data set of the cohorts.
    n, k, horizon : int
        Arms, arms helped at each decision, decisions.
    policies : mapping of str to Policy
        The policies by the label that the report shows.
    parameters : mapping
        Parameters of the data set that differ from the defaults.
    x : float or str
        The place of the experiment on the axis of the figure.
    keep_counts : bool
        Whether the count of each arm is kept, for a histogram.
    keep_limits : bool
        Whether the bound on benefit by entropy of each cohort is kept, for a picture.
    cohorts : int, optional
        The largest number of cohorts, if many experiments are compared.
    """

    id: str
    figure: str
    dataset: Literal["synthetic", "cpap"]
    n: int
    k: int
    horizon: int
    policies: Mapping[str, Policy]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    x: float | str = ""
    keep_counts: bool = False
    keep_limits: bool = False
    cohorts: int | None = None

    def cohort(self, seed: int) -> Cohort:
        """The cohort of a seed."""
        return DATASETS[self.dataset](n=self.n, seed=seed, **self.parameters)

    def small(self) -> Experiment:
        """Give the same experiment with less of Algorithm 1, which takes most of the time.

        Returns
        -------
        Experiment
            The sizes are those of the paper. Algorithm 1 is in Table 2 only, with T episodes, which
            a reward needs to travel back to the first decision; its values have not settled then.
        """
        policies: dict[str, Policy] = {}
        for label, policy in self.policies.items():
            if not (isinstance(policy, SoftFair) and policy.solver == "paper"):
                policies[label] = policy
            elif self.figure == "table2":
                policies[label] = replace(policy, episodes=self.horizon)
        return replace(self, policies=policies)

    def beside(self, policies: Iterable[Policy]) -> Experiment:
        """Give the same experiment with further policies.

        Parameters
        ----------
        policies : iterable of Policy
            The policies, not yet fitted; each is shown by its label.

        Returns
        -------
        Experiment

        Raises
        ------
        InvalidInput
            An entry is not a policy.
        """
        added: dict[str, Policy] = {}
        for policy in policies:
            if not isinstance(policy, Policy):
                raise InvalidInput(f"{policy!r} is not a policy; make one, such as sf.Random()")
            added[policy.label] = policy
        return replace(self, policies={**self.policies, **added})

    def settings(self) -> dict[str, Any]:
        """All choices of the experiment, including defaults, as plain data."""
        make = inspect.signature(DATASETS[self.dataset])
        bound = make.bind_partial(**self.parameters)
        bound.apply_defaults()
        parameters = {
            name: _plain(value)
            for name, value in bound.arguments.items()
            if name not in ("n", "seed")
        }
        return {
            "id": self.id,
            "dataset": self.dataset,
            "parameters": parameters,
            "n": self.n,
            "k": self.k,
            "horizon": self.horizon,
            "gamma": 1.0,
            "cohorts": self.cohorts,
            "policies": {label: _choices(policy) for label, policy in self.policies.items()},
        }


def _choices(policy: Policy) -> dict[str, Any]:
    """The class and all parameters of a policy; a c_value of None is replaced by c."""
    names = [field.name for field in fields(policy)] if is_dataclass(policy) else vars(policy)
    choices = {name: _plain(getattr(policy, name)) for name in names}
    if isinstance(policy, SoftFair) and policy.c_value is None:
        choices["c_value"] = choices["c"]
    return {"policy": type(policy).__name__, **choices, **_code_of(type(policy))}


@cache
def _code_of(kind: type[Policy]) -> dict[str, str]:
    """A digest of the file that defines a user's policy; empty for policies of this package.

    Policies of this package are covered by the digest of the package. A class without a file gets a
    random digest, so that its results are never reused in another process.
    """
    if kind.__module__.split(".")[0] == __name__.split(".")[0]:
        return {}
    try:
        source = Path(inspect.getfile(kind)).read_bytes()
    except (OSError, TypeError):
        source = secrets.token_bytes(32)
    return {"code": hashlib.sha256(source).hexdigest()[:16]}


def _plain(value: Any) -> Any:
    """The value as JSON can represent it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _figure_1() -> list[Experiment]:
    indexed: dict[str, Policy] = {
        "Threshold Whittle": ThresholdWhittle(),
        "Whittle": Whittle("infinite"),
        "Oracle": Oracle(),
    }
    policies = indexed | softfair(2.0, episodes=EPISODES * 100)
    return [Experiment("fig1", "fig1", "synthetic", 100, 10, 100, policies, keep_counts=True)]


def _usual(horizon: int) -> dict[str, Policy]:
    """Every policy of the paper's evaluation, at the usual c."""
    return BASELINES | softfair(C, episodes=EPISODES * horizon)


def _figure_2() -> list[Experiment]:
    return [
        *(
            Experiment(f"fig2a/{n}", "fig2a", "synthetic", n, n // 10, 50, _usual(50), x=n)
            for n in (10, 100, 1000)
        ),
        *(
            Experiment(f"fig2b/{k}", "fig2b", "synthetic", 100, k, 50, _usual(50), x=k)
            for k in (5, 10, 20)
        ),
        *(
            Experiment(f"fig2c/{T}", "fig2c", "synthetic", 100, 10, T, _usual(T), x=T)
            for T in (20, 50, 100)
        ),
    ]


def _figure_3() -> list[Experiment]:
    experiments = []
    for c in (1.0, 2.0, 5.0, 9.0, 20.0, math.inf):
        # At c = inf the top k are chosen by values learnt with c = 1 (caption of Figure 3). Values
        # learnt with c = 1 are also shown at every other c.
        coupled = (
            softfair(c, episodes=None if c <= SOON_SETTLED else EPISODES * 50)
            if math.isfinite(c)
            else softfair(c, c_value=1.0)
        )
        decoupled: dict[str, Policy] = {
            "SoftFair (c_value = 1)": SoftFair(
                c=c, solver="meanfield", design="successive", c_value=1.0
            ),
        }
        policies = BASELINES | coupled | decoupled
        experiments.append(
            Experiment(f"fig3a/{c:g}", "fig3a", "synthetic", 100, 10, 50, policies, x=c)
        )
    for chance in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        experiments.append(
            Experiment(
                f"fig3b/{chance:g}",
                "fig3b",
                "synthetic",
                100,
                10,
                50,
                _usual(50),
                {"recovery": chance},
                x=chance,
            )
        )
    return experiments


def _table_2() -> list[Experiment]:
    return [Experiment("table2", "table2", "cpap", 100, 10, 80, BASELINES | softfair(C))]


def _limit() -> list[Experiment]:
    """Beyond the paper: policies on both data sets, and the limit that no policy can exceed."""
    mean_field = SoftFair(solver="meanfield", design="successive")
    policies: dict[str, Policy] = {
        "Random": Random(),
        "Oracle": Oracle(),
        "FaWT": FaWT(window=20),
        "ProbFair": ProbFair(low=0.02),
        **{f"EvenHanded, mu = {mu:g}": EvenHanded(mu=mu) for mu in (10.0, 40.0, 100.0, 400.0)},
        **{f"SoftFair (priced), c = {c:g}": SoftFair(c=c) for c in (2.0, 5.0, 10.0, 20.0, 50.0)},
        **{
            f"SoftFair (c_value = 1), c = {c:g}": replace(mean_field, c=c, c_value=1.0)
            for c in (2.0, 5.0, 10.0, 20.0)
        },
        **{
            f"SoftFair (mean field), c = {c:g}": replace(mean_field, c=c)
            for c in (1.0, 2.0, 5.0, 9.0)
        },
    }
    return [
        Experiment(
            f"limit/{name}",
            "limit",
            name,
            100,
            10,
            50,
            policies,
            x=name,
            keep_limits=True,
            cohorts=READING_COHORTS,
        )
        for name in ("synthetic", "cpap")
    ]


def _readings() -> list[Experiment]:
    """Table 2 under every reading of the grid, and Figure 1 on each of the paper's cohorts."""
    fast = {label: (BASELINES | softfair(C))[label] for label in readings.STANDS_FOR.values()}
    indexed: dict[str, Policy] = {
        "Threshold Whittle": ThresholdWhittle(),
        "Whittle": Whittle("infinite"),
        "Whittle (finite horizon)": Whittle("finite"),
        "Oracle": Oracle(),
    }
    return [
        Experiment(
            f"table2/{reading.id}",
            "table2-readings",
            "cpap",
            100,
            10,
            80,
            fast,
            parameters=reading.parameters(),
            x=reading.id,
            cohorts=READING_COHORTS,
        )
        for reading in readings.grid()
    ] + [
        Experiment(
            f"fig1/{name}",
            "fig1-readings",
            dataset,
            100,
            10,
            100,
            indexed,
            parameters=parameters,
            x=name,
            cohorts=READING_COHORTS,
        )
        for name, (dataset, parameters) in readings.FIGURE_1_COHORTS.items()
    ]


EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for part in (_figure_1, _figure_2, _figure_3, _table_2, _limit, _readings)
    for experiment in part()
}


def find(names: Iterable[str] = ()) -> list[Experiment]:
    """Find experiments by name.

    Parameters
    ----------
    names : iterable of str
        Ids (``fig2a/100``), parts of a figure (``fig2a``) or figures (``fig2``, which has three
        parts). An empty list means all experiments.

    Returns
    -------
    list of Experiment
        Each experiment once, in the order of the names.

    Raises
    ------
    InvalidInput
        A name is empty or unknown, or ``names`` is one text instead of a list.
    """
    known = f"the known ones are {', '.join(names_of_experiments())}"
    if isinstance(names, str):
        raise InvalidInput(f"names is the text {names!r}; give a list, such as [{names!r}]")
    chosen: dict[str, Experiment] = {}
    for name in list(names) or list(EXPERIMENTS):
        if not name.strip():
            raise InvalidInput(f"the name of an experiment is empty; {known}")
        parts = [e for e in EXPERIMENTS.values() if name in (e.id, e.figure, _whole(e.figure))]
        if not parts:
            raise InvalidInput(f"there is no experiment {name!r}; {known}")
        chosen |= {e.id: e for e in parts}
    return list(chosen.values())


def names_of_experiments() -> list[str]:
    """List the names to choose from: ids, and a single name for a figure of many parts.

    Returns
    -------
    list of str
    """
    sizes = Counter(experiment.figure for experiment in EXPERIMENTS.values())
    return list(
        dict.fromkeys(
            experiment.id if sizes[experiment.figure] <= MOST_LISTED else experiment.figure
            for experiment in EXPERIMENTS.values()
        )
    )


def _whole(figure: str) -> str:
    """The figure that a part belongs to: fig2 of fig2a, table2 of table2-readings."""
    return re.sub(r"^(fig\d+)[a-z]$|-readings$", r"\1", figure)
