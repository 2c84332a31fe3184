"""What a person's chances go by: the state, and perhaps something about the round before it."""

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
    """What chances go by beside the state now.

    Nothing; the state before it; or whether there was a contact in the round before.
    """

    NONE = "none"
    STATE = "2"
    CONTACT = "contact"

    @classmethod
    def given(cls, value: object) -> Memory:
        """What a caller asks for, checked."""
        if str(value) not in list(cls):
            raise InvalidInput(
                f"memory is {str(value)!r}; give 2 (the state before the last counts too), contact "
                "(so does a contact in the round before) or none"
            )
        return cls(str(value))


@dataclass(frozen=True)
class Contexts:
    """The contexts that people are in, and how one follows another.

    Context ``c = b S + s`` is the state s with b before it: nothing (b = 0), the state before, or
    1 after a round with a contact. Without memory it is the state itself.

    Parameters
    ----------
    S : int
        Number of states.
    memory : Memory
        What counts beside the state.
    """

    S: int
    memory: Memory = Memory.NONE

    @property
    def B(self) -> int:
        """How many things there can be before a state."""
        return {Memory.NONE: 1, Memory.STATE: self.S, Memory.CONTACT: 2}[self.memory]

    @property
    def C(self) -> int:
        """How many contexts there are."""
        return self.B * self.S

    @property
    def reward(self) -> Floats:
        """What a round in each context is worth [C]: that of its state, from 0 to 1."""
        return np.arange(self.C) % self.S / (self.S - 1)

    @cached_property
    def after(self) -> Ints:
        """The context [2, C, S] after action a in context c, if the state is s2 then."""
        a, c, s2 = np.indices((2, self.C, self.S))
        return np.asarray(self.before(c % self.S, a) * self.S + s2)

    def before(self, state: Ints, contacted: Ints) -> Ints:
        """What a round leaves behind, from its state and contact; below 0: not known."""
        if self.memory is Memory.STATE:
            return state
        return contacted if self.memory is Memory.CONTACT else np.zeros_like(state)

    def of_rows(self, i: Ints, r: Ints, s: Ints, a: Ints) -> Ints:
        """The context of each entry of sorted columns [m]; -1 where it is not known."""
        follows = np.zeros(len(i), bool)
        follows[1:] = (i[1:] == i[:-1]) & (r[1:] == r[:-1] + 1)
        left = self.before(s, a)
        b = np.where(follows, np.roll(left, 1), 0 if self.memory is Memory.NONE else -1)
        return np.where((s >= 0) & (b >= 0), b * self.S + s, -1)

    def chain(self, P: Floats) -> Floats:
        """Chances [..., 2, C, C] from context to context, from those of states [..., 2, C, S]."""
        if self.memory is Memory.NONE:
            return P
        made = np.zeros((*P.shape[:-1], self.C))
        a, c, _ = np.indices((2, self.C, self.S))
        made[..., a, c, self.after] = P
        return made

    def step(self, belief: Floats, P: Floats, contacted: Ints) -> Floats:
        """The law of the context [m, C] a round later, from that now and chances [m, C, S].

        ``contacted`` [m] is 1 for who was contacted, else 0.
        """
        if self.memory is Memory.NONE:
            return np.asarray(np.einsum("is,ist->it", belief, P))
        then, everybody = np.zeros_like(belief), np.arange(len(belief))
        for c in range(self.C):
            for s2 in range(self.S):
                then[everybody, self.after[contacted, c, s2]] += belief[:, c] * P[:, c, s2]
        return then

    def weights(self, P: Floats) -> Floats:
        """The law [n, S, B] of what was before each state, for people long left alone.

        Parameters
        ----------
        P : ndarray, [n, 2, C, S]
            Everybody's chances.
        """
        if self.memory is not Memory.STATE:  # who is left alone has not been contacted
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
        """What each context is called [C], from the names of the states."""
        said = {
            Memory.NONE: [""],
            Memory.STATE: [f" after {before}" for before in states],
            Memory.CONTACT: [" after a round without a contact", " after a round with a contact"],
        }[self.memory]
        return [f"{state}{before}" for before in said for state in states]
