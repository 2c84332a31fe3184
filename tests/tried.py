"""Programmes with a trial. This file states their law, and so the true effect of the trial.

People are CPAP patients, in some worlds at sites that differ. They are seen for some weeks before
the trial, one state in twelve is not recorded, and some people leave at a time that does not depend
on their arm. The arm softfair lists people with large gains according to a noisy guess; the arm
lottery lists people at random; in the arm usual some people are contacted at random. Lists have a
fixed number of places, and most listed people are reached. The people and the draws within arms are
made here; only the assignment, the outcome and its estimate come from the package.

The true effect is the mean over many trials of the same people, with arms assigned at random and
all states seen.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
from worlds import cpap_people

from softfair.programme.assignment import (
    Arm,
    Design,
    Trial,
    assigned,
    tries_of,
    units_of_arms,
)
from softfair.programme.audit.trial import Listed, TrialResult, trial_result
from softfair.programme.luck import Luck, Source
from softfair.programme.power import Units, known_of, pairs_of
from softfair.programme.settings import Settings
from softfair.programme.snapshot import People, Snapshot
from softfair.programme.tracks import History

ARMS = (Arm.SOFTFAIR, Arm.LOTTERY, Arm.USUAL)
BEFORE, ROUNDS = 10, 8  # weeks of history, rounds of the trial
INTENSITY = {Arm.SOFTFAIR: 0.3, Arm.LOTTERY: 0.3, Arm.USUAL: 0.04}  # contacts a person and round
REACHED, RECORDED, LEAVES = 0.85, 11 / 12, 0.1
TRIALS = 40  # the true effect is the mean over this number of trials


class World(NamedTuple):
    """The parameters in which programmes differ."""

    n: int = 120
    effect: bool = True
    sites: int = 0  # 0: people are assigned
    shares: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)


class Tried(NamedTuple):
    """A programme with a trial that is over."""

    trial: Trial
    people: People
    history: History
    truth: np.ndarray  # of each comparison

    def result(self) -> TrialResult:
        return trial_result(self.trial, self.people, self.history, no_list(self.trial), 2)


def no_list(trial: Trial) -> Listed:
    """The lists of a trial before anybody was listed."""
    return Listed(trial, 1 + int(trial.person.max()))


def people_of(n: int, site: np.ndarray) -> People:
    unknown = np.full(n, -1)
    groups = [json.dumps({"village": f"v{s}"}) if s >= 0 else "{}" for s in site]
    names = [f"P{i}" for i in range(n)]
    return People(names, groups, unknown, unknown, np.zeros(n, np.int64), unknown)


def chances(world: World, seed: int, site: np.ndarray) -> np.ndarray:
    """p [n, 2, 2]; people of one site are alike."""
    p = cpap_people(world.n, world.effect, seed)
    if world.sites:
        shift = np.random.default_rng([21, seed]).normal(0, 0.7, world.sites)[site]
        logit = np.log(p / (1 - p)) + shift[:, None, None]
        p = 1 / (1 + np.exp(-logit))
    return p


def followed(
    p: np.ndarray, arm: np.ndarray, state: np.ndarray, guess: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """States [r, T, n] after each round of r trials.

    arm and state are [r, n], guess [n, 2] of the gain in each state.
    """
    r, n = arm.shape
    everybody, states = np.arange(n), np.empty((r, ROUNDS, n), np.int64)
    for t in range(ROUNDS):
        contacted = np.zeros((r, n), np.int64)
        for a, name in enumerate(ARMS):
            here = arm == a
            k = np.rint(INTENSITY[name] * here.sum(axis=1)).astype(int)
            key = rng.gumbel(size=(r, n))
            if name is Arm.SOFTFAIR:
                key = key + 8 * guess[everybody, state]
            rank = np.argsort(np.argsort(np.where(here, -key, np.inf), axis=1), axis=1)
            contacted |= here & (rank < k[:, None]) & (rng.random((r, n)) < REACHED)
        state = (rng.random((r, n)) < p[everybody, contacted, state]).astype(np.int64)
        states[:, t] = state
    return states


def mean_outcomes(states: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Each person's mean over the rounds in which they are seen [r, n]; seen [T, n]."""
    with np.errstate(invalid="ignore"):
        return (states * seen).sum(axis=1) / seen.sum(axis=0)


def tried(seed: int, world: World = World()) -> Tried:  # noqa: B008
    rng, n = np.random.default_rng([22, seed]), world.n
    site = rng.integers(0, world.sites, n) if world.sites else np.full(n, -1)
    site[: world.sites] = np.arange(world.sites)  # no site is empty
    p = chances(world, seed, site)
    everybody = np.arange(n)
    guess = p[:, 1] - p[:, 0] + rng.normal(0, 0.1, (n, 2))
    state, columns = rng.integers(0, 2, n), []
    for week in range(-20, BEFORE + 1):
        if week >= 0:
            columns.append((everybody, np.full(n, week + 1), noted(state, rng)))
        if week < BEFORE:
            state = (rng.random(n) < p[everybody, 0, state]).astype(np.int64)
    first = BEFORE + 1
    before = history_of(columns)
    trial = assigned_trial(world, site, before, first, seed)
    arm = np.empty(n, np.int64)
    arm[trial.person] = trial.arm
    leaves = np.where(rng.random(n) < LEAVES, rng.integers(0, ROUNDS, n), ROUNDS)
    here = np.arange(ROUNDS)[:, None] < leaves  # [T, n]
    states = followed(p, arm[None], state[None], guess, rng)[0]
    for t in range(ROUNDS):
        columns.append((everybody, np.full(n, first + t + 1), noted(states[t], rng, here[t])))
    people, history = people_of(n, site), history_of(columns)
    if not world.effect:
        return Tried(trial, people, history, np.zeros(len(pairs_of(ARMS))))
    # The true effect, for people who are seen in the trial at all.
    arms = np.stack([shuffled(trial, rng) for _ in range(TRIALS)])
    states = followed(p, arms, np.broadcast_to(state, (TRIALS, n)), guess, rng)
    y = mean_outcomes(states, here)
    # A mean for each person in each arm, then over people, so that assignments add no noise.
    counted = here.any(axis=0)
    many = [np.maximum((arms == a).sum(axis=0), 1) for a in range(3)]
    own = [np.where(arms == a, y, 0).sum(axis=0) / many[a] for a in range(3)]
    always = counted & np.all([(arms == a).any(axis=0) for a in range(3)], axis=0)
    truth = np.array([(own[a] - own[b])[always].mean() for a, b in pairs_of(ARMS)])
    return Tried(trial, people, history, truth)


def noted(
    state: np.ndarray, rng: np.random.Generator, here: np.ndarray | None = None
) -> np.ndarray:
    seen = rng.random(len(state)) < RECORDED
    return np.where(seen if here is None else seen & here, state, -1)


def history_of(columns: list[tuple[np.ndarray, ...]]) -> History:
    person, rounds, state = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort((rounds, person))
    return History.of_rows(person[order], rounds[order], state[order], np.full(len(person), -1))


def assigned_trial(world: World, site: np.ndarray, before: History, first: int, seed: int) -> Trial:
    """A trial with the assignment of the package."""
    people, everybody = people_of(world.n, site), np.arange(world.n)
    sites = "village" if world.sites else None
    units = Units(everybody, everybody, people.names, None)
    if world.sites:
        units = Units(everybody, site, [f"v{s}" for s in range(world.sites)], sites)
    now = Snapshot(1, Settings(), 1, people, before)
    X, columns = known_of(now, first, units, ())
    counts = units_of_arms(len(units.names), world.shares)
    key = f"{seed:064x}"
    arm, chosen = assigned(key, units.names, X, counts)
    values = tuple(units.names) if world.sites else ()
    design = Design(ARMS, world.shares, sites, values, columns, tries_of(counts))
    last = first + ROUNDS - 1
    return Trial(
        id=1,
        created="",
        software="",
        setting=1,
        first=first,
        last=last,
        luck=Luck(Source.PROGRAMME),
        key=key,
        chosen=chosen,
        design=design,
        power={},
        X=X,
        person=everybody,
        unit=units.unit,
        arm=arm[units.unit],
    )


def shuffled(trial: Trial, rng: np.random.Generator) -> np.ndarray:
    """The arms of everybody after a random permutation of the units."""
    return rng.permutation(trial.unit_arms)[trial.unit]
