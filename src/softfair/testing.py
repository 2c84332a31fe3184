"""The contract that every policy keeps, as a test that a policy of your own can be put to.

    sf.testing.check_policy(MyPolicy())

The package's own policies pass it too. It raises an AssertionError that says what is broken.
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

DRAWS = 400  # by which stated chances are tested at a decision
# A sound policy fails the test of its chances with at most this probability, at a decision.
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
        Made but not fitted.
    cohorts : sequence of Cohort, optional
        Where it is tried. By default arms of two states and arms of three, with rewards and starts
        of their own; one of the two may be refused by an error, not both.
    k, horizon, gamma : int or array_like [horizon], int, float
        The setting in which it is tried. A policy that keeps to fewer arms than k is accepted.
    seed : int
        Of the states that it meets and of its fit.

    Raises
    ------
    AssertionError
        The policy breaks the contract; the message says how.

    Notes
    -----
    What is tried, at every decision of a run that the policy itself makes:

    - ``scores`` and ``inclusion`` have one finite number an arm; chances are between 0 and 1 and
      sum to k. A policy that defines ``draw`` may leave them out.
    - ``draw`` gives k different arms, sorted; the same generator gives the same arms.
    - Arms are drawn as often as ``inclusion`` says, by Hoeffding's inequality over 400 draws at the
      first, a middle and the last decision. A sound policy fails there with a chance of at most
      1e-9 each.
    - Calls leave states and memories as they are. Without a memory they answer as at the start,
      whatever was remembered, in whatever order decisions are asked for.
    - A second fit and a copy give the same answers.

    Then ``simulate`` must help k arms at each decision, twice alike.

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
        warnings.simplefilter("ignore", NotConverged)  # rough values are no breach
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
    """Twelve arms of two states, and twelve of three with rewards and starts of their own."""
    rng = np.random.default_rng(seed)
    n, S = 12, 3
    two = Cohort.two_state(np.sort(rng.uniform(0.05, 0.95, (n, 2, 2)), axis=1))
    P = rng.dirichlet(np.ones(S), size=(n, 2, S))
    return [two, Cohort(P, reward=np.sort(rng.random((n, S)), axis=1), start=rng.integers(0, S, n))]


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _check_setting(
    fitted: Fitted, policy: Policy, cohort: Cohort, k: Budget, horizon: int, gamma: float
) -> None:
    label = policy.label
    _expect(isinstance(fitted, Fitted), f"{label}: fit gave {fitted!r}, not an sf.Fitted")
    _expect(fitted.policy is policy, f"{label}: fitted.policy is {fitted.policy!r}")
    _expect(fitted.cohort is cohort, f"{label}: fitted.cohort is another cohort than was given")
    few = bool((fitted.budget <= np.broadcast_to(np.asarray(k), (horizon,))).all())
    _expect(few, f"{label}: fitted.k is {fitted.k}, at most {k} may be helped")
    _expect(
        (fitted.horizon, fitted.gamma) == (horizon, gamma),
        f"{label}: fitted to horizon {fitted.horizon} and gamma {fitted.gamma}, "
        f"asked for {horizon} and {gamma}",
    )


class _Trial:
    """One run of a fitted policy in random states; every answer on the way is checked."""

    def __init__(self, fitted: Fitted, again: Fitted, seed: int) -> None:
        self.fitted, self.label = fitted, fitted.policy.label
        self.others = {"a second fit": again, "a copy": copy.deepcopy(fitted)}
        self.rng = np.random.default_rng(seed)
        own_draw = fitted.defines("draw")
        # A policy that draws by itself may leave out what it cannot state.
        self.stated = [
            name for name in ("scores", "inclusion") if not own_draw or fitted.defines(name)
        ]

    def run(self) -> None:
        fitted, cohort = self.fitted, self.fitted.cohort
        memory = fitted.memory()
        met: list[tuple[int, Ints, Any]] = []  # decision, states, answers without a memory
        for t in range(fitted.horizon):
            states = self.rng.integers(0, cohort.S, cohort.n)
            kept, held = states.copy(), copy.deepcopy(memory)
            arms = self._decision(t, states, memory)
            met.append((t, kept, self._answers(fitted, t, kept.copy(), None)))
            later = fitted.remember(memory, t, states, arms)
            self._unchanged(t, states, kept, memory, held)
            memory = later
        for t, states, before in reversed(met):  # in reverse: answers do not depend on the order
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
        """Everything that can be asked at a decision."""
        asked = [getattr(fitted, name)(t, states, memory) for name in self.stated]
        return [*asked, fitted.draw(t, states, np.random.default_rng(t), memory)]

    def _decision(self, t: int, states: Ints, memory: Any) -> Ints:
        """Check all answers at one decision; returns the arms drawn."""
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
        """Arms are drawn as often as their chances say.

        Hoeffding: Pr(|frequency - chance| >= e) <= 2 exp(-2 DRAWS e^2) for one arm; the bound e
        below makes the sum over all arms MISTAKE.
        """
        n = len(chances)
        rng = np.random.default_rng([t, 1])
        counts = np.zeros(n)
        for _ in range(DRAWS):
            counts[np.asarray(self.fitted.draw(t, states, rng, memory))] += 1
        margin = math.sqrt(math.log(2 * n / MISTAKE) / (2 * DRAWS))
        off = np.abs(counts / DRAWS - chances)
        never = (chances == 0) & (counts > 0)
        i = int(np.argmax(np.where(never, np.inf, off)))
        _expect(
            off[i] <= margin and not never[i],
            f"{where}: inclusion gives arm {i} a chance of {chances[i]:.4g}, and it was drawn "
            f"{counts[i]:.0f} times in {DRAWS}",
        )

    def _unchanged(self, t: int, states: Ints, kept: Ints, memory: Any, held: Any) -> None:
        where = f"{self.label}, decision {t}"
        _expect(bool(np.array_equal(states, kept)), f"{where}: a call has changed the states")
        _expect(
            _alike(memory, held),
            f"{where}: a call has changed the memory that it was given; remember returns a new one",
        )


def _alike(one: Any, other: Any) -> bool:
    """Whether two answers or memories are the same: values, arrays, and lists of them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if hasattr(one, "__dict__"):
        return _alike(vars(one), vars(other))
    return bool(one == other)


def _check_simulation(fitted: Fitted, seed: int) -> None:
    label, runs = fitted.policy.label, 3
    one, two = simulate(fitted, runs, seed), simulate(fitted, runs, seed)
    helps, wanted = one.counts.sum(axis=1), int(fitted.budget.sum())
    _expect(
        bool((helps == wanted).all()),
        f"{label}: simulate helped {helps.tolist()} times, not {wanted}",
    )
    same = np.array_equal(one.counts, two.counts) and np.array_equal(one.rewards, two.rewards)
    _expect(bool(same), f"{label}: simulate gave two different results with one seed")
