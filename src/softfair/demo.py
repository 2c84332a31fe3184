"""The demonstration: all policies on two cohorts, and a programme from first import to audit.

The first part prints a table of all policies on the synthetic and on the CPAP cohort, and draws
benefit against fairness and how often arms are helped. The second part runs the commands of an
officer over four weeks and shows their output.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import datasets
from .cohort import Cohort
from .comparison import compare, frontier, limit, table_of
from .errors import NotConverged
from .policies import (
    EvenHanded,
    FairMyopic,
    FaWT,
    Myopic,
    NoIntervention,
    Oracle,
    Policy,
    ProbFair,
    Random,
    RoundRobin,
    SoftFair,
    ThresholdWhittle,
    Whittle,
)
from .policies.setting import Budget
from .programme import sample
from .simulation import simulate
from .terminal import show

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["run_a_programme", "show_policies", "tradeoff"]

N, K, HORIZON, RUNS = 100, 10, 50, 50
MANY = 400  # runs of each point of the picture, for standard errors below half a point
POLICIES: Sequence[Policy] = [
    NoIntervention(),
    Random(),
    RoundRobin(),
    Myopic(),
    FairMyopic(),
    Oracle(),
    Whittle("infinite"),
    Whittle("finite"),
    ThresholdWhittle(),
    FaWT(window=20),
    ProbFair(low=0.02),
    SoftFair(c=5, solver="paper", design="successive", episodes=6 * HORIZON),
    SoftFair(c=5, solver="meanfield", design="successive"),
    SoftFair(c=10, c_value=1, solver="meanfield", design="successive"),
    SoftFair(c=5),
    SoftFair(c=10),
    SoftFair(c=20),
    EvenHanded(mu=40),
    EvenHanded(mu=100),
    EvenHanded(mu=400),
]
EVEN_WEIGHTS = (0.02, 0.08, 0.2, 0.4, 0.8)  # mu of EvenHanded, divided by the number of all helps
FEW_CS = (0, 1, 2, 3, 5, 7, 9)  # c of SoftFair with values by the mean field
WIDE = ["unfair", "gini", "reward"]  # figures without which the table fits into 80 columns


def _show(name: str, cohort: Cohort) -> None:
    """Print a table of all policies on one cohort."""
    figures = compare(POLICIES, cohort, K, HORIZON, runs=RUNS).drop(columns=WIDE)
    title = f"{name}: n = {N}, k = {K}, {HORIZON} decisions, {RUNS} runs"
    show(table_of(figures, title))
    print()


def tradeoff(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    curve: pd.DataFrame | None = None,
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """The curves and points of a picture of the trade-off between benefit and fairness.

    Parameters
    ----------
    cohort, k, horizon, gamma, runs, seed
        See :func:`softfair.compare`.
    curve : DataFrame, optional
        The curve of SoftFair with values by prices, if it is known already.

    Returns
    -------
    tuple of dict and DataFrame
        Curves of SoftFair by three recipes and of EvenHanded, by their labels; and the figures of
        single policies, without policies that cannot act on this cohort.
    """
    setting = (gamma, runs, seed)
    helps = int(np.broadcast_to(k, horizon).sum())
    mus = [share * max(helps, horizon) for share in EVEN_WEIGHTS]
    even = compare([EvenHanded(mu=mu) for mu in mus], cohort, k, horizon, *setting)
    coupled = SoftFair(solver="meanfield", design="successive")
    decoupled = dataclasses.replace(coupled, c_value=1)
    curves = {
        "EvenHanded over \u03bc": even.assign(mu=mus),
        "SoftFair over c, values by prices": (
            frontier(cohort, k, horizon, None, *setting) if curve is None else curve
        ),
        "SoftFair, values with c = 1": frontier(
            cohort, k, horizon, FEW_CS, *setting, policy=decoupled
        ),
        "SoftFair, one c for values and draws": frontier(
            cohort, k, horizon, FEW_CS, *setting, policy=coupled
        ),
    }
    fair_share = helps / (horizon * cohort.n)  # chance of help at a decision if all are equal
    others: list[Policy] = [Random(), Myopic(), Oracle()]
    if 0 < fair_share < 1:
        others += [FaWT(window=math.ceil(2 / fair_share)), ProbFair(low=fair_share / 5)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* cannot be compared: ")
        marks = compare(others, cohort, k, horizon, *setting)
    return curves, marks[marks["benefit"].notna()]


def _draw_cost(out: Path) -> None:
    """Draw benefit against fairness on two cohorts, with the limit that no policy can exceed."""
    from .figures import draw_frontier, new_figure

    figure, axes = new_figure(columns=2, height=5.0)
    cohorts = {
        "synthetic": datasets.synthetic(N, seed=0),
        "CPAP": datasets.cpap(N, seed=0),
    }
    for ax, (name, cohort) in zip(axes, cohorts.items(), strict=True):
        _show(name, cohort)
        curves, marks = tradeoff(cohort, K, HORIZON, runs=MANY)
        ax.set_title(f"{name} cohort")
        draw_frontier(ax, curves, marks, bound=limit(cohort, K, HORIZON, runs=MANY))
    figure.savefig(out / "frontier.png", dpi=150)


def _draw_starved(out: Path) -> None:
    """Draw Figure 1 of the paper (n = 100, k = 10, T = 100): how often each arm is helped."""
    from .figures import draw_histograms, new_figure

    cohort = datasets.synthetic(N, seed=0)
    policies = {
        "Threshold Whittle": ThresholdWhittle(),
        "SoftFair, c = 2": SoftFair(c=2),
    }
    counts = {
        label: simulate(policy.fit(cohort, k=K, horizon=100), runs=1).counts[0]
        for label, policy in policies.items()
    }
    figure, axes = new_figure(columns=2, height=3.2)
    draw_histograms(axes, counts)
    figure.savefig(out / "selections.png", dpi=150)


def show_policies(out: Path) -> None:
    """Print all policies on two cohorts, and draw benefit against fairness and helps of arms.

    Parameters
    ----------
    out
        Folder for the pictures.
    """
    out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the table and the picture mark such values
        _draw_cost(out)
        _draw_starved(out)
    print(
        f"Pictures: {out / 'frontier.png'} (what fairness costs), "
        f"{out / 'selections.png'} (who is ever helped)"
    )


def run_a_programme(folder: Path) -> None:
    """Run a programme from its first import to the audit of four rounds, by the commands.

    Parameters
    ----------
    folder
        The folder for the files of the programme and the page of the audit; an earlier programme in
        the folder is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("softfair.db*"):
        old.unlink()
    (folder / "people.csv").write_bytes(sample.people_file())
    (folder / "history.csv").write_bytes(sample.history_file())
    options = "--capacity 12 --target benefit=80% --cooldown 1 --seed 0 --first-day 2027-01-04"
    _type_in(folder, "init", *options.split())
    _type_in(folder, "import", "people", "people.csv")
    _type_in(folder, "import", "history", "history.csv")
    _type_in(folder, "fit")
    for shown in (True, False, False, False):
        _type_in(folder, "plan", shown=shown)
        _type_in(folder, "record", "--sample")
    _type_in(folder, "status")
    _type_in(folder, "check")
    _type_in(folder, "audit", "--html", "audit.html")
    _type_in(folder, "user", "add", "demo", "--role", "officer", "--no-password")
    # `make demo` runs the demonstration from an environment that may not be active.
    softfair = "softfair" if shutil.which("softfair") else Path(sys.executable).parent / "softfair"
    print(
        "\nThe same programme in a browser, with a link that signs a demo officer in:\n"
        f"  {softfair} serve --db {folder / 'softfair.db'} --sign-in-as demo"
    )


def _type_in(folder: Path, *words: str, shown: bool = True) -> None:
    """Run a command in the folder, after printing it as if it were typed."""
    print(f"\n$ softfair {' '.join(words)}", flush=True)
    command = [sys.executable, "-c", "from softfair.cli import main; main()", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=None if shown else subprocess.DEVNULL)
