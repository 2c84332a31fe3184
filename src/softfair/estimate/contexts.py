"""Contexts, on which transition probabilities depend: the state, and possibly the round before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from ..errors import InvalidInput
from .border import Floats, Ints

__all__ = ["Contexts", "Memory"]


class Memory(StrEnum):
    """What transition probabilities depend on, besides the state.

    NONE: nothing; STATE: the state before; CONTACT: whether there was a contact in the round
    before.
    """

    NONE = "none"
    STATE = "2"
    CONTACT = "contact"

    @classmethod
    def given(cls, value: object) -> Memory:
        """The memory that a caller names, checked."""
        if str(value) not in list(cls):
            raise InvalidInput(
                f"memory is {str(value)!r}; give 2 (the state before the last counts too), contact "
                "(so does a contact in the round before) or none"
            )
        return cls(str(value))


@dataclass(frozen=True)
class Contexts:
    """The contexts that people can be in, and which context follows which.

    Context ``c = b S + s`` combines the state s with b, which stands for the round before: the
    state before, or 1 if there was a contact and 0 if not. Without memory b is 0, and the context
    is the state.

    Parameters
    ----------
    S : int
        Number of states.
    memory : Memory
        What counts besides the state.
    """

    S: int
    memory: Memory = Memory.NONE

    @property
    def B(self) -> int:
        """The number of values of b."""
        return {Memory.NONE: 1, Memory.STATE: self.S, Memory.CONTACT: 2}[self.memory]

    @property
    def C(self) -> int:
        """The number of contexts."""
        return self.B * self.S

    @property
    def reward(self) -> Floats:
        """The worth of a round in each context [C]: that of its state, from 0 to 1."""
        return np.arange(self.C) % self.S / (self.S - 1)

    @cached_property
    def after(self) -> Ints:
        """The context [2, C, S] after action a in context c, if the next state is s2."""
        a, c, s2 = np.indices((2, self.C, self.S))
        return np.asarray(self.before(c % self.S, a) * self.S + s2)

    def before(self, state: Ints, contacted: Ints) -> Ints:
        """b of the next round, from the state and contact of this round; below 0: not known."""
        if self.memory is Memory.STATE:
            return state
        return contacted if self.memory is Memory.CONTACT else np.zeros_like(state)

    def of_rows(self, i: Ints, r: Ints, s: Ints, a: Ints) -> Ints:
        """The context of each entry of sorted columns [m]; -1 where it is not known."""
        follows = np.zeros(len(i), bool)
        follows[1:] = (i[1:] == i[:-1]) & (r[1:] == r[:-1] + 1)
        next_b = self.before(s, a)
        b = np.where(follows, np.roll(next_b, 1), 0 if self.memory is Memory.NONE else -1)
        return np.where((s >= 0) & (b >= 0), b * self.S + s, -1)

    def chain(self, P: Floats) -> Floats:
        """Chances [..., 2, C, C] from context to context, from those of states [..., 2, C, S]."""
        if self.memory is Memory.NONE:
            return P
        between_contexts = np.zeros((*P.shape[:-1], self.C))
        a, c, _ = np.indices((2, self.C, self.S))
        between_contexts[..., a, c, self.after] = P
        return between_contexts

    def step(self, belief: Floats, P: Floats, contacted: Ints) -> Floats:
        """The law of the context [m, C] a round later, from its law now and chances [m, C, S].

        ``contacted`` [m] is 1 for people who were contacted, else 0.
        """
        if self.memory is Memory.NONE:
            return np.asarray(np.einsum("is,ist->it", belief, P))
        later, everybody = np.zeros_like(belief), np.arange(len(belief))
        for c in range(self.C):
            for s2 in range(self.S):
                later[everybody, self.after[contacted, c, s2]] += belief[:, c] * P[:, c, s2]
        return later

    def weights(self, P: Floats) -> Floats:
        """The law [n, S, B] of b given the state, in the stationary law without contacts.

        Parameters
        ----------
        P : ndarray, [n, 2, C, S]
            The transition probabilities of each person.
        """
        if self.memory is not Memory.STATE:  # without contacts b is 0
            law = np.zeros((len(P), self.S, self.B))
            law[..., 0] = 1.0
            return law
        M = np.eye(self.C) - self.chain(P)[:, 0] + 1.0  # as in kernels.logits: pi = 1' M^-1
        pi = np.linalg.solve(np.swapaxes(M, 1, 2), np.ones((len(P), self.C, 1)))[..., 0]
        law = np.maximum(pi.reshape(-1, self.B, self.S).swapaxes(1, 2), 1e-300)
        return np.asarray(law / law.sum(axis=2, keepdims=True))

    def by_state(self, P: Floats) -> Floats:
        """Chances [n, 2, S, S] by the state alone, averaged over `weights`."""
        rows = P.reshape(len(P), 2, self.B, self.S, self.S)
        return np.asarray(np.einsum("nabst,nsb->nast", rows, self.weights(P)))

    def names(self, states: Sequence[str]) -> list[str]:
        """The name of each context [C], from the names of the states."""
        suffixes = {
            Memory.NONE: [""],
            Memory.STATE: [f" after {before}" for before in states],
            Memory.CONTACT: [" after a round without a contact", " after a round with a contact"],
        }[self.memory]
        return [f"{state}{suffix}" for suffix in suffixes for state in states]
