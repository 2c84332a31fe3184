"""Data in shards, and one map over them: in this process, or by a crew."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..progress import track
from ..shards import Arms, FileShard, array_shards
from .versions import software
from .work import Missing, Recipe, Shard, data_of, fetch, forget, work

__all__ = ["Crew", "Spread"]

Floats = NDArray[np.float64]


class Crew(Protocol):
    """Workers that run tasks outside this process."""

    @property
    def here(self) -> int:
        """The number of workers that are on this machine and use the same compiled kernels."""
        ...

    def run(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of ``function(*args)`` for tasks (function, *args), in order."""
        ...


class Spread:
    """Data in shards, and the workers that compute on them.

    Parameters
    ----------
    shards : sequence of ArrayShard or FileShard
        The data, in order.
    crew : Crew, optional
        The workers that compute on the shards; None means this process.
    recipe : Recipe, optional
        A computation whose results functions get instead of the arms of a shard.
    extras : sequence, optional
        The argument ``extra`` of the recipe for each shard.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.cluster import Spread
    >>> float(Spread.of(np.arange(5.0)).sum(np.sum))
    10.0
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        crew: Crew | None = None,
        recipe: Recipe | None = None,
        extras: Sequence[Any] | None = None,
    ) -> None:
        self.shards, self.crew, self.recipe = shards, crew, recipe
        self.extras = [None] * len(shards) if extras is None else extras
        if recipe is not None:
            weakref.finalize(self, forget, recipe.token)

    @classmethod
    def of(cls, data: Arms | Floats) -> Spread:
        """Shards that are views of arms, or of an array, in this process."""
        return cls(array_shards(data))

    @property
    def n(self) -> int:
        """Number of arms."""
        return self.shards[-1].first + self.shards[-1].count

    def derive(self, recipe: Recipe, extras: Sequence[Any]) -> Spread:
        """The results of the recipe in shards, computed by the workers of the shards."""
        return Spread(self.shards, self.crew, recipe, extras)

    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Iterable[tuple[Any, ...]] | None = None,
        what: str = "working on shards",
    ) -> Iterator[Any]:
        """``function(data, *args, *further)`` of every shard, in order.

        Parameters
        ----------
        function : callable
            A function of a module, which workers can import.
        *args : Any
            Arguments that are the same for every shard.
        each : iterable of tuple, optional
            The further arguments for each shard.
        what : str
            The text of a progress bar.

        Returns
        -------
        iterator
        """
        further = [()] * len(self.shards) if each is None else list(each)
        answers = (
            self._here(function, args, further)
            if self.crew is None
            else self._away(self.crew, function, args, further)
        )
        return track(answers, what, total=len(self.shards))

    def sum(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Iterable[tuple[Any, ...]] | None = None,
        what: str = "adding up shards",
    ) -> Any:
        """The sum over shards of ``function(data, *args, *own)``, in order; see :meth:`map`."""
        total: Any = None
        for part in self.map(function, *args, each=each, what=what):
            total = part if total is None else total + part
        return total

    def fill(self, out: NDArray[Any], function: Callable[..., Any], *args: Any) -> list[Any]:
        """Fill out [n] with the arrays [m] that ``function`` returns first for each shard.

        The rest of the results is returned, a tuple for each shard.
        """
        rest = []
        for shard, (values, *others) in zip(self.shards, self.map(function, *args), strict=True):
            out[shard.first : shard.first + shard.count] = values
            rest.append(tuple(others))
        return rest

    def gather(self) -> Floats:
        """The numbers of all arms [n]."""
        out = np.empty(self.n)
        self.fill(out, _itself)
        return out

    def _tasks(self) -> list[tuple[Shard, Recipe | None, Any]]:
        return [
            (shard, self.recipe, extra)
            for shard, extra in zip(self.shards, self.extras, strict=True)
        ]

    def _here(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        further: Sequence[tuple[Any, ...]],
    ) -> Iterator[Any]:
        """Compute in this process; the next shard is read from its file meanwhile."""
        tasks = self._tasks()
        if not isinstance(self.shards[0], FileShard):
            for task, of_shard in zip(tasks, further, strict=True):
                yield function(data_of(*task), *args, *of_shard)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="softfair-read") as reader:
            ahead = reader.submit(fetch, *tasks[0])
            for i, (task, of_shard) in enumerate(zip(tasks, further, strict=True)):
                arms = ahead.result()
                if i + 1 < len(tasks):
                    ahead = reader.submit(fetch, *tasks[i + 1])
                yield function(data_of(*task, arms=arms), *args, *of_shard)

    def _away(
        self,
        crew: Crew,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        further: Sequence[tuple[Any, ...]],
    ) -> Iterator[Any]:
        """Compute on the crew: send names of shards first, then arrays to workers without them."""
        stamp, tasks = software(), self._tasks()

        def task(i: int, shard: Shard) -> tuple[Any, ...]:
            _, recipe, extra = tasks[i]
            return (work, stamp, shard, recipe, extra, function, (*args, *further[i]))

        named = [task(i, shard.name_only()) for i, (shard, _, _) in enumerate(tasks)]
        missing: list[int] = []
        answers: dict[int, Any] = {}
        for i, result in enumerate(crew.run(named)):
            if isinstance(result, Missing):
                missing.append(i)
            elif not missing:
                yield result
            else:
                answers[i] = result
        if missing:
            sent = crew.run([task(i, tasks[i][0]) for i in missing])
            answers |= dict(zip(missing, sent, strict=True))
            for i in range(missing[0], len(tasks)):
                yield answers.pop(i)


def _itself(data: Floats) -> tuple[Floats]:
    return (data,)
