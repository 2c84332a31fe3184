"""Chances that depend on more than the state: the likelihood by enumeration, estimates, gains.

The likelihood of a record is summed over everything that was not recorded: the round before the
first, hidden states and unknown contacts, with chances looked up by what was before.
"""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import cpap_people, recorded

import softfair as sf
from softfair.errors import InvalidInput
from softfair.estimate import (
    Contexts,
    Memory,
    estimate,
    foresight,
    foresight_of,
    population,
    read_histories,
)
from softfair.estimate.population import Fit, Form, law_at, normal_points

SHARE = 0.3  # of rounds with a contact, where it is not known
KINDS = [(2, "2"), (3, "2"), (2, "contact"), (3, "contact")]


def fit_of(read, form, X=None, M=8):
    X = np.zeros((read.n, 0)) if X is None else X
    return Fit(form, read, np.ones(read.n), X, SHARE, normal_points(form.D, M, 3))


def form_of(S, memory, **how):
    return Form(S, 2, **{"effect": True, "gaps": True, **how}, B=2 if memory == "contact" else S)


# Closed forms


def test_contexts_of_two_states():
    """Context 2 b + s: after bad 0, 1, after good 2, 3."""
    by_state = Contexts(2, Memory.STATE)
    assert by_state.after.tolist() == [[[0, 1], [2, 3], [0, 1], [2, 3]]] * 2
    by_contact = Contexts(2, Memory.CONTACT)
    assert by_contact.after.tolist() == [[[0, 1]] * 4, [[2, 3]] * 4]
    assert by_contact.reward.tolist() == by_state.reward.tolist() == [0, 1, 0, 1]
    assert Contexts(3).after.tolist() == [[[0, 1, 2]] * 3] * 2


def test_a_known_history():
    """States 0 1 . 1 1 1 0; the context is known where the state before is."""
    rounds, state, contacted = [1, 2, 3, 4, 5, 6, 7], [0, 1, -1, 1, 1, 1, 0], [0, 0, 1, 1, 0, 1, 0]
    read = read_histories([0] * 7, rounds, state, contacted, n=1, S=2, memory="2")
    assert read.first.tolist() == [-2]
    # Before round 1 nothing is known: a gap to round 2. From there (after 0, in 1) to round 5.
    assert read.gap_first.tolist() == [-1, 1]
    assert read.acts.tolist() == [0, 0, 1, 1]
    assert read.sees.tolist() == [0, 1, 1, -1, 1, 1]
    assert {tuple(move) for move in np.argwhere(read.moves)} == {(0, 0, 3, 1), (0, 1, 3, 0)}
    assert read.missed.tolist() == [1]
    read = read_histories([0] * 7, rounds, state, contacted, n=1, S=2, memory="contact")
    assert read.gap_first.tolist() == [-1, 1]  # round 2 follows one without a contact
    assert read.sees.tolist() == [0, 1, 1, -1, 1]


def test_somebody_with_one_round_tells_of_the_first_context_alone():
    read = read_histories([0], [1], [1], [0], n=1, S=2, memory="2")
    assert (read.gap_of.tolist(), read.acts.tolist(), read.sees.tolist()) == ([0, 1], [], [1])
    form = form_of(2, "2")
    fit, z = fit_of(read, form), np.zeros(form.size)
    law = law_at(form, form.prior[0], fit.points)
    told = [chance_of([1], [0], law.atoms[:, q], law, 2, "2") for q in range(len(law.log_weight))]
    expected = math.log(np.exp(law.log_weight) @ told) - form.size / 2 * math.log(2 * math.pi)
    assert fit(z)[0] == pytest.approx(expected, rel=1e-12)


# Brute force


def chance_of(state, contacted, atom, law, S, memory):
    """The chance of a record: the sum over all paths of states and contacts that agree with it."""
    before = range(2 if memory == "contact" else S)
    half = atom.reshape(2, len(before), S, S - 1)
    logits = np.zeros((2, len(before), S, S))
    logits[0, ..., 1:], logits[1, ..., 1:] = half[0], half[0] + half[1]
    P = np.exp(logits) / np.exp(logits).sum(axis=3, keepdims=True)  # [a, b, s, s2]
    start = first_law(P, memory, law)
    total = 0.0
    states = [range(S) if s < 0 else [s] for s in state]
    acts = [(0, 1) if a < 0 else [a] for a in contacted[:-1]]
    for b0, path, done in itertools.product(
        before, itertools.product(*states), itertools.product(*acts)
    ):
        chance, b = start[b0, path[0]], b0
        for t, s in enumerate(path):
            chance *= law.unseen[s] if state[t] < 0 else 1 - law.unseen[s]
            if t == len(path) - 1:
                break
            if contacted[t] < 0:
                chance *= SHARE if done[t] else 1 - SHARE
            chance *= P[done[t], b, s, path[t + 1]]
            b = done[t] if memory == "contact" else s
        total += chance
    return total


def first_law(P, memory, law):
    """The law [b, s] of the first round of a record: after a long time alone, or by a fair coin."""
    B, S = P.shape[1:3]
    alone = np.full((B, S), 1 / (B * S))
    for _ in range(400):
        flow = alone[..., None] * P[0]  # [b, s, s2]
        if memory == "contact":  # nobody is contacted
            alone = np.stack([flow.sum(axis=(0, 1)), np.zeros(S)])
        else:
            alone = flow.sum(axis=0)
    return law.settled * alone + (1 - law.settled) * law.coin.reshape(B, S)


@pytest.mark.parametrize(("S", "memory"), KINDS)
def test_the_likelihood_is_the_sum_over_all_that_was_not_recorded(S, memory):
    rng = np.random.default_rng(S)
    n, T = 4, 6 if S == 2 else 5
    state, contacted = rng.integers(-1, S, (n, T)), rng.integers(-1, 2, (n, T))
    state[0], contacted[0] = np.maximum(state[0], 0), np.maximum(contacted[0], 0)
    state[1, 1::2] = -1  # no two rounds that follow each other
    state[1, 0] = 1
    columns = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    read = read_histories(*columns, state.ravel(), contacted.ravel(), n=n, S=S, memory=memory)
    form = form_of(S, memory)
    z = 0.5 * rng.normal(size=form.size)
    fit = fit_of(read, form, M=4)
    law = law_at(form, form.prior[0] + form.prior[1] * z, fit.points)
    total = -(z @ z + form.size * math.log(2 * math.pi)) / 2
    for s, a in zip(state, contacted, strict=True):
        total += math.log(
            sum(
                math.exp(weight) * chance_of(s, a, law.atoms[:, q], law, S, memory)
                for q, weight in enumerate(law.log_weight)
            )
        )
    assert fit(z)[0] == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("effect", [True, False])
@pytest.mark.parametrize(("S", "memory"), KINDS)
def test_the_gradient_against_differences(S, memory, effect):
    rng = np.random.default_rng(5)
    n, T = 4, 7
    columns = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    told = rng.integers(-1, [[S], [2]], (2, n * T))
    read = read_histories(*columns, *told, n=n, S=S, memory=memory)
    form = form_of(S, memory, effect=effect, scales=((0.4, 0.2), (0.3, 0.5)))
    fit = fit_of(read, form, rng.normal(size=(n, 2)), M=4)
    z = 0.3 * rng.normal(size=form.size)
    _, gradient = fit(z)
    step = 1e-5 * np.eye(form.size)
    found = [(fit(z + e)[0] - fit(z - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("memory", ["2", "contact"])
def test_the_curvature_against_differences(memory, monkeypatch):
    rng = np.random.default_rng(6)
    n, T = 5, 7
    columns = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    told = rng.integers(-1, 2, (2, n * T))
    read = read_histories(*columns, *told, n=n, S=2, memory=memory)
    form = form_of(2, memory, scales=((0.4, 0.2), (0.3, 0.5)))
    fit = fit_of(read, form, rng.normal(size=(n, 2)), M=4)
    z = 0.3 * rng.normal(size=form.size)
    found = np.array([(fit(z - e)[1] - fit(z + e)[1]) / 2e-4 for e in 1e-4 * np.eye(form.size)])
    # A difference over h on one side is off by h / 2 times a third derivative.
    monkeypatch.setattr(population, "STEP", 1e-5)
    np.testing.assert_allclose(fit.curvature(z), found, atol=1e-3)


@pytest.mark.parametrize(("S", "memory"), KINDS)
def test_the_chain_of_contexts_and_its_law(S, memory):
    rng = np.random.default_rng(7)
    contexts = Contexts(S, Memory(memory))
    P = rng.dirichlet(np.ones(S), (3, 2, contexts.C))
    chain = contexts.chain(P)
    for i, a, c, s2 in itertools.product(range(3), range(2), range(contexts.C), range(S)):
        before = a if memory == "contact" else c % S
        assert chain[i, a, c, before * S + s2] == P[i, a, c, s2]
    np.testing.assert_allclose(chain.sum(axis=-1), 1)
    law = np.linalg.matrix_power(chain[:, 0], 400)[:, 0].reshape(3, contexts.B, S)
    law = (law / law.sum(axis=1, keepdims=True)).swapaxes(1, 2)
    np.testing.assert_allclose(contexts.weights(P), law, atol=1e-10)
    rows = P.reshape(3, 2, contexts.B, S, S)
    by_hand = sum(law[:, None, :, b, None] * rows[:, :, b] for b in range(contexts.B))
    np.testing.assert_allclose(contexts.by_state(P), by_hand, atol=1e-10)


# Worlds


def second_order(seed, n=500, weeks=20, hidden=0.0, lasting=0.0):
    """person, round, state, contacted of people whom a contact helps after two bad weeks alone.

    Chances of the good state: .2 after a bad week and .8 after a good one, give or take .1 from
    person to person, and `lasting` more after a good week before; a contact lifts that of somebody
    with two bad weeks to .75. A state is not seen with the chance `hidden`.
    """
    rng = np.random.default_rng([77, seed])
    own = rng.uniform(-0.1, 0.1, n)
    before, now = rng.integers(0, 2, (2, n))
    columns = []
    for week in range(-20, weeks):
        contact = (rng.random(n) < (0.3 if week >= 0 else 0.0)).astype(int)
        good = chance_of_good(own, before, now, contact, lasting)
        shown = np.where(rng.random(n) < hidden, -1, now)
        if week >= 0:
            columns.append((np.arange(n), np.full(n, week), shown, contact))
        before, now = now, (rng.random(n) < good).astype(int)
    return tuple(np.stack(one, axis=1).ravel() for one in zip(*columns, strict=True))


def chance_of_good(own, before, now, contact, lasting=0.0):
    chance = np.where(now == 1, 0.8, 0.2) + own + np.where(before == 1, lasting, -lasting) / 2
    return np.where((contact == 1) & (before == 0) & (now == 0), 0.75, chance)


def test_an_estimate_finds_whom_a_contact_helps():
    """By contexts 0 0, 0 1, 1 0, 1 1 the effect is .55 on average, and 0 thrice."""
    columns = second_order(1, n=300, hidden=0.2)
    made = estimate(read_histories(*columns, n=300, S=2, memory="2"))
    assert made.P.shape == (300, 2, 4, 2)
    assert made.draws.shape[1:] == (300, 2, 4, 1)
    truth = [0.55, 0, 0, 0]
    for one, value in zip(made.effect, truth, strict=True):
        assert one.low - 0.03 < value < one.high + 0.03
        assert one.high - one.low < 0.2
    np.testing.assert_allclose(made.P[:, 0, :, 1].mean(axis=0), [0.2, 0.8, 0.2, 0.8], atol=0.05)
    np.testing.assert_allclose(made.P.sum(axis=-1), 1)
    cohort = sf.Cohort(made.contexts.chain(made.P), reward=made.contexts.reward)
    assert cohort.S == 4


def test_bad_input():
    with pytest.raises(InvalidInput, match="memory is '3'; give 2 "):
        read_histories([0], [1], [1], [0], n=1, S=2, memory="3")
    read = read_histories([0, 0, 0], [1, 2, 3], [1, 0, 0], [0] * 3, n=1, S=2, memory="2")
    with pytest.raises(InvalidInput, match="leave it or the memory out"):
        estimate(read, monotone=True)


# Is it worth it: on rounds held out


def test_the_gain_of_a_memory_by_hand():
    """Two people with 2 and 1 moves whose differences sum to .3 and .9: mean .4 a move.

    The errors are .3 - .8 and .9 - .4; the variance is 2 / 1 (.25 + .25) / 9.
    """
    found = foresight._mean(np.array([0.3, 0.9]), np.array([2, 1]))
    t = 12.706204736  # 97.5 % of Student's law with one degree of freedom
    assert found.value == pytest.approx(0.4)
    assert found.high - found.value == pytest.approx(t / 3)
    assert found.value - found.low == pytest.approx(t / 3)


def test_held_out_moves_and_no_others_are_foretold(monkeypatch):
    """The last two moves of 10 rounds, by fits without them, if the context is known."""
    asked = []

    def fixed(read, columns):
        asked.append((read.contexts.memory, int(read.moves.sum()), columns))
        P = np.full((read.n, 2, read.contexts.C, 2), 0.5)
        if read.contexts.memory is Memory.STATE:
            P[:, :, 1] = [0.2, 0.8]  # good after bad
        return SimpleNamespace(P=P)

    monkeypatch.setattr(foresight, "estimate", fixed)
    state = np.tile([0, 0, 1, 1, 0, 0, 0, 0, 1, 1], (3, 1))
    state[1, 6] = -1  # so that what is before round 7 is not known, and it leaves one move of two
    state[2, 7:] = -1  # nobody knows: not compared
    columns = np.repeat(np.arange(3), 10), np.tile(np.arange(10), 3)
    found = foresight_of(
        *columns, state.ravel(), np.zeros(30, int), 3, 2, "2", {"x": np.array([7.0, 8.0, 9.0])}
    )
    # Rounds 7, 8 and 9 are 0 1 1: from bad after bad, chance .5 with both; from good after bad .8.
    gained = math.log(0.8 / 0.5)
    assert (found.first, found.people, found.moves) == (7, 2, 3)
    assert found.gain.value == pytest.approx(2 * gained / 3)
    # Rounds 0 to 7 alone: six moves with a known context of person 0, and four of person 1.
    assert [(memory, moves) for memory, moves, _ in asked] == [("2", 10), ("none", 12)]
    assert asked[0][2]["x"].tolist() == [7.0, 8.0]


def test_a_memory_that_tells_is_taken():
    found = foresight_of(*second_order(3), n=500, S=2, memory="2")
    assert found.better
    assert found.gain.low > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_memory_that_tells_nothing_is_not_taken(seed):
    """People of the first order, some of whose states are hidden.

    Of 60 cohorts of 200 people and 15 weeks, all seen, none took it either, nor of 60 with chances
    of their own from Beta(.8, .8).
    """
    columns = recorded(cpap_people(120, True, seed), 10, seed, seen=(0.8, 0.9))
    assert not foresight_of(*columns, n=120, S=2, memory=("2", "contact")[seed % 2]).better


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_history_that_is_too_short_is_refused(rounds):
    columns = np.repeat([0, 1], rounds), np.tile(np.arange(rounds), 2)
    state = np.zeros((2, 2 * rounds), int)
    with pytest.raises(InvalidInput, match="too short for the memory 2: it takes at least two"):
        foresight_of(*columns, *state, n=2, S=2, memory="2")


# Is it worth it: in good rounds


def good_rounds(cohort, context_of, runs, seed):
    """Good rounds of 100 people in 15 weeks, in each run, with lists of the 10 who gain most.

    The people are those of `second_order`; `context_of` is the cohort's state from before and now.
    """
    n, k, weeks = cohort.n, 10, 15
    fitted = sf.SoftFair(c=50).fit(cohort, k, weeks)
    totals = np.zeros(runs)
    for run in range(runs):
        rng = np.random.default_rng([9, seed, run])
        own = np.random.default_rng([77, seed]).uniform(-0.1, 0.1, n)
        before, now = np.zeros((2, n), int)
        for week in range(weeks):
            contact = np.zeros(n, int)
            contact[fitted.draw(week, context_of(before, now), rng)] = 1
            good = chance_of_good(own, before, now, contact)
            before, now = now, (rng.random(n) < good).astype(int)
            totals[run] += now.sum()
    return totals


def test_plans_with_memory_bring_more_good_rounds_where_memory_matters():
    """Contacts help only after two bad weeks; without memory half of them go to other people.

    Of those in a bad week about two in three had one before. Lists of 10 lift who is helped from .2
    to .75: the gain over no contacts is some 80 good rounds with memory, and a third less without.
    """
    n, seed, runs = 100, 5, 30
    columns = second_order(seed, n=n)
    longer = estimate(read_histories(*columns, n=n, S=2, memory="2"))
    plain = estimate(read_histories(*columns, n=n, S=2))
    reward = longer.contexts.reward
    with_memory = good_rounds(
        sf.Cohort(longer.contexts.chain(longer.P), reward=reward),
        lambda before, now: 2 * before + now,
        runs,
        seed,
    )
    without = good_rounds(sf.Cohort(plain.P), lambda _, now: now, runs, seed)
    error = np.hypot(with_memory.std(ddof=1), without.std(ddof=1)) / math.sqrt(runs)
    assert with_memory.mean() - without.mean() > 4 * error


def weary_of_calls(own, called_before, now, contact):
    """The chance of the good state if a call helps only people without a call the week before."""
    helped = (contact == 1) & (called_before == 0)
    return np.clip(np.where(now == 1, 0.7, 0.15) + own + 0.4 * helped, 0.02, 0.98)


def live(own, weeks, rng, calls):
    """State and contact [n, weeks] of people who are weary of calls, given who is called."""
    n = len(own)
    now, called_before = np.zeros((2, n), int)
    state, contacted = np.empty((2, n, weeks), int)
    for week in range(weeks):
        contact = calls(week, called_before, now)
        state[:, week], contacted[:, week] = now, contact
        good = weary_of_calls(own, called_before, now, contact)
        called_before, now = contact, (rng.random(n) < good).astype(int)
    return state, contacted


@pytest.mark.slow
def test_a_memory_of_contacts_is_taken_and_brings_more_where_calls_wear_off():
    """Half of the called people stay ill; without memory the next call to them is wasted."""
    n, k, weeks, runs = 200, 60, 15, 12
    rng = np.random.default_rng(12)
    own = rng.uniform(-0.1, 0.1, n)
    state, contacted = live(own, 20, rng, lambda *_: (rng.random(n) < 0.3).astype(int))
    rows = (np.repeat(np.arange(n), 20), np.tile(np.arange(20), n))
    columns = (*rows, state.ravel(), contacted.ravel())
    assert foresight_of(*columns, n=n, S=2, memory="contact").better

    def good_weeks(cohort, context_of):
        fitted = sf.SoftFair(c=50).fit(cohort, k, weeks)
        totals = []
        for run in range(runs):
            luck = np.random.default_rng([5, run])

            def calls(week, called_before, now, luck=luck):
                contact = np.zeros(n, int)
                contact[fitted.draw(week, context_of(called_before, now), luck)] = 1
                return contact

            totals.append(live(own, weeks, luck, calls)[0].sum())
        return np.array(totals)

    longer = estimate(read_histories(*columns, n=n, S=2, memory="contact"))
    chain = sf.Cohort(longer.contexts.chain(longer.P), reward=longer.contexts.reward)
    with_memory = good_weeks(chain, lambda before, now: 2 * before + now)
    plain = sf.Cohort(estimate(read_histories(*columns, n=n, S=2)).P)
    without = good_weeks(plain, lambda _, now: now)
    error = np.hypot(with_memory.std(ddof=1), without.std(ddof=1)) / math.sqrt(runs)
    assert with_memory.mean() - without.mean() > 4 * error
