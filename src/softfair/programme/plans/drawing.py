"""From scores and a key to everybody's chance and the list."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ...policies.base import Rule
from ...sampling import Design, draw_by_luck, top_by_luck
from .. import luck
from ..settings import Settings

__all__ = ["chances", "drawn_by_luck", "drawn_by_position", "seed_by_position"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DESIGN: Design = "joint"


def chances(score: Floats, c: float, k: int) -> Floats:
    """Probability of everybody in a site's draw [m] of being on the list of k."""
    k = min(k, len(score))
    return Rule.softmax(c, DESIGN).inclusion(score, k) if k else np.zeros(len(score))


def drawn_by_luck(score: Floats, c: float, k: int, key: str, names: list[str]) -> Ints:
    """The places of those drawn, sorted; each person's luck follows from their name [m]."""
    k = min(k, len(score))
    if k == 0:
        return np.empty(0, np.int64)
    rule, numbers = Rule.softmax(c, DESIGN), luck.numbers(key, names)
    if rule == Rule.top():
        return top_by_luck(score, k, numbers)
    return draw_by_luck(rule.c * score, k, numbers, DESIGN)


def drawn_by_position(score: Floats, c: float, k: int, seed: str, site: int) -> Ints:
    """The places of those drawn, as plans were drawn before people had luck of their own."""
    k = min(k, len(score))
    if k == 0:
        return np.empty(0, np.int64)
    rng = np.random.default_rng([int(seed, 16), site])
    return Rule.softmax(c, DESIGN).draw(score, k, rng)


def seed_by_position(settings: Settings, at: int) -> str:
    """The seed of a round's draw for `drawn_by_position`."""
    return hashlib.sha256(f"{settings.seed} {at}".encode()).hexdigest()[:16]
