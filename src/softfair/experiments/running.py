"""Run experiments, and keep their results.

An experiment has some cohorts, each from its own seed, and on each some runs; a row of the result
is one run of one policy. Experiments of the same data set and sizes share their cohorts, and what
several of them ask of the same policy is computed once.

A result is two files, ``<id>.csv`` with the rows and ``<id>.json`` with every choice in force, the
software, the seed and a hash of the rows; it is complete when the second is there. It is used again
only if all of these are the same. Each cohort is kept as soon as it is done, so that an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import platform
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import event

from .. import datasets
from ..cluster import Crew, crew_of, refuse_other_software, software
from ..comparison import Figures, Yardsticks, figures_of
from ..errors import InvalidInput, NotConverged
from ..files import write_own
from ..kernels.threads import get_threads
from ..policies import NoIntervention, Oracle, SoftFair, ThresholdWhittle
from ..policies.base import identity
from ..progress import track
from ..simulation import Result, simulate
from ..solvers import TradeoffBound, tradeoff_bound, upper_bound
from .catalogue import Experiment

if TYPE_CHECKING:
    import pandas as pd

    from ..solvers.values import Info

__all__ = ["RUNS_A_COHORT", "Limit", "Outcome", "load", "run", "source_hash"]

# What one cohort adds: its rows, the seconds that each policy took, and its limit or None.
Part = dict[str, Any]
Task = tuple[tuple[Experiment, ...], int]  # experiments of one data set and size, and the cohort

RUNS_A_COHORT = 5  # of the 50 simulations: ten cohorts, five runs on each


@dataclass(frozen=True, eq=False)
class Limit:
    """What no policy can exceed on one cohort.

    Parameters
    ----------
    bound : TradeoffBound
        The most reward at each entropy.
    none, headroom : float
        The reward without help, and the most that help can add to it.
    """

    bound: TradeoffBound
    none: float
    headroom: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """An experiment as it was run.

    Parameters
    ----------
    experiment : Experiment
        With the sizes and policies that were run.
    rows : DataFrame
        One row for each run of each policy: ``policy``, ``instance`` (the cohort's number),
        ``run``, the figures, ``converged``, ``residual`` and ``passes`` of the policy's solver, and
        ``counts`` where the experiment keeps them.
    seed : int
        Cohort j was made with the seed 1000 seed + j.
    limits : tuple of Limit
        One for each cohort, where the experiment keeps them.
    """

    experiment: Experiment
    rows: pd.DataFrame
    seed: int = 0
    limits: tuple[Limit, ...] = ()

    @property
    def cohorts(self) -> int:
        """Number of cohorts."""
        return int(self.rows["instance"].nunique())

    @property
    def runs_a_cohort(self) -> int:
        """Runs on each cohort (the last may have fewer)."""
        return int(self.rows["run"].max()) + 1


def run(
    experiments: list[Experiment],
    out: Path,
    runs: int = 50,
    seed: int = 0,
    jobs: int | None = None,
    again: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
    on: Any = None,
    each: Callable[[Outcome], None] = lambda outcome: None,
) -> dict[str, Outcome]:
    """Run experiments, or take their results from an earlier run of the same software.

    Parameters
    ----------
    experiments : list of Experiment
        What to run.
    out : Path
        Folder; results go to ``out/results``.
    runs : int
        Simulations of each policy: `RUNS_A_COHORT` on each cohort, on no more cohorts than an
        experiment's own limit.
    seed : int
        The same seed gives the same rows, with any number of jobs.
    jobs : int, optional
        Cohorts at a time; default as many as there are threads.
    again : bool
        Whether to run what is already there.
    meanwhile : callable, optional
        Called once while the cohorts are at work in threads: other work for the caller's thread.
    on : Executor, dask.distributed.Client or str, optional
        Who simulates the cohorts, see :func:`softfair.cluster.crew_of`; the rows are the same.
    each : callable, optional
        Called with every outcome as soon as it is there, while others are at work.

    Returns
    -------
    dict of str to Outcome
        By id, in the order of the experiments.

    Raises
    ------
    InvalidInput
        If ``runs`` is below 1, the folder cannot be written or an earlier result is damaged.
    """
    if runs < 1:
        raise InvalidInput(f"runs is {runs}; give at least 1")
    done: dict[str, Outcome] = {}
    for experiment in experiments:
        earlier = None if again else load(experiment, out, runs, seed)
        if earlier is not None:
            done[experiment.id] = earlier
            each(earlier)
    todo = [experiment for experiment in experiments if experiment.id not in done]
    if todo:
        probe = out / "results" / "parts" / ".writable"
        write_own(probe, b"")  # an unwritable folder is refused before any work
        probe.unlink()
        crew = crew_of(on)
        if crew is None or crew.here:
            _compile_side_by_side()
        jobs = jobs or get_threads()
        done |= _run_all(todo, out, runs, seed, jobs, again, meanwhile, crew, each)
        # Only now: while threads are at work, one of them may be about to write there.
        if not any(probe.parent.iterdir()):
            probe.parent.rmdir()
    else:
        meanwhile()
    return {experiment.id: done[experiment.id] for experiment in experiments}


def _run_all(
    experiments: list[Experiment],
    out: Path,
    runs: int,
    seed: int,
    jobs: int,
    again: bool,
    meanwhile: Callable[[], None],
    crew: Crew | None,
    each: Callable[[Outcome], None],
) -> dict[str, Outcome]:
    """Run the experiments side by side; each is written when the last of its cohorts is done."""
    runs_of = _runs_of_cohorts(runs)
    tasks: list[Task] = [
        (alike, cohort)
        for alike in _alike(experiments)
        for cohort in range(_cohorts(alike[0], runs_of))
    ]
    parts: dict[str, dict[int, Part]] = {experiment.id: {} for experiment in experiments}
    done: dict[str, Outcome] = {}

    def work(task: Task, crew: Crew | None) -> dict[str, Part]:
        alike, cohort = task
        kept = {} if again else _kept_parts(alike, out, runs, seed, cohort)
        missing = [experiment for experiment in alike if experiment.id not in kept]
        if missing:
            asked = (missing, runs_of[cohort], cohort, seed)
            if crew is None:
                made = _simulate_cohort(*asked)
            else:
                (made,) = crew.run([(_simulate_on_worker, software(), *asked)])
            for experiment in missing:
                content = json.dumps(made[experiment.id]).encode()
                write_own(_part_file(experiment, out, runs, seed, cohort), content)
            kept |= made
        return kept

    # A thread waits for each task of a crew elsewhere, so that there are as many as tasks. Workers
    # on this machine take the longest tasks first, and this thread, when it is free, the shortest.
    # Without a crew threads work: kernels release the lock, and nothing needs to be started.
    tasks.sort(key=_cost, reverse=True)
    threads = jobs if crew is None else crew.here or len(tasks)
    with ThreadPoolExecutor(threads) as pool:
        results = [pool.submit(work, task, crew) for task in tasks]
        ours = crew is not None and crew.here  # whether this thread takes tasks too
        order = range(len(tasks))[:: -1 if ours else 1]
        try:
            meanwhile()
            for i in track(order, "experiments", total=len(tasks)):
                alike, cohort = tasks[i]
                made = work(tasks[i], None) if ours and results[i].cancel() else results[i].result()
                for experiment in alike:
                    of_experiment = parts[experiment.id]
                    of_experiment[cohort] = made[experiment.id]
                    if len(of_experiment) == _cohorts(experiment, runs_of):
                        done[experiment.id] = _finish(experiment, out, runs, seed, of_experiment)
                        each(done[experiment.id])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return done


def _alike(experiments: list[Experiment]) -> list[tuple[Experiment, ...]]:
    """The experiments grouped by data set and sizes: those of a group have the same cohorts."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        settings = experiment.settings()
        world = {name: value for name, value in settings.items() if name not in ("id", "policies")}
        groups.setdefault(json.dumps(world, sort_keys=True), []).append(experiment)
    return [tuple(group) for group in groups.values()]


def _kept_parts(
    experiments: Sequence[Experiment], out: Path, runs: int, seed: int, cohort: int
) -> dict[str, Part]:
    """What an interrupted run has kept of this cohort; a file that cannot be read is left out."""
    kept: dict[str, Part] = {}
    for experiment in experiments:
        try:
            part = json.loads(_part_file(experiment, out, runs, seed, cohort).read_text())
            kept[experiment.id] = {name: part[name] for name in ("rows", "seconds", "limit")}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # absent or damaged: this cohort is run again
    return kept


ALGORITHM_1 = (
    "import softfair as sf\n"
    "policy = sf.SoftFair(solver='paper', design='successive', episodes=2)\n"
    "policy.fit(sf.datasets.synthetic(4), k=1, horizon=2)\n"
)


class _SecondCompiler(event.Listener):
    """Starts a process that compiles Algorithm 1, half of all kernels, on the first compilation."""

    child: subprocess.Popen[bytes] | None = None

    def on_start(self, compiling: event.Event) -> None:
        if self.child is None:
            self.child = subprocess.Popen(
                [sys.executable, "-c", ALGORITHM_1],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def on_end(self, compiling: event.Event) -> None:
        pass


def _compile_side_by_side() -> None:
    """On first use, compile the kernels on two cores.

    A process compiles one kernel at a time, and finds what another has compiled in the cache.
    """
    if get_threads() < 2:
        return
    second, cohort = _SecondCompiler(), datasets.synthetic(4)
    # Some versions of numba have types, others have none.
    listening: Any = event.install_listener
    with listening("numba:compile", second):
        for policy in (SoftFair(), ThresholdWhittle()):
            fitted = policy.fit(cohort, k=1, horizon=2)
            simulate(fitted, runs=1)
            fitted.inclusion(0, [0] * cohort.n)
    if second.child is not None:
        second.child.wait()


def load(experiment: Experiment, out: Path, runs: int, seed: int) -> Outcome | None:
    """Give an earlier result that was made by the same software with the same choices.

    Parameters
    ----------
    experiment, out, runs, seed
        As for :func:`run`.

    Returns
    -------
    Outcome or None
        None if there is no such result.

    Raises
    ------
    InvalidInput
        If its files are damaged.
    """
    table, about = _files(experiment, out)
    if not about.exists():
        return None
    try:
        record = json.loads(about.read_text())
        content = table.read_bytes()
        sound = record["sha256"] == hashlib.sha256(content).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise InvalidInput(f"the earlier result {about} is damaged; delete it, or run with --again")
    if record["settings"] != _settings(experiment, runs, seed):
        return None
    return _outcome(experiment, content, seed, record["limits"])


def _outcome(
    experiment: Experiment, content: bytes, seed: int, limits: list[dict[str, Any]]
) -> Outcome:
    import pandas as pd

    rows = pd.read_csv(io.BytesIO(content), dtype={"policy": str})
    return Outcome(experiment, rows, seed, tuple(_limit_of(limit) for limit in limits))


def _limit_of(plain: dict[str, Any]) -> Limit:
    """A limit that was kept by `_keep_limit`."""
    slope, intercept = (np.array(plain[name]) for name in ("slope", "intercept"))
    return Limit(TradeoffBound(slope, intercept, plain["even"]), plain["none"], plain["headroom"])


def _keep_limit(bound: TradeoffBound, none: float, headroom: float) -> dict[str, Any]:
    """A limit as JSON holds it, to the last digit."""
    return {
        "slope": bound.slope.tolist(),
        "intercept": bound.intercept.tolist(),
        "even": bound.even,
        "none": none,
        "headroom": headroom,
    }


def _runs_of_cohorts(runs: int) -> list[int]:
    """Runs on each cohort."""
    whole, rest = divmod(runs, RUNS_A_COHORT)
    return [RUNS_A_COHORT] * whole + [rest] * (rest > 0)


def _cohorts(experiment: Experiment, runs_of: list[int]) -> int:
    """How many cohorts an experiment has, of those that the number of runs asks for."""
    most = len(runs_of) if experiment.cohorts is None else experiment.cohorts
    return min(most, len(runs_of))


def _cost(task: Task) -> float:
    alike, _ = task
    # Episodes of Algorithm 1 grow with the horizon.
    return sum(experiment.n * experiment.horizon**2 for experiment in alike)


@dataclass(frozen=True, eq=False)
class _Measured:
    """One policy on one cohort."""

    figures: Figures
    result: Result
    info: Info | None


def _simulate_cohort(
    experiments: Sequence[Experiment], runs: int, cohort: int, seed: int
) -> dict[str, Part]:
    """Rows and seconds of each experiment by id on one cohort, which is the same for all of them.

    The seconds of a policy that several experiments share are those of the first.
    """
    first = experiments[0]
    cohort_seed = 1000 * seed + cohort
    people = first.cohort(cohort_seed)
    setting: dict[str, Any] = {"k": first.k, "horizon": first.horizon, "gamma": 1.0}
    none = simulate(NoIntervention().fit(people, **setting), runs, cohort_seed).totals
    oracle = simulate(Oracle().fit(people, **setting), runs, cohort_seed).totals
    least = upper_bound(people, 0, first.horizon, 1.0)
    headroom = upper_bound(people, **setting) - least
    yardsticks = Yardsticks(none, oracle, headroom)
    measured: dict[Hashable, _Measured] = {}
    parts: dict[str, Part] = {}
    for experiment in experiments:
        rows, seconds = [], {}
        for label, policy in experiment.policies.items():
            seconds[label] = 0.0
            if (key := identity(policy)) not in measured:
                begun = time.thread_time()
                fitted = policy.fit(people, **setting, seed=cohort_seed)
                result = simulate(fitted, runs, cohort_seed)
                figures = figures_of(result, yardsticks)
                seconds[label] = time.thread_time() - begun
                measured[key] = _Measured(figures, result, fitted.info)
            rows += _rows(label, cohort, measured[key], experiment.keep_counts)
        limit = (
            _keep_limit(tradeoff_bound(people, **setting), least, headroom)
            if experiment.keep_limits
            else None
        )
        parts[experiment.id] = {"rows": rows, "seconds": seconds, "limit": limit}
    return parts


def _simulate_on_worker(
    stamp: str, experiments: Sequence[Experiment], runs: int, cohort: int, seed: int
) -> dict[str, Part]:
    """`_simulate_cohort` in a process that has the same software."""
    refuse_other_software(stamp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the report says where
        return _simulate_cohort(experiments, runs, cohort, seed)


def _rows(label: str, cohort: int, measured: _Measured, keep_counts: bool) -> list[dict[str, Any]]:
    """A row for each run of one policy on one cohort."""
    info = measured.info
    of_runs = {
        field.name: getattr(measured.figures, field.name) for field in dataclasses.fields(Figures)
    }
    rows = []
    for r in range(len(measured.figures.reward)):
        row: dict[str, Any] = {"policy": label, "instance": cohort, "run": r}
        row |= {name: float(values[r]) for name, values in of_runs.items()}
        row["residual"] = float("nan") if info is None else info.residual
        row["passes"] = 0 if info is None else info.passes
        row["converged"] = info is None or bool(info.converged)
        if keep_counts:
            row["counts"] = " ".join(map(str, measured.result.counts[r]))
        rows.append(row)
    return rows


def source_hash(package: Path) -> str:
    """Hash the source files of a package, by name and content.

    Parameters
    ----------
    package : Path
        Its folder.

    Returns
    -------
    str
        The same as long as no source file is changed, added, removed or renamed.
    """
    total = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{file.relative_to(package).as_posix()} {content}\n".encode())
    return total.hexdigest()


@cache
def _software() -> dict[str, str]:
    """What made a result: the version, and the very source files."""
    package = Path(__file__).parents[1]
    return {"softfair": version("softfair"), "source": source_hash(package)[:16]}


@cache
def _versions() -> dict[str, str]:
    """Of what a result was made with."""
    libraries = {name: version(name) for name in ("softfair", "numpy", "numba", "scipy")}
    return {"python": platform.python_version(), **libraries}


def _settings(experiment: Experiment, runs: int, seed: int) -> dict[str, Any]:
    """All that decides the rows of a result."""
    settings = {
        **experiment.settings(),
        "runs": runs,
        "runs on each cohort": RUNS_A_COHORT,
        "seed": seed,
        "seed of a cohort": "1000 seed + its number",
        "software": _software(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))  # as they come back from a file
    return plain


def _files(experiment: Experiment, out: Path) -> tuple[Path, Path]:
    name = experiment.id.replace("/", "_")
    return out / "results" / f"{name}.csv", out / "results" / f"{name}.json"


def _part_file(experiment: Experiment, out: Path, runs: int, seed: int, cohort: int) -> Path:
    settings = json.dumps(_settings(experiment, runs, seed), sort_keys=True)
    stamp = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return out / "results" / "parts" / f"{experiment.id.replace('/', '_')}-{stamp}-{cohort}.json"


def _finish(
    experiment: Experiment, out: Path, runs: int, seed: int, parts: dict[int, Part]
) -> Outcome:
    """Write the rows, then the record that completes them, then delete the parts."""
    import pandas as pd

    rows = pd.DataFrame([row for cohort in sorted(parts) for row in parts[cohort]["rows"]])
    seconds: Counter[str] = Counter()
    for part in parts.values():
        seconds.update(part["seconds"])
    table, about = _files(experiment, out)
    content = rows.to_csv(index=False).encode()
    record: dict[str, Any] = {
        "settings": _settings(experiment, runs, seed),
        "sha256": hashlib.sha256(content).hexdigest(),
        "seconds": seconds,  # of a core, by policy
        "limits": [parts[cohort]["limit"] for cohort in sorted(parts) if parts[cohort]["limit"]],
        "versions": _versions(),
    }
    # Without its record a table is no result; an old record must never stand beside new rows.
    about.unlink(missing_ok=True)
    write_own(table, content)
    write_own(about, json.dumps(record, indent=1).encode())
    for cohort in parts:
        _part_file(experiment, out, runs, seed, cohort).unlink(missing_ok=True)
    return _outcome(experiment, content, seed, record["limits"])
