"""One protocol for every policy.

    fitted = policy.fit(cohort, k=..., horizon=..., gamma=..., seed=...)
    fitted.scores(t, states)       what ranks or weighs the arms at decision t [n]
    fitted.inclusion(t, states)    Pr(arm i is helped) [n], sums to k
    fitted.draw(t, states, rng)    k arms, sorted

k is one number, or one number for each decision; below, k stands for ``fitted.budget[t]``.
If the arms of a cohort have costs, k is the most that the arms that are helped may cost together,
scores are for the cost of an average arm, and `softfair.costs` makes the lists. A policy whose
``takes_costs`` is false refuses such a cohort.
A policy scores each arm in each state, and a `Rule` turns scores into a selection. A policy that
needs the past (who was helped lately, what was last seen) keeps it in an explicit memory:
``memory()`` is the memory at the start, ``remember`` returns the memory after a decision, and every
call above takes a memory as its last argument. Without that argument, calls use the memory at the
start.

**A policy of your own** defines some of the calls above. A subclass of `Fitted` defines one of
``scores`` (the k highest are helped, or its rule chooses), ``inclusion`` (chances that sum to k)
and ``draw`` (k arms, chosen in any way). If the policy needs a memory, which may be any value, the
subclass defines ``memory`` and ``remember`` as well. A subclass of `Policy` returns it from
``fit``::

    class FittedNeediest(sf.Fitted):
        def scores(self, t, states, memory=None):
            return -np.asarray(states)

    @dataclass(frozen=True)
    class Neediest(sf.Policy):
        def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
            return FittedNeediest(self, cohort, k, horizon, gamma)

:func:`softfair.testing.check_policy` tests whether the policy keeps the protocol, and
:func:`softfair.simulate`, :func:`softfair.compare` and :func:`softfair.frontier` take the policy.

**All runs at once.** The policies of this package work on many runs side by side: their memory is
an array with a leading axis of runs, and they define ``window``, or ``scores_by_run`` and
``remember_by_run``, which :func:`softfair.simulate` calls. A subclass that defines one of the calls
for a single run instead is simulated one run at a time, by `softfair.policies.own`.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort, refuse_costs
from ..costs import choose_runs
from ..errors import InvalidInput, is_real, real_numbers, refuse
from ..figures import axes_for
from ..saving import write
from ..solvers.values import Info
from ..terminal import as_html
from .labels import brief, label_of
from .rules import Rows, Rule
from .setting import Budget, check_setting, plain_budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Fitted", "Policy", "Remembering"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW_BYTES = 2**29  # most bytes of score rows that are kept for decisions in order
SUM_TOLERANCE = 1e-6  # largest difference between k and the sum of chances that a policy states

# The calls by which a policy acts, for a single run and for all runs at once.
SINGLE = frozenset({"scores", "inclusion", "draw", "remember"})
SIDE_BY_SIDE = frozenset({"window", "scores_by_run", "remember_by_run", "choose_by_run"})


class Policy(abc.ABC):
    """A policy that can be fitted to a cohort.

    Policies are small frozen dataclasses of parameters; computed results are kept in `Fitted`. A
    subclass defines :meth:`fit`. Tables name a policy by its class, unless the class sets ``name``.

    Examples
    --------
    >>> import softfair as sf
    >>> isinstance(sf.Random(), sf.Policy)
    True
    >>> sf.SoftFair(c=5).label
    'SoftFair(c=5)'
    """

    name: ClassVar[str]

    @property
    def takes_costs(self) -> bool:
        """Whether the policy takes arms that have costs; if not, :meth:`fit` refuses them."""
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abc.abstractmethod
    def fit(
        self, cohort: Cohort, k: Any, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """Prepare the policy for one cohort.

        Parameters
        ----------
        cohort : Cohort
            The arms.
        k : int or array_like [horizon]
            Arms helped at every decision, 0 <= k <= n; or one number for each decision. If the arms
            have costs, the most that the arms that are helped may cost together.
        horizon : int
            Number of decisions, at least 1.
        gamma : float
            Discount between 0 and 1.
        seed : int
            Seed of solvers that sample.

        Returns
        -------
        Fitted
            The policy ready to act.

        Raises
        ------
        InvalidInput
            The setting does not fit the cohort.
        """

    @property
    def label(self) -> str:
        """Name with the parameters that were set, for tables and legends."""
        return label_of(self.name, self)


class Fitted:
    """A policy ready to act on one cohort, by a rule and scores that depend on time and state.

    Policies return it from :meth:`Policy.fit`. A policy of your own derives from it and defines
    :meth:`scores`, :meth:`inclusion` or :meth:`draw`; see `softfair.policies.base`.

    Parameters
    ----------
    policy : Policy
        The policy that was fitted.
    cohort, k, horizon, gamma
        The setting, see :meth:`Policy.fit`. The attribute ``k`` is a number, or an array [T] if it
        changes with time.
    rule : Rule, optional
        How scores become a selection; by default the k highest are helped.
    scorer : Rows, optional
        The scores. A class that defines how it scores or draws has none.
    info : Info, optional
        How the solver ended: its passes, its time and whether it converged.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> fitted = sf.Myopic().fit(sf.datasets.synthetic(n=4, seed=0), k=2, horizon=3)
    >>> fitted
    <Myopic: n=4, k=2, horizon=3>
    >>> fitted.inclusion(0, [0, 0, 1, 1])
    array([1., 1., 0., 0.])
    >>> fitted.draw(0, [0, 0, 1, 1], np.random.default_rng(0))
    array([0, 1])
    """

    def __init__(
        self,
        policy: Policy,
        cohort: Cohort,
        k: Budget,
        horizon: int,
        gamma: float,
        rule: Rule | None = None,
        scorer: Rows | None = None,
        info: Info | None = None,
    ) -> None:
        self.k: int | Ints = check_setting(cohort, k, horizon, gamma)  # int, or [T]
        self.policy, self.cohort = policy, cohort
        if self.one_by_one or not policy.takes_costs:
            refuse_costs(cohort, policy.label)
        self.horizon, self.gamma = int(horizon), float(gamma)
        self._check_methods(scorer)
        self.rule, self.info = Rule.top() if rule is None else rule, info
        self._scorer, self._columns = scorer, cohort.S  # columns: scores of an arm at a decision
        # The rows that are kept: first decision, number of decisions, rows.
        self._window: tuple[int, int, Floats | None] = (0, 0, None)

    def __repr__(self) -> str:
        n, k = self.cohort.n, plain_budget(self.k)
        return f"<{self.policy.label}: n={n}, k={k}, horizon={self.horizon}>"

    @property
    def budget(self) -> Ints:
        """k of each decision [T]: the number of arms helped or, with costs, what may be spent."""
        return np.broadcast_to(np.asarray(self.k, np.int64), (self.horizon,)).copy()

    def places(self, t: int) -> int:
        """k of decision t: the number of arms helped or, with costs, what may be spent."""
        return self.k if isinstance(self.k, int) else int(self.k[self._step(t)])

    @property
    def _cost(self) -> Ints | None:
        """What the arms cost [n]; None if every arm costs 1."""
        return self.cohort.cost if self.cohort.with_costs else None

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "arms": f"{self.cohort.n:,}",
            "cost of help at most" if self.cohort.with_costs else "helped at each decision": (
                plain_budget(self.k)
            ),
            "decisions": self.horizon,
            "discount": f"{self.gamma:g}",
        }
        if self.info is not None:
            settled = "settled" if self.info.converged else "NOT settled"
            facts["solver"] = f"{self.info.solver}, {self.info.passes} passes, {settled}"
        return as_html(self.policy.label, facts)

    def plot(self, t: int = 0, states: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
        """Draw everybody's chance to be helped at a decision, from the highest to the lowest.

        Parameters
        ----------
        t : int
            Decision.
        states : array_like [n], optional
            State of each arm; by default each arm's most likely state at the start.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on new axes.

        Returns
        -------
        matplotlib.axes.Axes
        """
        states_now = self.cohort.start.argmax(axis=1) if states is None else states
        axes = axes_for(ax)
        chances = np.sort(self.inclusion(t, states_now))[::-1]
        axes.step(np.arange(1, len(chances) + 1), chances, where="mid", label=self.policy.label)
        axes.set_xlabel("arms, from the highest chance to the lowest")
        axes.set_ylabel(f"chance to be helped at decision {t}")
        axes.legend(frameon=False)
        return axes

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_window": (0, 0, None)}  # rows are cheap to make again

    def save(self, path: str | Path) -> None:
        """Write the fitted policy to a file that :func:`softfair.load` reads.

        Parameters
        ----------
        path : str or Path
            The file; it is written whole or not at all. It holds the cohort as well. The module
            `softfair.saving` documents the format, which contains no pickles.

        Raises
        ------
        InvalidInput
            The file cannot be written, or the class of the policy or of its cohort is not one of
            softfair.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import softfair as sf
        >>> fitted = sf.SoftFair(c=5).fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fitted.save(pathlib.Path(folder, "model"))
        ...     sf.load(pathlib.Path(folder, "model"))
        <SoftFair(c=5): n=4, k=1, horizon=5>
        """
        from importlib.metadata import version

        write(path, self, version("softfair"))

    def _check_methods(self, scorer: Rows | None) -> None:
        """Refuse a class that defines no way to act, or a memory that is never updated."""
        cls = type(self)
        acts = self.one_by_one and any(map(self.defines, ("scores", "inclusion", "draw")))
        if scorer is None and not acts and cls.scores_by_run is Fitted.scores_by_run:
            raise InvalidInput(
                f"{cls.__name__} does not say how it acts; "
                "define scores, inclusion or draw, or give a scorer"
            )
        remembers = cls.remember is not Fitted.remember
        remembers |= cls.remember_by_run is not Fitted.remember_by_run
        if cls.memory is not Fitted.memory and not remembers:
            raise InvalidInput(
                f"{cls.__name__} has a memory at the start and does not keep it; "
                "define remember(memory, t, states, arms) as well"
            )

    @property
    def one_by_one(self) -> bool:
        """Whether the class defines its calls for a single run, not for all runs at once."""
        return defined_at(type(self), SINGLE) < defined_at(type(self), SIDE_BY_SIDE)

    def defines(self, name: str) -> bool:
        """Whether a subclass defines this call for a single run."""
        return self.one_by_one and getattr(type(self), name) is not getattr(Fitted, name)

    def vector(self, values: ArrayLike, method: str) -> Floats:
        """The values that a method of a subclass returned, as finite floats [n]."""
        try:
            floats = np.ascontiguousarray(np.asarray(values, dtype=np.float64))
        except (TypeError, ValueError):
            floats = np.empty(())
        if floats.shape != (self.cohort.n,) or not np.isfinite(floats).all():
            raise InvalidInput(
                f"{self.policy.label}: {method} gave {brief(values)}; "
                f"return {self.cohort.n} finite numbers, one an arm"
            )
        return floats

    # One run, with checks.

    def scores(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        """The numbers by which the rule ranks or weighs the arms at decision t.

        Parameters
        ----------
        t : int
            Decision, 0 <= t < horizon.
        states : array_like [n]
            State of each arm, 0 <= state < S.
        memory : Any, optional
            A memory that :meth:`remember` returned; by default the memory at the start.

        Returns
        -------
        ndarray [n]

        Raises
        ------
        InvalidInput
            t or a state is out of range, or the policy draws by a method of its own.
        """
        if self._scorer is None and self.defines("inclusion"):
            return self.vector(self.inclusion(t, states, memory), "inclusion")
        if self._scorer is None and self.defines("draw"):
            raise self._unstated("scores")
        memory = self.memory() if memory is None else memory
        scores: Floats = self.scores_by_run(self._step(t), self._states(states)[None], memory)[0]
        return scores

    def inclusion(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        """Probability that each arm is helped at decision t.

        Parameters are those of :meth:`scores`.

        Returns
        -------
        ndarray [n]
            Pr(a_i = 1 | states). The chances sum to k; with costs, the expected cost is at most k.

        Raises
        ------
        InvalidInput
            As for :meth:`scores`.
        """
        if self.defines("draw"):
            raise self._unstated("inclusion")
        scores = self.vector(self.scores(t, states, memory), "scores")
        return self.rule.inclusion(scores, self.places(t), self._cost)

    def draw(self, t: int, states: ArrayLike, rng: np.random.Generator, memory: Any = None) -> Ints:
        """The arms to help at decision t.

        Parameters are those of :meth:`scores`, and a generator of random numbers.

        Returns
        -------
        ndarray [k]
            Indices of the arms, sorted; with costs, the number of arms varies.
        """
        rule = Rule.rounding() if self.defines("inclusion") else self.rule
        return rule.draw(self.weights(t, states, memory), self.places(t), rng, self._cost)

    def weights(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        """The numbers from which arms are drawn: scores, or the chances that a subclass states.

        Parameters are those of :meth:`scores`.

        Returns
        -------
        ndarray [n]

        Raises
        ------
        InvalidInput
            As for :meth:`scores`; or chances of a subclass are no chances, or do not sum to k.
        """
        if not self.defines("inclusion"):
            return self.vector(self.scores(t, states, memory), "scores")
        chances = self.vector(self.inclusion(t, states, memory), "inclusion")
        total, places = float(chances.sum()), self.places(t)
        if chances.min() < 0 or chances.max() > 1 or abs(total - places) > SUM_TOLERANCE:
            raise InvalidInput(
                f"{self.policy.label}: inclusion gave chances from {chances.min():.6g} to "
                f"{chances.max():.6g} that sum to {total:.9g}; "
                f"return chances between 0 and 1 that sum to {places}"
            )
        return chances

    def _unstated(self, method: str) -> InvalidInput:
        return InvalidInput(
            f"{self.policy.label} draws by a method of its own and states no {method}; "
            f"define {method}(t, states, memory=None) as well"
        )

    def remember(self, memory: Any, t: int, states: ArrayLike, arms: ArrayLike) -> Any:
        """The memory after helping ``arms`` at decision t in these states.

        Parameters
        ----------
        memory : Any
            The memory before; None for the memory at the start. It is not changed.
        t : int
            Decision, 0 <= t < horizon.
        states : array_like [n]
            States at that decision.
        arms : array_like
            Indices of the arms that were helped.

        Returns
        -------
        Any
            None for a policy without memory.
        """
        helped = np.zeros((1, self.cohort.n), np.uint8)
        helped[0, self._arms(arms)] = 1
        before = self.memory() if memory is None else memory
        return self.remember_by_run(before, self._step(t), self._states(states)[None], helped)

    def memory(self, runs: int = 1) -> Any:
        """The memory at the start, with a leading axis of runs; None for a policy without memory.

        A class that defines its calls for a single run returns the memory of one run, which may be
        any value.
        """
        return None

    # Many runs at once, without checks: what simulation calls.

    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        """Scores [runs, n] at decision t in states [runs, n]."""
        row = self._table(t)[0][0]
        out: Floats = np.take_along_axis(row, states.T.astype(np.int64), axis=1).T
        return np.ascontiguousarray(out)

    def window(self, t: int, states: NDArray[Any], memory: Any) -> tuple[Floats, int]:
        """Scores from decision t on, and for how many decisions they hold.

        Parameters
        ----------
        t : int
            Decision.
        states : ndarray [runs, n]
            States of all runs.
        memory : Any
            Memory of all runs.

        Returns
        -------
        scores : ndarray [1 or runs, 1 or decisions, n, S or 1]
            An axis of length 1 serves all runs, decisions or states.
        decisions : int
            How many decisions the scores cover, at least 1.
        """
        table, decisions = self._table(t)
        return table[None], decisions

    def choose_by_run(
        self, t: int, states: NDArray[Any], memory: Any, keys: NDArray[Any]
    ) -> NDArray[np.uint8] | None:
        """The arms helped [runs, n]; None if the rule is to choose them from :meth:`window`.

        A class whose design is no rule chooses here, and so does every class if arms have costs.

        keys [runs] are random 64-bit numbers, one a run, the same at every decision.
        """
        if self._cost is None:
            return None
        scores = self.scores_by_run(t, states, memory)
        return choose_runs(scores, self.rule.c_of_lists, self._cost, self.places(t), t, keys)

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        """The memory after ``helped`` [runs, n] at decision t in states [runs, n].

        The argument ``memory`` is not changed.
        """
        return None

    def _table(self, first: int) -> tuple[Floats, int]:
        """Scores from decision ``first`` on and how many decisions they cover.

        The shape is [decisions, n, S], or [1, n, S] if one row serves all. A caller who asks for
        the decision right after the kept ones will probably ask for the following ones too. Then
        as many decisions are computed as fit into WINDOW_BYTES; otherwise one.
        """
        assert self._scorer is not None
        start, count, rows = self._window
        if rows is None or not start <= first < start + count:
            fit = max(1, WINDOW_BYTES // (8 * self.cohort.n * self._columns))
            count = min(fit, self.horizon - first) if first == start + count else 1
            start, rows = first, self._scorer.rows(first, count)
            self._window = start, count, rows
        return rows[first - start if len(rows) > 1 else 0 :], start + count - first

    def _step(self, t: int) -> int:
        """The decision as an int, if there is such a decision."""
        if not is_real(t) or not 0 <= t < self.horizon or t != int(t):
            raise InvalidInput(
                f"t is {t!r}, the decisions are 0 to {self.horizon - 1}; "
                "fit with a longer horizon to look further"
            )
        return int(t)

    def _arms(self, arms: ArrayLike) -> Ints:
        """The indices as an array, if there are such arms."""
        index, n = np.asarray(arms, dtype=np.int64), self.cohort.n
        refuse((index < 0) | (index >= n), index, "arms", f"give indices between 0 and {n - 1}")
        return index

    def _states(self, states: ArrayLike) -> Ints:
        """The states as an array [n], if there are such states."""
        return self._known_states(states).astype(np.int64)

    def _known_states(self, states: ArrayLike) -> NDArray[Any]:
        """The states [n] in the type that the caller gave, if there are such states."""
        known = np.asarray(states)
        n, S = self.cohort.n, self.cohort.S
        if known.shape != (n,):
            raise InvalidInput(
                f"states have shape {known.shape}, the cohort has {n} arms; give one state an arm"
            )
        if known.dtype.kind not in "iub" or np.ma.is_masked(states):
            try:
                known = real_numbers(states)
            except (TypeError, ValueError) as error:
                raise InvalidInput(
                    f"states are not numbers ({error}); give states between 0 and {S - 1}"
                ) from None
        if known.dtype.kind not in "iub" or known.min() < 0 or known.max() >= S:
            wrong = ~np.isin(known, np.arange(S))
            refuse(wrong, known, "states", f"give states between 0 and {S - 1}")
        return known


class Remembering(Fitted, abc.ABC):
    """A fitted policy whose scores depend on what happened before.

    A subclass defines :meth:`memory`, :meth:`scores_by_run` and :meth:`remember_by_run`.
    """

    @abc.abstractmethod
    def memory(self, runs: int = 1) -> Any:
        """The memory at the start, with a leading axis of runs."""

    @abc.abstractmethod
    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        """Scores [runs, n] at decision t in states [runs, n]."""

    @abc.abstractmethod
    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        """The memory after ``helped`` [runs, n] at decision t in states [runs, n]."""

    def window(self, t: int, states: NDArray[Any], memory: Any) -> tuple[Floats, int]:
        """The scores of each run in its own states: [runs, 1, n, 1], for one decision."""
        return self.scores_by_run(t, states, memory)[:, None, :, None], 1


def defined_at(cls: type, names: frozenset[str]) -> int:
    """The place in the method order of ``cls`` of the first class that defines one of the names."""
    return next(up for up, base in enumerate(cls.__mro__) if names & vars(base).keys())
