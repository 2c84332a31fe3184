"""The paper's evaluation as data, run, and reported beside the paper's own figures."""

from .catalogue import EXPERIMENTS, Experiment, find
from .outcomes import Outcome, load
from .report import Drawings, write_report
from .running import run

__all__ = [
    "EXPERIMENTS",
    "Drawings",
    "Experiment",
    "Outcome",
    "find",
    "load",
    "run",
    "write_report",
]
