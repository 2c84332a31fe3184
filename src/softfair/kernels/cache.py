"""Where compiled kernels are kept on disk, and when they are compiled anew.

numba keeps a compiled function beside its source, or in the user's cache if the folder of the
source cannot be written to. It compiles the function anew when the file of the function changes.
But a kernel that calls another kernel also contains the code of the other kernel. So here the stamp
of every kernel is the content of all kernels: after an upgrade or an edit of any kernel, no old
code is used. If neither folder can be written to, kernels are compiled in each process, and a
warning says so.

Each kernel has its own copy of the code of the kernels that it calls. By default numba lets kernels
share one copy (linkage ``linkonce_odr``): the copy that a process loads first serves all of them.
Each copy is optimised within its caller and may round differently. With shared copies, a process
that compiles and a process that loads could differ in the last digits, and the order of calls would
matter.
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


class _InGivenFolder(
    _OfKernels,
    caching.UserProvidedCacheLocator,  # type: ignore[misc,unused-ignore]
):
    """The folder that NUMBA_CACHE_DIR names."""


class _BesideSource(_OfKernels, caching.InTreeCacheLocator):  # type: ignore[misc,unused-ignore]
    """The folder of the source."""


class _InUsersCache(_OfKernels, caching.UserWideCacheLocator):  # type: ignore[misc,unused-ignore]
    """The user's cache."""


def _register() -> bool:
    """Register the locators above ahead of numba's; return whether any of them can write."""
    locators = [_InGivenFolder, _BesideSource, _InUsersCache]
    caching.CacheImpl._locator_classes = [*locators, *caching.CacheImpl._locator_classes]
    if any(locator.from_function(_content, __file__) is not None for locator in locators):
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
        if any("softfair" in function.name for function in functions):  # kernels of this package
            for function in functions:
                shared = function.linkage == binding.Linkage.linkonce_odr
                if shared and not function.is_declaration:
                    function.linkage = "internal"
        optimise(library)  # type: ignore[no-untyped-call,unused-ignore]

    codegen.CPUCodeLibrary._optimize_final_module = optimise_alone  # type: ignore[method-assign]


_keep_callees_apart()
CACHED = _register()
