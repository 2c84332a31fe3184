"""The test of whether more than the state counts: the law of exits, its size and its power."""

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from honest import page, people_of, programme
from tried import history_of
from worlds import cpap_people, recorded

from softfair.programme.audit import measure, sections
from softfair.programme.audit.findings import memory as findings
from softfair.programme.audit.memory import (
    AFTER_CONTACT,
    STATE_BEFORE,
    MemoryRow,
    _Exits,
    memory_of,
)
from softfair.programme.tracks import History

STATES = ("bad", "good")


def stretch(path):
    """One person's path, without a contact, after a round with one."""
    path = np.array(path)
    made = history_of(
        [(np.zeros(1, int), np.array([t]), path[t : t + 1]) for t in range(len(path))]
    )
    contacted = np.zeros(len(path), int)
    contacted[0] = 1  # the first move is a contact's, and so in no stretch
    return replace(made, contacted=contacted[:, None])


@pytest.mark.parametrize("S", [2, 3])
def test_the_law_of_exits_by_enumeration(S):
    """Of all paths with the same moves, last exits alike, figures have the stated mean and
    variance."""
    alike = defaultdict(list)
    for path in itertools.product(range(S), repeat=7 if S == 2 else 5):
        pairs = tuple(
            np.bincount([S * a + b for a, b in itertools.pairwise(path)], minlength=S * S)
        )
        last = {a: b for a, b in itertools.pairwise(path)}
        last.pop(path[-1], None)
        alike[path[0], pairs, tuple(sorted(last.items()))].append(path)
    assert max(map(len, alike.values())) > (5 if S == 2 else 2)
    for paths in alike.values():
        for s in range(S):
            found = []
            for path in paths:
                exits = _Exits.of(stretch((0, *path)).rows())
                here = exits.state == s
                found.append((exits.repeats(here), exits.firsts(here & exits.after_contact)))
            for figures in zip(*found, strict=True):
                moves, observed, mean, variance = np.array(figures).T
                assert np.ptp(moves) == np.ptp(mean) == 0
                assert observed.mean() == pytest.approx(mean[0], abs=1e-12)
                assert observed.var() == pytest.approx(variance[0], abs=1e-12)


def world(seed, n=500, weeks=20, **how):
    """The history of people with chances of their own, of the first order."""
    p = cpap_people(n, True, seed)
    return people_seen(lambda now, before, a, since: p[np.arange(n), a, now], seed, n, weeks, **how)


def people_seen(chance, seed, n, weeks, contacts=(0.1, 0.1), seen=(1.0, 1.0)):
    """States and contacts; chance of the good state by state now, before, contact, time since one.

    They are left alone for 30 weeks before the first. Chances of a contact, and of being seen,
    depend on the state now.
    """
    rng = np.random.default_rng([31, seed])
    now, before, since = rng.integers(0, 2, n), rng.integers(0, 2, n), np.full(n, 99)
    columns, told = [], []
    for week in range(-30, weeks):
        a = (rng.random(n) < np.array(contacts)[now] * (week >= 0)).astype(int)
        if week >= 0:
            noted = np.where(rng.random(n) < np.array(seen)[now], now, -1)
            columns.append((np.arange(n), np.full(n, week), noted))
            told.append(a)
        after = (rng.random(n) < chance(now, before, a, since)).astype(int)
        now, before, since = after, now, np.where(a == 1, 0, since + 1)
    made = history_of(columns)
    return replace(made, contacted=np.stack(told))


def smallest(history, cooldown=0):
    """The least p of a page, all its comparisons of memory taken together (Bonferroni)."""
    rows = memory_of(history, STATES, cooldown)
    return min((row.p * len(rows) for row in rows), default=1.0)


WORLDS = {
    "plain": {},
    "contacts go to the bad": {"contacts": (0.4, 0.05)},
    "the bad are seldom seen": {"seen": (0.6, 0.95)},
    "both": {"contacts": (0.3, 0.02), "seen": (0.7, 0.95)},
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WORLDS.values(), ids=WORLDS)
def test_people_who_differ_do_not_pass_for_memory(how):
    """Alarms at 5 % in at most 5 % of 200 programmes, within 3.7 standard deviations: once in
    10,000."""
    alarms = sum(smallest(world(seed, n=300, **how)) < 0.05 for seed in range(200))
    assert alarms <= 200 * 0.05 + 3.7 * (200 * 0.05 * 0.95) ** 0.5


def test_an_effect_of_the_state_before_is_detected():
    """Second order: with the state before, chances differ by 0.15. 500 people, 20 rounds."""
    told = 0
    for seed in range(50):
        own = np.random.default_rng([32, seed]).normal(0, 0.08, 500)

        def chance(now, before, a, since, own=own):
            return np.clip(0.25 + 0.3 * now + 0.15 * before + 0.1 * a + own, 0.02, 0.98)

        told += smallest(people_seen(chance, seed, 500, 20)) < 0.05
    assert told >= 45


def test_an_effect_of_an_earlier_contact_is_detected():
    """A contact goes on helping in the round after."""
    rows = []
    for seed in range(10):
        p = cpap_people(500, True, seed)

        def chance(now, before, a, since, p=p):
            lasting = np.where(since == 0, 0.3, 0.0)
            return np.minimum(p[np.arange(500), a, now] + lasting, 0.98)

        rows += memory_of(people_seen(chance, seed, 500, 20, contacts=(0.15, 0.15)), STATES, 0)
    bad = [row for row in rows if (row.after, row.state) == (AFTER_CONTACT, "bad")]
    assert np.mean([row.p < 0.05 for row in bad]) > 0.8
    assert all(row.observed < row.expected for row in bad)


def test_rest_after_a_contact_leaves_that_question_open():
    history = world(0)
    assert {row.after for row in memory_of(history, STATES, 0)} == {STATE_BEFORE, AFTER_CONTACT}
    assert {row.after for row in memory_of(history, STATES, 2)} == {STATE_BEFORE}


def test_findings_about_memory():
    """An alarm, a table, and neither without enough to tell."""
    measured = page(0, n=30, k=4, weeks=4, rounds=1)
    rows = (
        MemoryRow(STATE_BEFORE, "good", 900, 312.4, 402, 5.0, 1e-6, True),
        MemoryRow(AFTER_CONTACT, "bad", 90, 31.0, 22, -2.0, 0.05, False),
    )
    said = list(findings(replace(measured, memory=rows)))
    assert len(said) == 1
    assert said[0].startswith("Look: more than the state now tells what comes. In state good, ")
    assert "in it the round before stayed 402 times; 312 are expected" in said[0]
    (told,) = findings(replace(measured, memory=(replace(rows[1], flagged=True),)))
    assert "had been contacted the round before stayed 22 times; 31 are" in told
    table = next(one for one in sections(replace(measured, memory=rows)) if one.key == "memory")
    assert table.rows[0] == ["good", "in the same state", "900", "312.4", "402", "<0.001 (!)"]
    none = replace(measured, memory=())
    assert list(findings(none)) == []
    assert "memory" not in [one.key for one in sections(none)]


def test_the_audit_shares_its_alarms_with_memory():
    """Of the second order, 500 people and 20 rounds: the audit raises its alarm."""
    own = np.random.default_rng([32, 0]).normal(0, 0.08, 500)

    def chance(now, before, a, since):
        return np.clip(0.25 + 0.3 * now + 0.2 * before + 0.1 * a + own, 0.02, 0.98)

    evidence = programme(0, n=30, k=4, weeks=4, rounds=1)
    honest = measure(evidence)
    assert not any(row.flagged for row in honest.memory)
    many = people_of(500, np.random.default_rng(0))
    found = measure(replace(evidence, people=many, history=people_seen(chance, 0, 500, 20)))
    assert any(row.flagged for row in found.memory if row.after == STATE_BEFORE)


def test_nothing_to_tell():
    assert memory_of(History.of_rows(*np.empty((4, 0), int)), STATES, 0) == ()
    assert memory_of(stretch([0, 1, 0, 0, 1]), STATES, 0) == ()
    person, rounds, state, contacted = recorded(cpap_people(60, True, 1), 15, 1)
    unknown = np.full(len(person), -1)
    assert memory_of(History.of_rows(person, rounds, state, unknown), STATES, 0) == ()
    assert memory_of(History.of_rows(person, rounds, state, contacted), STATES, 0)
