"""Compiled functions of arrays; random numbers follow from keys that callers pass.

Kernels are compiled on first use and cached on disk. The first compilation prints one line for a
person at a terminal.
"""

from __future__ import annotations

from numba.core import event

from ..progress import say

__all__: list[str] = []


class _SayOnce(event.Listener):
    """Prints one line when the first kernel of the package is compiled."""

    said = False

    def on_start(self, compiling: event.Event) -> None:
        name = getattr(compiling.data["dispatcher"].py_func, "__module__", "")
        if not self.said and name.startswith(__name__):
            self.said = True
            say("softfair: compiling its kernels, on first use only (up to a minute) ...")

    def on_end(self, compiling: event.Event) -> None:
        pass


event.register("numba:compile", _SayOnce())  # type: ignore[no-untyped-call,unused-ignore]
