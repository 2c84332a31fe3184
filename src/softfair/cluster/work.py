"""What a process does with a shard, and what it keeps of it between passes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..shards import Arms, ArrayShard, FileShard
from .versions import refuse_other_software

__all__ = ["Missing", "Recipe", "Shard", "data_of", "fetch", "forget", "work"]

Shard = ArrayShard | FileShard
Floats = NDArray[np.float64]

KEEP = 2**30  # bytes of arms that a process keeps between passes


class Recipe(Protocol):
    """How to make something of each arm out of a shard's arms.

    Parameters
    ----------
    token : str
        Name of this computation: workers keep its results under this name.
    """

    @property
    def token(self) -> str:
        """Name of this computation."""
        ...

    def make(self, arms: Arms, extra: Any) -> Floats:
        """One number an arm [m]."""
        ...


@dataclass(frozen=True)
class Missing:
    """The answer of a worker that does not have the arrays of a shard."""


class _Store:
    """Arms of shards that this process keeps between passes, and what recipes last made of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arms: dict[tuple[str, int], Any] = {}
        self._made: dict[tuple[str, int], Floats] = {}
        self._token = ""

    def arms(self, key: tuple[str, int]) -> Any:
        return self._arms.get(key)

    def keep(self, key: tuple[str, int], arms: Any) -> None:
        """Keep the arms if there is room; arms of other cohorts are dropped to make room."""
        with self._lock:
            if arms.nbytes + sum(kept.nbytes for kept in self._arms.values()) > KEEP:
                for other in [other for other in self._arms if other[0] != key[0]]:
                    del self._arms[other]
            if arms.nbytes + sum(kept.nbytes for kept in self._arms.values()) <= KEEP:
                self._arms[key] = arms

    def made(self, token: str, key: tuple[str, int]) -> Floats | None:
        return self._made.get(key) if token == self._token else None

    def keep_made(self, token: str, key: tuple[str, int], made: Floats) -> None:
        """Keep what a recipe made; results under another token are dropped."""
        with self._lock:
            if token != self._token:
                self._token, self._made = token, {}
            self._made[key] = made

    def forget(self, token: str) -> None:
        """Forget what was made under the token."""
        with self._lock:
            if token == self._token:
                self._token, self._made = "", {}


_store = _Store()


def forget(token: str) -> None:
    """Forget what was made under the token, in this process."""
    _store.forget(token)


def fetch(shard: Shard, recipe: Recipe | None, extra: Any) -> Any:
    """The shard's arms, unless what is made of them is there already."""
    if recipe is not None and _store.made(recipe.token, shard.key) is not None:
        return None
    kept = _store.arms(shard.key)
    if kept is not None:
        return kept
    arms = shard.load()
    if isinstance(shard, FileShard):
        _store.keep(shard.key, arms)
    return arms


def data_of(shard: Shard, recipe: Recipe | None, extra: Any, arms: Any = None) -> Any:
    """The argument that a function gets for a shard: its arms, or what the recipe makes of them."""
    if recipe is None:
        return fetch(shard, recipe, extra) if arms is None else arms
    numbers = _store.made(recipe.token, shard.key)
    if numbers is None:
        numbers = recipe.make(fetch(shard, recipe, extra) if arms is None else arms, extra)
        _store.keep_made(recipe.token, shard.key, numbers)
    return numbers


def work(
    stamp: str,
    shard: Shard,
    recipe: Recipe | None,
    extra: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """Apply the function to one shard, in a worker."""
    refuse_other_software(stamp)
    arms = _store.arms(shard.key)
    if arms is None and isinstance(shard, ArrayShard):
        if shard.data is None:
            return Missing()
        arms = shard.data
        _store.keep(shard.key, arms)
    return function(data_of(shard, recipe, extra, arms), *args)
