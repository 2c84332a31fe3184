r"""What another policy would have brought over several rounds, from the lists that were drawn.

H planned rounds in a row are a window. The estimand is the mean reward of people over the rounds
after those of a window, had the other policy drawn every list of the window. People then reach
other states, which the estimate for one round ahead (:mod:`.off_policy`) does not consider. Windows
do not overlap; in each, people start in the states that they were in.

For one person: s_h is the state at the start of round h = 1, ..., H of the window, L_h is 1 if
listed, p_h the stated probability, q_h the probability that the other policy would list the person
in s_h (with everybody else as they were), Y_h the reward of the state reached, s / (S - 1). With

    w_h = L_h q_h / p_h + (1 - L_h)(1 - q_h) / (1 - p_h),    rho_h = w_1 ... w_h

and any guesses Q_h(s, L) of the rewards from round h on, the doubly robust estimate is

    V = V_1 + sum_h rho_h (Y_h + V_{h+1} - Q_h(s_h, L_h)),   V_h = q_h Q_h(s_h, 1) + (1 - q_h)
        Q_h(s_h, 0),  V_{H+1} = 0.

Because p is the exact chance, the mean of V does not depend on the guesses; its spread does. The
guesses are computed backwards from the window's end, from the model of the window's first plan,
which was made before the outcomes, and the share of the listed (and of the others) who were
contacted. In them, the policy's probability in a state is its mean over the people who were in that
state when the window began: guesses must not use what came later.

Given (s_h, L_h), a term of the sum has mean zero if the guesses are right, and people are
independent. So the sum over people has the variance sum D^2, D = V - V_1. Where guesses are wrong,
D has another mean, and sum D^2 is too great rather than too small.

A person's sum ends where something is not known (a state not seen, a person who left): the rest of
their window is the model's guess. The share of such rounds is reported. The estimate is refused if
that share is above MOST_GUESSED, if the weights rest on few people or on lists that were hardly
ever drawn, and in programmes with rounds of rest after a contact, because the other policy would
then have drawn from other people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models import Model
from .off_policy import AS_DRAWN, NOTHING, UNSUPPORTED, Policy, is_heavy, weights_of
from .planned import Planned
from .words import floored

__all__ = ["Several", "SeveralRow"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_GUESSED = 0.2  # share of the rounds of people that may rest on the model alone
LEAST_EFFECTIVE = 50.0  # people of equal weight that an estimate must be worth


@dataclass(frozen=True)
class SeveralRow:
    """The mean reward that a policy would have brought over several rounds; nan: not known."""

    policy: str
    horizon: int  # rounds of a window
    windows: int
    people: int  # each counted once in each window
    estimable: bool
    why_not: str
    effective: float  # how many people of equal weight the weights of a last round are worth
    guessed: float  # share of the rounds of people that rest on the model alone
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    difference: float = math.nan  # from the programme's own policy
    difference_low: float = math.nan
    difference_high: float = math.nan


@dataclass(frozen=True, eq=False)
class _Window:
    """H rounds of the n people who were in the first round's draw, in a known state."""

    plans: Sequence[Planned]
    row: Ints  # [H, n] of each person in each plan; below 0: not in that plan
    state: Ints  # [H + 1, n] at the start of each round, and at the end; below 0: not known
    listed: Ints  # [H, n]
    p: Floats  # [H, n] stated probability; outside the draw 1 if listed, else 0
    known: Bools  # [H, n] every state up to the one after the round is known
    chances: Floats  # [n, 2, S, S] of moves, not listed and listed

    @classmethod
    def of(cls, plans: Sequence[Planned], P: Floats, reached: Floats) -> _Window:
        """From the model's P [people, 2, S, S] and the share contacted, not listed and listed."""
        first = plans[0]
        begins = first.in_draw & (first.state >= 0) & (first.person < len(P))
        person = first.person[begins]
        size = 1 + max(int(one.person.max(initial=0)) for one in plans)
        row, state, listed, p = [], [], [], []
        for one in plans:
            place = np.full(size, -1)
            place[one.person] = np.arange(len(one.person))
            here = place[person]
            there = here >= 0
            row.append(here)
            state.append(np.where(there, one.state[here], -1))
            listed.append(np.where(there, one.listed[here], 0))
            p.append(np.where(there & one.in_draw[here], one.probability[here], listed[-1]))
        state.append(np.where(there, one.after[here], -1))
        states = np.array(state)
        known = np.logical_and.accumulate((np.array(row) >= 0) & (states[1:] >= 0), axis=0)
        own = P[person]
        chances = own[:, :1] + reached[:, None, None] * (own[:, 1:] - own[:, :1])
        return cls(plans, np.array(row), states, np.array(listed), np.array(p), known, chances)

    def wanted(self, policy: Policy) -> Floats:
        """The other policy's probability q [H, n]; outside the draw 1 if listed, else 0."""
        q = self.listed.astype(np.float64)
        for h, one in enumerate(self.plans):
            chance = np.full(len(one.person), np.nan)
            for draw, k, c in one.site_draws():
                chance[draw] = policy.inclusion(policy.scores(one)[draw], k, c)
            own = np.where(self.row[h] >= 0, chance[self.row[h]], np.nan)
            q[h] = np.where(np.isnan(own), q[h], own)
        return q

    def guesses(self, q: Floats) -> tuple[Floats, Floats]:
        """Q_h(s_h, 0) and Q_h(s_h, 1) [2, H, n], and V_h [H + 1, n].

        Guesses for states that are not known have no meaning, and are not used.
        """
        H, n = q.shape
        S = self.chances.shape[-1]
        reward = np.arange(S) / (S - 1)
        each = np.arange(n)
        at = self.state[0]
        mean = np.array([q[0][at == s].mean() if (at == s).any() else 0.0 for s in range(S)])
        later: Floats = np.zeros((n, S))  # V_{h+1}(s) with the mean q of the people in s
        Q, V = np.zeros((2, H, n)), np.zeros((H + 1, n))
        for h in reversed(range(H)):
            at = self.state[h]
            from_here = np.einsum("nast,nt->nas", self.chances, reward + later)  # [n, 2, S]
            Q[:, h] = from_here[each, :, at].T
            V[h] = Q[0, h] + q[h] * (Q[1, h] - Q[0, h])
            later = from_here[:, 0] + mean * (from_here[:, 1] - from_here[:, 0])
            left = self.row[h] < 0  # not in the plan of this round
            V[h][left] = later[each, at][left]
        return Q, V

    def weights(self, q: Floats) -> Floats:
        """rho [H, n]."""
        w = weights_of(self.listed == 1, self.p, q)
        rho: Floats = np.cumprod(w, axis=0, dtype=np.float64)
        return rho


class _Sums:
    """Sums over windows for one policy."""

    def __init__(self) -> None:
        self.V = self.D2 = self.people = self.rounds = self.guessed = 0.0
        self.V_from_own = self.D2_from_own = 0.0  # of the difference from the policy as drawn
        self.rho = np.zeros(2)  # sums of rho and its square in the last round
        self.moved = self.unsupported = 0.0

    def add(
        self, window: _Window, q: Floats, own: tuple[Floats, Floats] | None
    ) -> tuple[Floats, Floats]:
        """Count a window and return V and D [n]; ``own`` is V and D of the policy as drawn."""
        V, D, rho = _estimates(window, q)
        self.V += float(V.sum())
        self.D2 += float(D @ D)
        if own is not None:
            self.V_from_own += float((V - own[0]).sum())
            self.D2_from_own += float(np.sum((D - own[1]) ** 2))
        self.people += len(V)
        self.rounds += window.known.size
        self.guessed += float(np.count_nonzero(~window.known))
        last = rho[-1][window.known[-1]]
        self.rho += last.sum(), last @ last
        shift = np.abs(q - window.p) * window.known
        self.moved += float(shift.sum())
        self.unsupported += float(shift[is_heavy(window.p, q)].sum())
        return V, D


def _estimates(window: _Window, q: Floats) -> tuple[Floats, Floats, Floats]:
    """V and D [n] of everybody, and rho [H, n]."""
    S = window.chances.shape[-1]
    Q, V = window.guesses(q)
    rho = window.weights(q)
    guess = np.where(window.listed == 1, Q[1], Q[0])
    error = window.state[1:] / (S - 1) + V[1:] - guess
    D = np.sum(np.where(window.known, rho * error, 0.0), axis=0)
    return V[0] + D, D, rho


class Several:
    """The mean reward over several rounds, had another policy drawn the lists.

    The rounds of a window are held until it ends.

    Parameters
    ----------
    windows : sequence of tuple of int
        The rounds of each window, see `windows_of`.
    policies : sequence of Policy
        Those to estimate; the first is the programme's own.
    reached : ndarray, shape (2,)
        The share of those in a draw who were contacted, not listed and listed.

    Attributes
    ----------
    windows : int
        How many were counted so far.

    Notes
    -----
    The equations stand at the top of this file.
    """

    def __init__(
        self, windows: Sequence[tuple[int, ...]], policies: Sequence[Policy], reached: Floats
    ) -> None:
        self.windows = 0
        self._coming = {window[0]: window for window in windows}
        self._sums, self._reached = [(policy, _Sums()) for policy in policies], reached
        self._open: list[Planned] = []  # of the window that has begun
        self._window: tuple[int, ...] = ()
        self._P = np.empty(0)

    def add(self, one: Planned, model: Model | None) -> None:
        """Count a round; rounds are added in their order.

        Parameters
        ----------
        one : Planned
            The round.
        model : Model, optional
            Of its plan; None: it cannot be read, so no window begins in this round.
        """
        if one.round in self._coming and model is not None:
            self._window = self._coming[one.round]
            self._P = model.contexts.by_state(model.P)
        if one.round in self._window:
            self._open.append(one)
            if one.round == self._window[-1]:
                self._close()

    def _close(self) -> None:
        """Count the window that has ended."""
        window, own = _Window.of(self._open, self._P, self._reached), None
        for policy, total in self._sums:
            estimate = total.add(window, window.wanted(policy), own)
            own = estimate if policy is AS_DRAWN else own
        self.windows += 1
        self._open, self._window, self._P = [], (), np.empty(0)

    def rows(self, horizon: int, cooldown: int, z: float) -> tuple[SeveralRow, ...]:
        """What was found.

        Parameters
        ----------
        horizon : int
            Rounds of a window.
        cooldown : int
            Rounds of rest after a contact.
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of SeveralRow
            A row a policy; none if there is no window.
        """
        if not any(total.people for _, total in self._sums):
            return ()
        return tuple(
            _row(policy, total, horizon, self.windows, cooldown, z) for policy, total in self._sums
        )


def _row(
    policy: Policy, sums: _Sums, horizon: int, windows: int, cooldown: int, z: float
) -> SeveralRow:
    """One policy's row, from sums over windows."""
    rho, squares = sums.rho
    effective = float(rho**2 / squares) if squares else 0.0
    guessed = sums.guessed / sums.rounds
    why_not = _why_not(policy, sums, effective, guessed, cooldown)
    N = sums.people * horizon
    estimate, difference = sums.V / N, sums.V_from_own / N
    half, of_difference = z * math.sqrt(sums.D2) / N, z * math.sqrt(sums.D2_from_own) / N
    figures = (
        ()
        if why_not
        else (
            estimate,
            max(estimate - half, 0.0),
            min(estimate + half, 1.0),
            difference,
            difference - of_difference,
            difference + of_difference,
        )
    )
    return SeveralRow(
        policy.name,
        horizon,
        windows,
        int(sums.people),
        not why_not,
        why_not,
        effective,
        guessed,
        *figures,
    )


def _why_not(policy: Policy, sums: _Sums, effective: float, guessed: float, cooldown: int) -> str:
    """Why the lists allow no estimate; empty if they allow one."""
    if cooldown and policy is not AS_DRAWN:
        return "rounds of rest after a contact would have been others'"
    if guessed > MOST_GUESSED:
        return f"{guessed:.0%} of the rounds of people are not known"
    unsupported = sums.unsupported / sums.moved if sums.moved > NOTHING * sums.rounds else 0.0
    if unsupported > UNSUPPORTED:
        return f"{unsupported:.0%} of what it would change was (almost) never drawn"
    if effective < LEAST_EFFECTIVE:
        return (
            f"rests on the worth of {floored(effective)} people; {LEAST_EFFECTIVE:.0f} are needed"
        )
    return ""
