"""Scratch for a block of arms that runs through SIMD lanes together.

A compiler vectorises a loop over arrays only if it can prove that they do not overlap. Heap arrays
need a run-time check for each pair, and with more than a handful of arrays the compiler gives up.
Arrays on the stack are known not to overlap. This makes the recursions of `recursion.py` seven
times as fast.

A block of an array is copied to lanes through a slice, z[first : first + LANES]. A sum as index, as
in z[first + j], might be negative, and numba's check of that keeps the loop from loading vectors:
the inclusion of a million arms takes twice as long with it.
"""

from __future__ import annotations

from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "lanes"]

# Arms of a block: enough to fill the pipelines, few enough for its scratch to stay in cache.
LANES = 64


@intrinsic
def _stack(typingctx):
    """A pointer to LANES float64 on the stack of the calling function."""

    def codegen(context, builder, signature, args):
        # Use the widest vectors of the machine. By default LLVM avoids 512 bits, because some old
        # processors slowed down. set.add is used, because llvmlite's add accepts few attributes.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        block = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), LANES))
        block.align = 64  # a vector of 512 bits that straddles two cache lines takes two loads
        return builder.bitcast(block, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(), codegen


@njit(inline="always")
def lanes():
    """A float64 array [LANES] on the stack of the calling kernel, not initialised."""
    return carray(_stack(), (LANES,))
