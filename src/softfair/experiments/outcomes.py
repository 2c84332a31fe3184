"""The results of experiments, and the files that keep them.

A result is two files: ``<id>.csv`` with the rows, and ``<id>.json`` with all choices, the software,
the seed and a hash of the rows. The result is complete when the second file exists. It is used
again only if choices, software and seed are the same. The part of each cohort is written as soon as
it is done, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidInput
from ..files import write_own
from ..solvers import TradeoffBound
from .catalogue import Experiment

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "RUNS_A_COHORT",
    "Limit",
    "Outcome",
    "Part",
    "finish",
    "keep_limit",
    "kept_parts",
    "load",
    "part_file",
    "source_hash",
]

# The part of one cohort: its rows, the seconds that each policy took, and its limit or None.
Part = dict[str, Any]
RUNS_A_COHORT = 5  # so that 50 simulations are five runs on each of ten cohorts


@dataclass(frozen=True, eq=False)
class Limit:
    """The limit that no policy can exceed on one cohort.

    Parameters
    ----------
    bound : TradeoffBound
        An upper bound on the reward at each entropy.
    none, headroom : float
        The reward without help, and the most that help can add to it.
    """

    bound: TradeoffBound
    none: float
    headroom: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment, with the sizes and policies that were run.
    rows : DataFrame
        One row for each run of each policy: ``policy``, ``instance`` (the number of the cohort),
        ``run``, the figures, ``converged``, ``residual`` and ``passes`` of the policy's solver, and
        ``counts`` if the experiment keeps them.
    seed : int
        Cohort j was made with the seed 1000 seed + j.
    limits : tuple of Limit
        One limit for each cohort, if the experiment keeps them.
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


def kept_parts(
    experiments: Sequence[Experiment], out: Path, runs: int, seed: int, cohort: int
) -> dict[str, Part]:
    """The parts of this cohort that an interrupted run has kept, without unreadable files."""
    kept: dict[str, Part] = {}
    for experiment in experiments:
        try:
            part = json.loads(part_file(experiment, out, runs, seed, cohort).read_text())
            kept[experiment.id] = {name: part[name] for name in ("rows", "seconds", "limit")}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # absent or damaged: this cohort is run again
    return kept


def load(experiment: Experiment, out: Path, runs: int, seed: int) -> Outcome | None:
    """Load an earlier result that was made by the same software with the same choices.

    Parameters
    ----------
    experiment, out, runs, seed
        As for :func:`run`.

    Returns
    -------
    Outcome or None
        The result; None if there is none.

    Raises
    ------
    InvalidInput
        The files of the result are damaged.
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
    """The limit from the values of `keep_limit`."""
    slope, intercept = (np.array(plain[name]) for name in ("slope", "intercept"))
    return Limit(TradeoffBound(slope, intercept, plain["even"]), plain["none"], plain["headroom"])


def keep_limit(bound: TradeoffBound, none: float, headroom: float) -> dict[str, Any]:
    """A limit as plain values for JSON, without loss of digits."""
    return {
        "slope": bound.slope.tolist(),
        "intercept": bound.intercept.tolist(),
        "even": bound.even,
        "none": none,
        "headroom": headroom,
    }


def source_hash(package: Path) -> str:
    """Hash the source files of a package, by name and content.

    Parameters
    ----------
    package : Path
        The folder of the package.

    Returns
    -------
    str
        A hash that changes if a source file is changed, added, removed or renamed.
    """
    total = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{file.relative_to(package).as_posix()} {content}\n".encode())
    return total.hexdigest()


@cache
def _software() -> dict[str, str]:
    """A hash of the source files and versions of libraries, on which the numbers depend."""
    package = Path(__file__).parents[1]
    versions = {name: version(name) for name in ("softfair", "numpy", "numba", "scipy")}
    return {**versions, "source": source_hash(package)[:16]}


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
    plain: dict[str, Any] = json.loads(json.dumps(settings))  # as they are read from a file
    return plain


def _files(experiment: Experiment, out: Path) -> tuple[Path, Path]:
    name = experiment.id.replace("/", "_")
    return out / "results" / f"{name}.csv", out / "results" / f"{name}.json"


def part_file(experiment: Experiment, out: Path, runs: int, seed: int, cohort: int) -> Path:
    """The file of the part of one cohort; its name depends on all choices."""
    settings = json.dumps(_settings(experiment, runs, seed), sort_keys=True)
    stamp = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return out / "results" / "parts" / f"{experiment.id.replace('/', '_')}-{stamp}-{cohort}.json"


def finish(
    experiment: Experiment, out: Path, runs: int, seed: int, parts: dict[int, Part]
) -> Outcome:
    """Write the rows, then the record that completes the result, and delete the parts."""
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
        "seconds": seconds,  # seconds of a core by policy
        "limits": [parts[cohort]["limit"] for cohort in sorted(parts) if parts[cohort]["limit"]],
        "python": platform.python_version(),
    }
    # A table without a record is no result. An old record must not stay beside new rows.
    about.unlink(missing_ok=True)
    write_own(table, content)
    write_own(about, json.dumps(record, indent=1).encode())
    for cohort in parts:
        part_file(experiment, out, runs, seed, cohort).unlink(missing_ok=True)
    return _outcome(experiment, content, seed, record["limits"])
