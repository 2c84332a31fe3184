"""The frozen Cohort: n arms (people), each a Markov chain whose moves depend on the help it gets.

    P[i, a, s, s2]   probability that arm i moves from state s to s2 under action a
                     (0 passive, 1 active)
    reward[i, s2]    worth of the state reached (the paper: 1 for the good state of two)
    at_once[i, s]    what help in state s is worth at once, beside what it leads to (the paper: 0)
    start[i, s]      distribution of the state at decision 0
    cost[i]          what help for arm i costs, a whole number (the paper: 1)

Rewards R(s, a) of state and action are stored as reward(s) = R(s, 0) and
at_once(s) = R(s, 1) - R(s, 0).

All arrays are checked here, once, by `softfair.arrays`. None is normalised or repaired silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import (
    as_given,
    read_cost,
    read_labels,
    read_reward,
    read_start,
    read_transitions,
    read_two_state,
)
from .errors import InvalidInput, refuse
from .figures import COLOURS, axes_for
from .frames import cohort_columns, columns_of, make_frame, read_columns
from .terminal import as_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Cohort", "refuse_costs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Cohort:
    """n restless arms with S >= 2 states. A cohort cannot be changed once it is built.

    Parameters
    ----------
    P : array_like, [n, 2, S, S]
        Transition probabilities ``P[i, a, s, s2]``. Each row sums to one.
    reward : array_like, [S], [n, S] or [1 or n, S, 2], optional
        Worth of the state reached. By default ``s2 / (S - 1)``. With a last axis of actions,
        rewards R(s, a) of state and action, see the notes.
    ids : sequence, [n], optional
        Distinct labels of the arms. By default 0 to n - 1.
    groups : sequence, [n], optional
        Labels such as a region or language, for figures by group. By default there are none.
    start : array_like, [n] or [n, S], optional
        States at decision 0, or distributions over states. By default uniform.
    extra : mapping of str to array_like [n], optional
        Other columns about the arms, by name. They are kept, and no policy uses them.
    cost : array_like [n], optional
        What help for each arm costs, whole numbers of at least 1; by default 1. With costs, k is
        the most that may be spent at a decision, see the notes.

    Attributes
    ----------
    reward : ndarray, [n, S]
        Worth of the state reached, R(s, 0).
    at_once : ndarray, [n, S]
        What help is worth at once, R(s, 1) - R(s, 0).
    reward_rows : ndarray, [1 or n, 1 or 2, S]
        The rewards as kernels read them: R(s, 0) and, unless it is the same, R(s, 1).
    start_rows : ndarray, [1 or n, S]
        The start as kernels read it: a single row if all arms have the same distribution, otherwise
        one row for each arm.
    cost_rows : ndarray of int, [1 or n]
        A single 1 if all costs are 1, otherwise one cost for each arm.

    Raises
    ------
    InvalidInput
        If an array has the wrong shape or an entry out of range, or if ids repeat.

    Notes
    -----
    With rewards R(s, a), the worth R(s, 0) of a state is counted when the state is reached, as for
    rewards without actions, so that the state after the last decision counts too. Help in state s
    adds R(s, 1) - R(s, 0) at that decision, which may be negative. With gamma = 1 the total is
    sum_t R(s_t, a_t) + R(s_T, 0) - R(s_0, 0). If R(s, 1) = R(s, 0) everywhere, the rewards are
    those of states alone. The gain of help, and ``immediate_gain``, include what help is worth at
    once. The benefit of a policy is defined as before: what the policy adds to helping nobody, as a
    share of what the Oracle adds.

    With costs, the arms that are helped at a decision cost at most k together. Arms are compared by
    gain for cost, gain_i mean(cost) / cost_i: an arm that costs twice as much as another must gain
    twice as much for the same chance. :mod:`softfair.costs` has the law of the lists.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]])
    Cohort(n=1, S=2)

    A call takes .2 of a good day from somebody who is well:

    >>> R = [[[0.0, 0.0], [1.0, 0.8]]]  # R[0, s, a], the same for all arms
    >>> cohort = sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]], reward=R)
    >>> cohort, cohort.immediate_gain.round(3).tolist()
    (Cohort(n=1, S=2, rewards by action), [[0.4, 0.1]])

    A visit costs four times as much as a call:

    >>> sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]] * 2, cost=[1, 4])
    Cohort(n=2, S=2, costs=1 to 4)
    """

    arms: Floats  # as kernels read them: P [n, 2, S, S], or p [n, 2, 2, 1] if p was given
    reward: Floats = None  # type: ignore[assignment]  # [n, S] once built
    ids: NDArray[Any] = None  # type: ignore[assignment]  # [n] once built
    groups: NDArray[Any] | None = None  # [n]
    start: Floats = None  # type: ignore[assignment]  # [n, S] once built
    extra: Mapping[str, NDArray[Any]] = None  # type: ignore[assignment]  # [n] each, once built
    cost: Ints = None  # type: ignore[assignment]  # [n] once built
    reward_rows: Floats = field(init=False)  # [1 or n, 1 or 2, S]
    start_rows: Floats = field(init=False)  # [1 or n, S]
    cost_rows: Ints = field(init=False)  # [1 or n]

    def __init__(
        self,
        P: ArrayLike,
        reward: ArrayLike | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
        groups: Sequence[Any] | NDArray[Any] | None = None,
        start: ArrayLike | None = None,
        extra: Mapping[str, Any] | None = None,
        cost: ArrayLike | None = None,
    ) -> None:
        self._build(read_transitions(P), reward, ids, groups, start, extra, cost)

    def _build(
        self,
        arms: Floats,
        reward: ArrayLike | None,
        ids: Sequence[Any] | NDArray[Any] | None,
        groups: Sequence[Any] | NDArray[Any] | None,
        start: ArrayLike | None,
        extra: Mapping[str, Any] | None,
        cost: ArrayLike | None,
    ) -> None:
        n, S = arms.shape[0], arms.shape[2]
        reward_rows = read_reward(reward, n, S)
        start_rows = read_start(start, n, S)
        cost_rows = read_cost(cost, n)
        if "cost" in (extra or {}):  # from_frame would read such a column as the cost of help
            raise InvalidInput(
                "extra has an entry 'cost', which is what help costs; give cost=, or another name"
            )
        self._set(
            arms=arms,
            reward=np.broadcast_to(reward_rows[:, 0], (n, S)),
            ids=read_labels(
                "ids", np.arange(n) if ids is None else ids, n, distinct=ids is not None
            ),
            groups=None if groups is None else read_labels("groups", groups, n, distinct=False),
            start=np.broadcast_to(start_rows, (n, S)),
            extra=MappingProxyType(
                {
                    str(name): read_labels(str(name), values, n, distinct=False)
                    for name, values in (extra or {}).items()
                }
            ),
            cost=np.broadcast_to(cost_rows, (n,)),
            reward_rows=reward_rows,
            start_rows=start_rows,
            cost_rows=cost_rows,
        )

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Unpickling builds the cohort anew. So its arrays are checked and read-only again, and a
        # reward that all arms share stays a single row.
        return self.from_saved, (self.saved_fields(),)

    def saved_fields(self) -> dict[str, Any]:
        """The arguments from which :meth:`from_saved` builds the cohort."""
        probabilities = "P" if self.arms.shape[3] == self.S else "p"
        return {
            probabilities: getattr(self, probabilities),
            "reward": as_given(self.reward_rows),
            "ids": self.ids,
            "groups": self.groups,
            "start": self.start,
            "extra": dict(self.extra),
            "cost": self.cost if self.with_costs else None,
        }

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> Cohort:
        """Build a cohort from its :meth:`saved_fields`."""
        return cls.two_state(**fields) if "p" in fields else cls(**fields)

    @classmethod
    def two_state(
        cls,
        p: ArrayLike,
        reward: ArrayLike | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
        groups: Sequence[Any] | NDArray[Any] | None = None,
        start: ArrayLike | None = None,
        extra: Mapping[str, Any] | None = None,
        cost: ArrayLike | None = None,
    ) -> Cohort:
        """Build a cohort of the paper's arms, which have a bad and a good state.

        Parameters
        ----------
        p : array_like, [n, 2, 2]
            ``p[i, a, s]`` is the probability that arm i, in state s under action a, is in state 1
            (good) next.
        reward, ids, groups, start, extra, cost
            As for :class:`Cohort`.

        Returns
        -------
        Cohort
            With S = 2.

        Raises
        ------
        InvalidInput
            If p has the wrong shape or an entry outside [0, 1], or another argument is refused by
            :class:`Cohort`.

        Examples
        --------
        >>> import softfair as sf
        >>> sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]]).P[0, 1, 0].tolist()
        [0.5, 0.5]
        """
        cohort = cls.__new__(cls)
        # p takes half the memory of P: 320 MB for ten million arms.
        cohort._build(read_two_state(p), reward, ids, groups, start, extra, cost)
        return cohort

    @property
    def n(self) -> int:
        """Number of arms."""
        return int(self.arms.shape[0])

    @property
    def S(self) -> int:
        """Number of states an arm can be in."""
        return int(self.arms.shape[2])

    @cached_property
    def P(self) -> Floats:
        """Transition probabilities ``P[i, a, s, s2]`` [n, 2, S, S].

        If the cohort was made from p, P is computed on first use.
        """
        if self.arms.shape[3] == self.S:
            return self.arms
        P = np.empty((self.n, 2, 2, 2))
        np.subtract(1.0, self.arms[..., 0], out=P[..., 0])
        P[..., 1] = self.arms[..., 0]
        P.flags.writeable = False
        return P

    @property
    def p(self) -> Floats:
        """Two-state shorthand ``p[i, a, s] = P[i, a, s, 1]`` [n, 2, 2].

        Raises
        ------
        InvalidInput
            If the arms have more than two states.
        """
        if self.S != 2:
            raise InvalidInput(
                f"this needs arms with two states, the cohort has {self.S}; "
                "choose a policy for S states"
            )
        return self.arms[..., -1]

    @property
    def at_once(self) -> Floats:
        """What help is worth at once [n, S]: R(s, 1) - R(s, 0), 0 for rewards of states alone."""
        rows = self.reward_rows
        worth = rows[:, -1] - rows[:, 0]  # 0 if there is one column
        return np.broadcast_to(worth, (self.n, self.S))

    @property
    def by_action(self) -> bool:
        """Whether rewards depend on the action."""
        return bool(self.reward_rows.shape[1] > 1)

    @property
    def immediate_gain(self) -> Floats:
        """Gain of help by the next step alone [n, S]: sum_s2 (P[1] - P[0]) reward + at_once."""
        gain: Floats = np.einsum("ist,it->is", self.P[:, 1], self.reward) - np.einsum(
            "ist,it->is", self.P[:, 0], self.reward
        )
        return gain + self.at_once if self.by_action else gain

    @property
    def with_costs(self) -> bool:
        """Whether some cost is not 1."""
        return bool((self.cost_rows != 1).any())

    @property
    def _cost_range(self) -> str:
        low, high = self.cost_rows.min(), self.cost_rows.max()
        return f"{low}" if low == high else f"{low} to {high}"

    @cached_property
    def per_cost(self) -> Cohort:
        """The same arms without costs, and with their rewards multiplied by mean(cost) / cost.

        Gains and indices of this cohort are gains and indices for the cost of an average arm. If
        there are no costs, it is the cohort itself.
        """
        if not self.with_costs:
            return self
        R = np.broadcast_to(self.reward_rows, (self.n, *self.reward_rows.shape[1:]))
        scaled = R * (self.cost.mean() / self.cost)[:, None, None]
        return self.from_saved(self.saved_fields() | {"reward": as_given(scaled), "cost": None})

    @cached_property
    def cost_classes(self) -> tuple[tuple[int, Cohort], ...]:
        """Each cost that occurs, in rising order, and the arms of :attr:`per_cost` of that cost."""
        return tuple(
            (int(cost), self.per_cost.subset(self.cost == cost)) for cost in np.unique(self.cost)
        )

    def subset(self, arms: ArrayLike) -> Cohort:
        """The cohort of some of the arms.

        Parameters
        ----------
        arms : array_like of int or bool
            Indices of arms, in the order wanted, or a mask [n].

        Returns
        -------
        Cohort
            With the rewards, ids, groups, starts and costs of these arms.

        Raises
        ------
        InvalidInput
            If ``arms`` is neither indices nor a mask, or an index is out of range.

        Examples
        --------
        >>> import softfair as sf
        >>> sf.datasets.synthetic(n=5, seed=0).subset([3, 1]).ids.tolist()
        [3, 1]
        """
        pick = np.asarray(arms)
        if (
            pick.ndim != 1
            or pick.dtype.kind not in "biu"
            or (pick.dtype == bool and len(pick) != self.n)
        ):
            raise InvalidInput(
                f"arms has shape {pick.shape} and type {pick.dtype}; "
                f"give indices of arms or a mask of {self.n}"
            )
        if pick.dtype != bool:
            refuse(
                (pick < -self.n) | (pick >= self.n), pick, "arms", f"the cohort has {self.n} arms"
            )
        make, rows = Cohort if self.arms.shape[3] == self.S else Cohort.two_state, self.reward_rows
        return make(
            self.arms[pick] if make is Cohort else self.p[pick],
            reward=as_given(rows[pick] if len(rows) > 1 else rows),
            ids=self.ids[pick],
            groups=None if self.groups is None else self.groups[pick],
            start=self.start[pick],
            extra={name: values[pick] for name, values in self.extra.items()},
            cost=self.cost[pick],
        )

    @classmethod
    def from_frame(cls, frame: Any) -> Cohort:
        """Build a cohort from a data frame of pandas, Polars or Arrow.

        Parameters
        ----------
        frame : data frame
            One row for each person, with the columns of `softfair.frames`: ``p00, p01, p10, p11``
            for two states, ``p_A_S_T`` for more; optional ``id``, ``group``, ``start``, ``cost``
            and ``reward_S`` or, by action, ``reward_A_S``.
            Other columns are kept in ``extra``. A mapping from names to columns is accepted too.

        Returns
        -------
        Cohort

        Raises
        ------
        InvalidInput
            A column or an entry is missing or wrong, or a column's name looks like a misspelling of
            a known one.

        Examples
        --------
        >>> import pandas as pd
        >>> import softfair as sf
        >>> frame = pd.DataFrame({"id": ["Ada"], "p00": 0.1, "p01": 0.6, "p10": 0.5, "p11": 0.9})
        >>> sf.Cohort.from_frame(frame.assign(village="north")).extra["village"]
        array(['north'], dtype=object)
        """
        return cls(**read_columns(columns_of(frame)))

    def to_frame(self, backend: str = "pandas") -> Any:
        """The whole cohort as a data frame, which :meth:`from_frame` reads back.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            The library whose data frame is made.

        Returns
        -------
        data frame
            One row for each arm, with the columns of `softfair.frames`. Rewards, starts and costs
            that are the default have no columns.

        Raises
        ------
        InvalidInput
            The library is not one of the three, or it is not installed.

        Examples
        --------
        >>> import softfair as sf
        >>> sf.datasets.synthetic(n=3, seed=0).to_frame("polars").columns
        ['id', 'p00', 'p01', 'p10', 'p11']
        """
        return make_frame(self.columns(), backend)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of :meth:`to_frame` as arrays [n] by name."""
        more = ({"cost": self.cost} if self.with_costs else {}) | dict(self.extra)
        return cohort_columns(self.P, self.reward_rows, self.ids, self.groups, self.start, more)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        groups = "" if self.groups is None else f", groups={len(set(self.groups.tolist()))}"
        action = ", rewards by action" if self.by_action else ""
        costs = f", costs={self._cost_range}" if self.with_costs else ""
        return f"Cohort(n={self.n}, S={self.S}{groups}{action}{costs})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"arms": f"{self.n:,}", "states": self.S}
        if self.groups is not None:
            facts["groups"] = len(set(self.groups.tolist()))
        own = " of each arm's own" if len(self.reward_rows) > 1 else ""
        span = f"{self.reward_rows.min():g} to {self.reward_rows.max():g}"
        action = ", by action" if self.by_action else ""
        facts["rewards"] = f"{span}{own}{action}"
        if self.with_costs:
            facts["costs"] = self._cost_range
        gain = self.immediate_gain
        facts["gain by the next step"] = f"{gain.min():.3g} to {gain.max():.3g}"
        if self.extra:
            facts["extra columns"] = ", ".join(self.extra)
        return as_html("Cohort", facts)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution over arms of what help gains by the next step, for each state.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on new axes.

        Returns
        -------
        matplotlib.axes.Axes
        """
        axes = axes_for(ax)
        for s in range(self.S):
            color = COLOURS[s % len(COLOURS)]
            axes.hist(
                self.immediate_gain[:, s], bins=30, histtype="step", color=color, label=f"state {s}"
            )
        axes.set_xlabel("gain of help by the next step")
        axes.set_ylabel("arms")
        axes.legend(frameon=False)
        return axes


def refuse_costs(cohort: Cohort, who: str) -> None:
    """Refuse arms that have costs, for a method that would ignore the costs.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    who : str
        The method.

    Raises
    ------
    InvalidInput
        Some cost is not 1.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.cohort import refuse_costs
    >>> refuse_costs(sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]], cost=[2]), "FaWT")
    Traceback (most recent call last):
        ...
    softfair.errors.InvalidInput: the arms have costs (2), which FaWT has no equation for; take \
SoftFair with design='joint' and without a promise, Whittle, Oracle, Myopic or Random, or leave \
the costs out
    """
    if cohort.with_costs:
        raise InvalidInput(
            f"the arms have costs ({cohort._cost_range}), which {who} has no equation for; take "
            "SoftFair with design='joint' and without a promise, Whittle, Oracle, Myopic or "
            "Random, or leave the costs out"
        )
