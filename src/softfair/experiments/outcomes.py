"""The results of experiments, and the files that keep them.

A result is two files, ``<id>.csv`` with the rows and ``<id>.json`` with every choice in force, the
software, the seed and a hash of the rows; it is complete when the second is there. It is used again
only if all of these are the same. Each cohort is kept as soon as it is done, so that an
interrupted run continues where it stopped.
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

# What one cohort adds: its rows, the seconds that each policy took, and its limit or None.
Part = dict[str, Any]
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


def kept_parts(
    experiments: Sequence[Experiment], out: Path, runs: int, seed: int, cohort: int
) -> dict[str, Part]:
    """What an interrupted run has kept of this cohort; a file that cannot be read is left out."""
    kept: dict[str, Part] = {}
    for experiment in experiments:
        try:
            part = json.loads(part_file(experiment, out, runs, seed, cohort).read_text())
            kept[experiment.id] = {name: part[name] for name in ("rows", "seconds", "limit")}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # absent or damaged: this cohort is run again
    return kept


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
    """A limit that was kept by `keep_limit`."""
    slope, intercept = (np.array(plain[name]) for name in ("slope", "intercept"))
    return Limit(TradeoffBound(slope, intercept, plain["even"]), plain["none"], plain["headroom"])


def keep_limit(bound: TradeoffBound, none: float, headroom: float) -> dict[str, Any]:
    """A limit as JSON holds it, to the last digit."""
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
    """What decides the numbers of a result: the very source files, and the libraries below them."""
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
    plain: dict[str, Any] = json.loads(json.dumps(settings))  # as they come back from a file
    return plain


def _files(experiment: Experiment, out: Path) -> tuple[Path, Path]:
    name = experiment.id.replace("/", "_")
    return out / "results" / f"{name}.csv", out / "results" / f"{name}.json"


def part_file(experiment: Experiment, out: Path, runs: int, seed: int, cohort: int) -> Path:
    settings = json.dumps(_settings(experiment, runs, seed), sort_keys=True)
    stamp = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return out / "results" / "parts" / f"{experiment.id.replace('/', '_')}-{stamp}-{cohort}.json"


def finish(
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
        "python": platform.python_version(),
    }
    # Without its record a table is no result; an old record must never stand beside new rows.
    about.unlink(missing_ok=True)
    write_own(table, content)
    write_own(about, json.dumps(record, indent=1).encode())
    for cohort in parts:
        part_file(experiment, out, runs, seed, cohort).unlink(missing_ok=True)
    return _outcome(experiment, content, seed, record["limits"])
