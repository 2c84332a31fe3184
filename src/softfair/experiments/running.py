"""Run experiments, keep what lasts.

An experiment has some instances (cohorts, each from its own seed) and on each some runs; a row of the result is one run of one policy.
A result is two files, ``<id>.csv`` and ``<id>.json`` with every setting, the seed, the versions and a hash of the rows; it is complete
when the second is there. Each instance is kept as soon as it is done, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import event

from .. import datasets, metrics
from ..errors import InvalidInput
from ..files import write_whole
from ..kernels.threads import get_threads
from ..policies import NoIntervention, Oracle, SoftFair, ThresholdWhittle
from ..progress import track
from ..simulation import simulate
from ..solvers import upper_bound
from .catalogue import Experiment

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RUNS_AN_INSTANCE", "load", "run"]

Part = dict[str, Any]  # what one instance brings: its rows, and the seconds that each policy took

RUNS_AN_INSTANCE = 5  # of the 50 simulations: ten cohorts, five runs on each


def run(
    experiments: list[Experiment],
    out: Path,
    runs: int = 50,
    seed: int = 0,
    jobs: int | None = None,
    again: bool = False,
) -> dict[str, pd.DataFrame]:
    """Rows of each experiment by id, from an earlier run where its settings are the same (unless ``again``)."""
    if runs < 1:
        raise InvalidInput(f"runs is {runs}; give at least 1")
    done: dict[str, pd.DataFrame] = {}
    todo: list[tuple[Experiment, int]] = []
    counts = _instances(runs)
    for experiment in experiments:
        earlier = None if again else load(experiment, out, runs, seed)
        if earlier is not None:
            done[experiment.id] = earlier
        else:
            todo += [(experiment, i) for i in range(len(counts))]
    left = {experiment.id: len(counts) for experiment, _ in todo}
    parts: dict[str, dict[int, Part]] = {name: {} for name in left}

    def work(task: tuple[Experiment, int]) -> tuple[Experiment, int, Part]:
        experiment, instance = task
        kept = _part(experiment, out, runs, seed, instance)
        if not again and kept.exists():
            try:
                earlier = json.loads(kept.read_text())
                return experiment, instance, {name: earlier[name] for name in ("rows", "seconds")}
            except (ValueError, KeyError, TypeError):
                pass  # cut short by other hands than ours, or of another make: do it again
        part = _simulate_instance(experiment, counts[instance], instance, seed)
        write_whole(kept, json.dumps(part).encode())
        return experiment, instance, part

    if todo:
        probe = out / "results" / "parts" / ".writable"
        write_whole(probe, b"")  # refused now and not after the first of many minutes
        probe.unlink()
        _compile_side_by_side()
    # Threads, not processes: kernels release the lock, and nothing needs to be started or sent.
    with ThreadPoolExecutor(jobs or get_threads()) as pool:
        results: Iterator[tuple[Experiment, int, Part]] = pool.map(
            work, sorted(todo, key=_cost, reverse=True)
        )
        try:
            for experiment, instance, part in track(results, "experiments", total=len(todo)):
                name = experiment.id
                parts[name][instance] = part
                left[name] -= 1
                if not left[name]:
                    done[name] = _finish(experiment, out, runs, seed, parts.pop(name))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {experiment.id: done[experiment.id] for experiment in experiments}


ALGORITHM_1 = (
    "import softfair as sf\n"
    "sf.SoftFair(solver='paper', design='successive', episodes=2).fit(sf.datasets.synthetic(4), k=1, horizon=2)"
)


class _SecondCompiler(event.Listener):
    """Starts a process that compiles Algorithm 1, which is half of all there is to compile, as soon as anything is compiled here."""

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
    """On first use, compile the kernels on two cores: a process compiles one at a time, and finds the other's in the cache on disk."""
    if get_threads() < 2:
        return
    second, cohort = _SecondCompiler(), datasets.synthetic(4)
    with event.install_listener("numba:compile", second):  # type: ignore[no-untyped-call,unused-ignore]
        for policy in (SoftFair(), ThresholdWhittle()):
            fitted = policy.fit(cohort, k=1, horizon=2)
            simulate(fitted, runs=1)
            fitted.inclusion(0, [0] * cohort.n)
    if second.child is not None:
        second.child.wait()


def load(experiment: Experiment, out: Path, runs: int, seed: int) -> pd.DataFrame | None:
    """An earlier result with the same settings; None if there is none, an error if its files were damaged."""
    import pandas as pd

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
    return pd.read_csv(io.BytesIO(content), dtype={"policy": str})


def _instances(runs: int) -> list[int]:
    """Runs on each instance."""
    whole, rest = divmod(runs, RUNS_AN_INSTANCE)
    return [RUNS_AN_INSTANCE] * whole + [rest] * (rest > 0)


def _cost(task: tuple[Experiment, int]) -> float:
    experiment, _ = task
    return experiment.n * experiment.horizon**2  # episodes of Algorithm 1 grow with the horizon


def _simulate_instance(experiment: Experiment, runs: int, instance: int, seed: int) -> Part:
    """A row for each policy and run on one cohort, and the seconds of a core that each policy took."""
    cohort_seed = 1000 * seed + instance
    cohort = experiment.cohort(cohort_seed)
    setting: dict[str, Any] = {"k": experiment.k, "horizon": experiment.horizon, "gamma": 1.0}
    none = simulate(NoIntervention().fit(cohort, **setting), runs, cohort_seed).totals
    oracle = float(simulate(Oracle().fit(cohort, **setting), runs, cohort_seed).totals.mean())
    headroom = upper_bound(cohort, **setting) - upper_bound(cohort, 0, experiment.horizon, 1.0)
    rows, seconds = [], {}
    for label, policy in experiment.policies.items():
        begun = time.thread_time()
        fitted = policy.fit(cohort, **setting, seed=cohort_seed)
        result = simulate(fitted, runs, cohort_seed)
        gained = result.totals - none
        figures = {
            "reward": result.totals,
            "benefit": metrics.intervention_benefit(gained, 0.0, oracle - float(none.mean())),
            "of_bound": metrics.intervention_benefit(gained, 0.0, headroom),
            "entropy": metrics.action_entropy(result.counts),
            "never_selected": metrics.never_selected(result.counts),
            "longest_wait": metrics.longest_wait(result.waits),
        }
        for r in range(runs):
            row: dict[str, Any] = {"policy": label, "instance": instance, "run": r}
            row |= {name: float(np.asarray(values)[r]) for name, values in figures.items()}
            row["residual"] = float("nan") if fitted.info is None else fitted.info.residual
            row["converged"] = fitted.info is None or fitted.info.converged
            if experiment.keep_counts:
                row["counts"] = " ".join(map(str, result.counts[r]))
            rows.append(row)
        seconds[label] = time.thread_time() - begun
    return {"rows": rows, "seconds": seconds}


def _settings(experiment: Experiment, runs: int, seed: int) -> dict[str, Any]:
    settings = {
        **experiment.settings(),
        "runs": runs,
        "runs an instance": RUNS_AN_INSTANCE,
        "seed": seed,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))  # as they come back from a file
    return plain


def _files(experiment: Experiment, out: Path) -> tuple[Path, Path]:
    name = experiment.id.replace("/", "_")
    return out / "results" / f"{name}.csv", out / "results" / f"{name}.json"


def _part(experiment: Experiment, out: Path, runs: int, seed: int, instance: int) -> Path:
    settings = json.dumps(_settings(experiment, runs, seed), sort_keys=True)
    stamp = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return out / "results" / "parts" / f"{experiment.id.replace('/', '_')}-{stamp}-{instance}.json"


def _finish(
    experiment: Experiment, out: Path, runs: int, seed: int, parts: dict[int, Part]
) -> pd.DataFrame:
    """Write the rows, then the record that makes them count, then drop the parts."""
    import pandas as pd

    rows = pd.DataFrame([row for instance in sorted(parts) for row in parts[instance]["rows"]])
    seconds: Counter[str] = Counter()
    for part in parts.values():
        seconds.update(part["seconds"])
    table, about = _files(experiment, out)
    content = rows.to_csv(index=False).encode()
    record = {
        "settings": _settings(experiment, runs, seed),
        "sha256": hashlib.sha256(content).hexdigest(),
        "seconds": seconds,  # of a core, by policy
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("softfair", "numpy", "numba")},
        },
    }
    about.unlink(
        missing_ok=True
    )  # rows without a record are no result: never the old record with new rows
    write_whole(table, content)
    write_whole(about, json.dumps(record, indent=1).encode())
    for instance in parts:
        _part(experiment, out, runs, seed, instance).unlink(missing_ok=True)
    folder = out / "results" / "parts"
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
    return pd.read_csv(io.BytesIO(content), dtype={"policy": str})
