"""Where compiled kernels are kept on disk, and when they are compiled anew.

numba keeps a compiled function beside its source, or in the user's cache if that cannot be written
to, and compiles it anew when the file of the function changes. A kernel that calls another one
contains that one's code too. So here the content of all kernels together is what counts: after an
upgrade or an edit anywhere, nothing old is used. Where nothing can be written, kernels are compiled
in each process, and a warning says so.

Each kernel has its own copy of the code of the kernels that it calls. By default numba lets kernels
share it (linkage ``linkonce_odr``), and whichever copy a process loads first serves all of them.
Copies are optimised where they stand and may round otherwise: a process that compiles would give
other last digits than one that loads, and the order of calls would matter.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core import caching, codegen

from ..errors import warn

__all__ = ["CACHED"]

HERE = Path(__file__).parent


def _content() -> str:
    """SHA-256 of the source of all kernels."""
    digest = hashlib.sha256()
    for file in sorted(HERE.glob("*.py")):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


class _OfKernels:
    """Restricts one of numba's cache locators to the kernels of this package."""

    STAMP = _content()

    def get_source_stamp(self) -> str:
        return self.STAMP

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        if Path(py_file).parent != HERE:
            return None
        return super().from_function(py_func, py_file)  # type: ignore[misc]


class _Given(_OfKernels, caching.UserProvidedCacheLocator):  # type: ignore[misc,unused-ignore]
    pass


class _Beside(_OfKernels, caching.InTreeCacheLocator):  # type: ignore[misc,unused-ignore]
    pass


class _OfUser(_OfKernels, caching.UserWideCacheLocator):  # type: ignore[misc,unused-ignore]
    pass


def _register() -> bool:
    """Make numba ask these locators first; return whether any of them can write to disk."""
    ours = [_Given, _Beside, _OfUser]
    caching.CacheImpl._locator_classes = [*ours, *caching.CacheImpl._locator_classes]
    if any(one.from_function(_content, __file__) is not None for one in ours):
        return True
    warn(
        "compiled kernels cannot be kept: neither the package nor the user's cache can be written "
        "to, so every start takes up to a minute longer; set NUMBA_CACHE_DIR to a writable folder"
    )
    return False


def _keep_callees_apart() -> None:
    """Give each kernel its own copy of the functions that it calls, before it is optimised."""
    optimise = codegen.CPUCodeLibrary._optimize_final_module

    def optimise_alone(library: Any) -> None:
        functions = list(library._final_module.functions)
        if any("softfair" in one.name for one in functions):  # not the kernels of other packages
            for one in functions:
                if not one.is_declaration and one.linkage == binding.Linkage.linkonce_odr:
                    one.linkage = "internal"
        optimise(library)  # type: ignore[no-untyped-call,unused-ignore]

    codegen.CPUCodeLibrary._optimize_final_module = optimise_alone  # type: ignore[method-assign]


_keep_callees_apart()
CACHED = _register()
