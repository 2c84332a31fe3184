"""A test of the contract that every policy keeps, for policies of your own.

    sf.testing.check_policy(MyPolicy())

If the policy breaks the contract, the test raises an AssertionError that says how. The policies of
this package pass the same test.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cohort import Cohort, refuse_costs
from .errors import InvalidInput, NotConverged
from .policies.base import Fitted, Policy
from .policies.setting import Budget
from .simulation import simulate

__all__ = ["check_policy"]

Ints = NDArray[np.int64]

DRAWS = 400  # draws that test the stated chances of a decision
# The largest probability that a sound policy fails the test of its chances at a decision.
MISTAKE = 1e-9
SUM_TOLERANCE = 1e-6


def check_policy(
    policy: Policy,
    cohorts: Sequence[Cohort] | None = None,
    k: Budget = 3,
    horizon: int = 8,
    gamma: float = 0.9,
    seed: int = 0,
) -> None:
    """Test that a policy keeps the protocol of `softfair.policies.base`.

    Parameters
    ----------
    policy : Policy
        The policy, not yet fitted.
    cohorts : sequence of Cohort, optional
        The cohorts on which the policy is tested. By default one with two states, and one with
        three states and a reward and a start for each arm; the policy may refuse one of the two by
        an error, but not both.
    k, horizon, gamma : int or array_like [horizon], int, float
        The setting. A policy that helps fewer arms than k is accepted.
    seed : int
        Seed of the fit and of the states.

    Raises
    ------
    AssertionError
        The policy breaks the contract; the message says how.

    Notes
    -----
    At every decision of a run of the policy, the test checks that

    - ``scores`` and ``inclusion`` return one finite number for each arm, and chances are between 0
      and 1 and sum to k; a policy that defines ``draw`` may leave both out;
    - ``draw`` returns k different arms, sorted, and the same arms for the same generator;
    - arms are drawn as often as ``inclusion`` says, by Hoeffding's inequality over 400 draws at the
      first, a middle and the last decision, where a sound policy fails with a probability of at
      most 1e-9 each;
    - calls do not change states and memories, and calls without a memory always give the answers of
      the start, whatever calls came before;
    - a second fit and a copy give the same answers.

    Finally, ``simulate`` must help k arms at each decision, and give the same result twice.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.testing.check_policy(sf.Random())
    """
    for cohort in cohorts or ():
        refuse_costs(cohort, "check_policy")
    _expect(isinstance(policy, Policy), f"{policy!r} is not an instance of sf.Policy")
    label = policy.label
    _expect(isinstance(label, str) and label != "", f"label is {label!r}; give a text")
    refusals: list[InvalidInput] = []
    tried = _usual_cohorts(seed) if cohorts is None else list(cohorts)
    setting: dict[str, Any] = {"k": k, "horizon": horizon, "gamma": gamma, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # rough values do not break the contract
        for cohort in tried:
            try:
                fitted = policy.fit(cohort, **setting)
            except InvalidInput as refusal:
                refusals.append(refusal)
                continue
            _check_setting(fitted, policy, cohort, k, horizon, gamma)
            _Trial(fitted, policy.fit(cohort, **setting), seed).run()
            _check_simulation(fitted, seed)
    if len(refusals) == len(tried):
        raise AssertionError(f"{label} can be fitted to no cohort: {refusals[0]}")


def _usual_cohorts(seed: int) -> list[Cohort]:
    """Twelve arms of two states, and twelve of three states with a reward and a start for each."""
    rng = np.random.default_rng(seed)
    n, S = 12, 3
    two = Cohort.two_state(np.sort(rng.uniform(0.05, 0.95, (n, 2, 2)), axis=1))
    P = rng.dirichlet(np.ones(S), size=(n, 2, S))
    return [two, Cohort(P, reward=np.sort(rng.random((n, S)), axis=1), start=rng.integers(0, S, n))]


def _expect(holds: bool, message: str) -> None:
    """Raise an AssertionError with the message unless a condition holds."""
    if not holds:
        raise AssertionError(message)


def _check_setting(
    fitted: Fitted, policy: Policy, cohort: Cohort, k: Budget, horizon: int, gamma: float
) -> None:
    """Check that the fitted policy has the setting with which it was fitted."""
    label = policy.label
    _expect(isinstance(fitted, Fitted), f"{label}: fit gave {fitted!r}, not an sf.Fitted")
    _expect(fitted.policy is policy, f"{label}: fitted.policy is {fitted.policy!r}")
    _expect(fitted.cohort is cohort, f"{label}: fitted.cohort is another cohort than was given")
    within = bool((fitted.budget <= np.broadcast_to(np.asarray(k), (horizon,))).all())
    _expect(within, f"{label}: fitted.k is {fitted.k}, at most {k} may be helped")
    _expect(
        (fitted.horizon, fitted.gamma) == (horizon, gamma),
        f"{label}: fitted to horizon {fitted.horizon} and gamma {fitted.gamma}, "
        f"asked for {horizon} and {gamma}",
    )


class _Trial:
    """One run of a fitted policy in random states, with checks of all answers."""

    def __init__(self, fitted: Fitted, again: Fitted, seed: int) -> None:
        self.fitted, self.label = fitted, fitted.policy.label
        self.others = {"a second fit": again, "a copy": copy.deepcopy(fitted)}
        self.rng = np.random.default_rng(seed)
        own_draw = fitted.defines("draw")
        # A policy that defines draw may leave scores and inclusion out.
        self.stated = [
            name for name in ("scores", "inclusion") if not own_draw or fitted.defines(name)
        ]

    def run(self) -> None:
        fitted, cohort = self.fitted, self.fitted.cohort
        memory = fitted.memory()
        asked: list[tuple[int, Ints, Any]] = []  # decision, states, answers without a memory
        for t in range(fitted.horizon):
            states = self.rng.integers(0, cohort.S, cohort.n)
            kept, held = states.copy(), copy.deepcopy(memory)
            arms = self._decision(t, states, memory)
            asked.append((t, kept, self._answers(fitted, t, kept.copy(), None)))
            later = fitted.remember(memory, t, states, arms)
            self._unchanged(t, states, kept, memory, held)
            memory = later
        # In reverse, because answers must not depend on the order of calls.
        for t, states, before in reversed(asked):
            where = f"{self.label}, decision {t}"
            _expect(
                _alike(self._answers(fitted, t, states, None), before),
                f"{where}: the answer without a memory has changed since",
            )
            now = self._answers(fitted, t, states, memory)
            for name, other in self.others.items():
                _expect(
                    _alike(self._answers(other, t, states, memory), now),
                    f"{where}: {name} answers otherwise",
                )

    def _answers(self, fitted: Fitted, t: int, states: Ints, memory: Any) -> list[Any]:
        """The results of all calls at a decision."""
        stated = [getattr(fitted, name)(t, states, memory) for name in self.stated]
        return [*stated, fitted.draw(t, states, np.random.default_rng(t), memory)]

    def _decision(self, t: int, states: Ints, memory: Any) -> Ints:
        """Check all answers at one decision; return the arms that are drawn."""
        fitted, n, k = self.fitted, self.fitted.cohort.n, self.fitted.places(t)
        where = f"{self.label}, decision {t}"
        for name in self.stated:
            values = np.asarray(getattr(fitted, name)(t, states, memory))
            sound = values.shape == (n,) and values.dtype.kind in "biuf"
            _expect(
                sound and bool(np.isfinite(values).all()),
                f"{where}: {name} gave {values!r}, not {n} finite numbers",
            )
        arms = self._draw(where, t, states, memory)
        if "inclusion" in self.stated:
            chances = np.asarray(fitted.inclusion(t, states, memory), dtype=np.float64)
            low, high, total = float(chances.min()), float(chances.max()), float(chances.sum())
            _expect(low >= 0 and high <= 1, f"{where}: chances from {low:g} to {high:g}")
            _expect(
                abs(total - k) <= SUM_TOLERANCE, f"{where}: chances sum to {total:.9g}, not {k}"
            )
            if t in (0, fitted.horizon // 2, fitted.horizon - 1):
                self._frequencies(where, t, states, memory, chances)
        return arms

    def _draw(self, where: str, t: int, states: Ints, memory: Any) -> Ints:
        """Draw twice with the same generator, and check the arms."""
        n, k = self.fitted.cohort.n, self.fitted.places(t)
        once, again = (
            np.asarray(self.fitted.draw(t, states, np.random.default_rng(t), memory))
            for _ in range(2)
        )
        _expect(once.shape == (k,), f"{where}: draw gave {once!r}, not {k} arms")
        _expect(
            not k or (once.dtype.kind in "iu" and once.min() >= 0 and once.max() < n),
            f"{where}: draw gave {once!r}, not arms between 0 and {n - 1}",
        )
        _expect(
            bool((np.diff(once) > 0).all()), f"{where}: draw gave {once!r}, not sorted and distinct"
        )
        _expect(
            bool(np.array_equal(once, again)),
            f"{where}: the same generator gave {once!r} and then {again!r}; "
            "draw from the generator that is passed in, and from nothing else",
        )
        return once.astype(np.int64)

    def _frequencies(
        self, where: str, t: int, states: Ints, memory: Any, chances: NDArray[np.float64]
    ) -> None:
        """Check that arms are drawn as often as their chances say.

        By Hoeffding's inequality, Pr(|frequency - chance| >= e) <= 2 exp(-2 DRAWS e^2) for one arm.
        ``margin`` is the e for which the sum of this bound over all arms is MISTAKE.
        """
        n = len(chances)
        rng = np.random.default_rng([t, 1])
        counts = np.zeros(n)
        for _ in range(DRAWS):
            counts[np.asarray(self.fitted.draw(t, states, rng, memory))] += 1
        margin = math.sqrt(math.log(2 * n / MISTAKE) / (2 * DRAWS))
        error = np.abs(counts / DRAWS - chances)
        impossible = (chances == 0) & (counts > 0)
        i = int(np.argmax(np.where(impossible, np.inf, error)))
        _expect(
            error[i] <= margin and not impossible[i],
            f"{where}: inclusion gives arm {i} a chance of {chances[i]:.4g}, and it was drawn "
            f"{counts[i]:.0f} times in {DRAWS}",
        )

    def _unchanged(self, t: int, states: Ints, kept: Ints, memory: Any, held: Any) -> None:
        """Check that states and memory equal the copies made before the calls."""
        where = f"{self.label}, decision {t}"
        _expect(bool(np.array_equal(states, kept)), f"{where}: a call has changed the states")
        _expect(
            _alike(memory, held),
            f"{where}: a call has changed the memory that it was given; remember returns a new one",
        )


def _alike(x: Any, y: Any) -> bool:
    """Whether two answers or memories are equal: values, arrays, and lists of them."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return bool(np.array_equal(x, y))
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(_alike, x, y))
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_alike(x[name], y[name]) for name in x)
    if hasattr(x, "__dict__"):
        return _alike(vars(x), vars(y))
    return bool(x == y)


def _check_simulation(fitted: Fitted, seed: int) -> None:
    """Check that simulations help k arms at each decision, and depend on the seed alone."""
    label, runs = fitted.policy.label, 3
    first, second = simulate(fitted, runs, seed), simulate(fitted, runs, seed)
    helps, expected = first.counts.sum(axis=1), int(fitted.budget.sum())
    _expect(
        bool((helps == expected).all()),
        f"{label}: simulate helped {helps.tolist()} times, not {expected}",
    )
    same = np.array_equal(first.counts, second.counts)
    same = same and np.array_equal(first.rewards, second.rewards)
    _expect(bool(same), f"{label}: simulate gave two different results with one seed")
