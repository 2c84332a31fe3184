"""On first use, compile the kernels on two cores."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from numba.core import event

from .. import datasets
from ..kernels.threads import get_threads
from ..policies import SoftFair, ThresholdWhittle
from ..simulation import simulate

__all__ = ["SecondCompiler", "compile_side_by_side"]

ALGORITHM_1 = (
    "import softfair as sf\n"
    "policy = sf.SoftFair(solver='paper', design='successive', episodes=2)\n"
    "policy.fit(sf.datasets.synthetic(4), k=1, horizon=2)\n"
)


class SecondCompiler(event.Listener):
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


def compile_side_by_side() -> None:
    """On first use, compile the kernels on two cores.

    A process compiles one kernel at a time. A kernel that another process has compiled is loaded
    from the cache.
    """
    if get_threads() < 2:
        return
    second, cohort = SecondCompiler(), datasets.synthetic(4)
    # Any, because only some versions of numba have types.
    listening: Any = event.install_listener
    with listening("numba:compile", second):
        for policy in (SoftFair(), ThresholdWhittle()):
            fitted = policy.fit(cohort, k=1, horizon=2)
            simulate(fitted, runs=1)
            fitted.inclusion(0, [0] * cohort.n)
    if second.child is not None:
        second.child.wait()
