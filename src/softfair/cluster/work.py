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
    """A computation of one number for each arm from the arms of a shard.

    Parameters
    ----------
    token : str
        Name of this computation, under which workers keep the results.
    """

    @property
    def token(self) -> str:
        """Name of this computation."""
        ...

    def make(self, arms: Arms, extra: Any) -> Floats:
        """One number for each arm [m]."""
        ...


@dataclass(frozen=True)
class Missing:
    """The answer of a worker that does not have the arrays of a shard."""


class _Store:
    """Arms of shards that this process keeps between passes, and results of the last recipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arms: dict[tuple[str, int], Any] = {}
        self._results: dict[tuple[str, int], Floats] = {}
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

    def result(self, token: str, key: tuple[str, int]) -> Floats | None:
        """The result of the recipe with this token for a shard; None if it is not kept."""
        return self._results.get(key) if token == self._token else None

    def keep_result(self, token: str, key: tuple[str, int], result: Floats) -> None:
        """Keep the result of a recipe; results of other recipes are dropped."""
        with self._lock:
            if token != self._token:
                self._token, self._results = token, {}
            self._results[key] = result

    def forget(self, token: str) -> None:
        """Drop the results of the recipe with this token."""
        with self._lock:
            if token == self._token:
                self._token, self._results = "", {}


_store = _Store()


def forget(token: str) -> None:
    """Forget what was made under the token, in this process."""
    _store.forget(token)


def fetch(shard: Shard, recipe: Recipe | None, extra: Any) -> Any:
    """The arms of the shard; None if the result of the recipe is kept already."""
    if recipe is not None and _store.result(recipe.token, shard.key) is not None:
        return None
    kept = _store.arms(shard.key)
    if kept is not None:
        return kept
    arms = shard.load()
    if isinstance(shard, FileShard):
        _store.keep(shard.key, arms)
    return arms


def data_of(shard: Shard, recipe: Recipe | None, extra: Any, arms: Any = None) -> Any:
    """The argument that a function gets for a shard: its arms, or the result of the recipe."""
    if recipe is None:
        return fetch(shard, recipe, extra) if arms is None else arms
    numbers = _store.result(recipe.token, shard.key)
    if numbers is None:
        numbers = recipe.make(fetch(shard, recipe, extra) if arms is None else arms, extra)
        _store.keep_result(recipe.token, shard.key, numbers)
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
