"""Run experiments: their cohorts side by side, in threads, processes or on a cluster.

An experiment has several cohorts, each from its own seed, and several runs on each cohort. A row of
the result is one run of one policy. Experiments of the same data set and sizes share their cohorts,
and a policy that several of them have is fitted and simulated once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..cluster import Crew, crew_of, software
from ..errors import InvalidInput
from ..files import write_own
from ..kernels.threads import get_threads
from ..progress import track
from .catalogue import Experiment
from .compiling import compile_side_by_side
from .outcomes import RUNS_A_COHORT, Outcome, Part, finish, kept_parts, load, part_file
from .simulating import simulate_cohort, simulate_on_worker

__all__ = ["run"]

Task = tuple[tuple[Experiment, ...], int]  # experiments of one data set and size, and the cohort


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
        The experiments to run.
    out : Path
        Folder; results go to ``out/results``.
    runs : int
        Simulations of each policy: `RUNS_A_COHORT` on each cohort, on at most
        ``experiment.cohorts`` cohorts.
    seed : int
        The same seed gives the same rows, with any number of jobs.
    jobs : int, optional
        Cohorts that are simulated at the same time; by default the number of threads.
    again : bool
        Whether to run experiments that already have results.
    meanwhile : callable, optional
        Called once in the caller's thread while other threads simulate cohorts.
    on : Executor, dask.distributed.Client or str, optional
        The workers that simulate the cohorts, see :func:`softfair.cluster.crew_of`; the rows do not
        depend on the workers.
    each : callable, optional
        Called with every outcome as soon as it is complete.

    Returns
    -------
    dict of str to Outcome
        The outcomes by id, in the order of the experiments.

    Raises
    ------
    InvalidInput
        ``runs`` is below 1, the folder cannot be written or an earlier result is damaged.
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
        write_own(probe, b"")  # to refuse an unwritable folder before any work
        probe.unlink()
        crew = crew_of(on)
        if crew is None or crew.here:
            compile_side_by_side()
        jobs = jobs or get_threads()
        done |= _run_all(todo, out, runs, seed, jobs, again, meanwhile, crew, each)
        # Not earlier, because a working thread may be about to write there.
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
    """Run the experiments side by side; write each one when the last of its cohorts is done."""
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
        kept = {} if again else kept_parts(alike, out, runs, seed, cohort)
        missing = [experiment for experiment in alike if experiment.id not in kept]
        if missing:
            arguments = (missing, runs_of[cohort], cohort, seed)
            if crew is None:
                new_parts = simulate_cohort(*arguments)
            else:
                (new_parts,) = crew.run([(simulate_on_worker, software(), *arguments)])
            for experiment in missing:
                content = json.dumps(new_parts[experiment.id]).encode()
                write_own(part_file(experiment, out, runs, seed, cohort), content)
            kept |= new_parts
        return kept

    # On a cluster, one thread waits for each task. Workers on this machine take the longest tasks
    # first, and this thread, when it is free, the shortest. Without workers, threads do the work:
    # kernels release the lock, and no process needs to be started.
    tasks.sort(key=_cost, reverse=True)
    with ThreadPoolExecutor(jobs if crew is None else crew.here or len(tasks)) as pool:
        results = [pool.submit(work, task, crew) for task in tasks]
        helps = crew is not None and crew.here  # whether this thread takes tasks, too
        order = range(len(tasks))[:: -1 if helps else 1]
        try:
            meanwhile()
            for i in track(order, "experiments", total=len(tasks)):
                alike, cohort = tasks[i]
                own = helps and results[i].cancel()
                by_experiment = work(tasks[i], None) if own else results[i].result()
                for experiment in alike:
                    of_experiment = parts[experiment.id]
                    of_experiment[cohort] = by_experiment[experiment.id]
                    if len(of_experiment) == _cohorts(experiment, runs_of):
                        done[experiment.id] = finish(experiment, out, runs, seed, of_experiment)
                        each(done[experiment.id])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return done


def _alike(experiments: list[Experiment]) -> list[tuple[Experiment, ...]]:
    """The experiments grouped by data set and sizes; each group shares its cohorts."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        settings = experiment.settings()
        world = {name: value for name, value in settings.items() if name not in ("id", "policies")}
        groups.setdefault(json.dumps(world, sort_keys=True), []).append(experiment)
    return [tuple(group) for group in groups.values()]


def _runs_of_cohorts(runs: int) -> list[int]:
    """Runs on each cohort."""
    whole, rest = divmod(runs, RUNS_A_COHORT)
    return [RUNS_A_COHORT] * whole + [rest] * (rest > 0)


def _cohorts(experiment: Experiment, runs_of: list[int]) -> int:
    """The number of cohorts of an experiment, at most the number that the runs need."""
    most = len(runs_of) if experiment.cohorts is None else experiment.cohorts
    return min(most, len(runs_of))


def _cost(task: Task) -> float:
    """A rough measure of the time that a task takes."""
    alike, _ = task
    # Episodes of Algorithm 1 grow with the horizon.
    return sum(experiment.n * experiment.horizon**2 for experiment in alike)
