"""What another policy would have brought over several rounds: by enumeration and by simulation."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from fed import policies_for, several_rounds_of
from test_audit import SOFTWARE, drawn, planned, small, tell

from softfair import sampling
from softfair.errors import InvalidInput
from softfair.programme.audit import audit, sections, several
from softfair.programme.audit.off_policy import AS_DRAWN, LOTTERY, NOBODY
from softfair.programme.audit.planned import windows_of
from softfair.programme.plans import make_plan
from softfair.programme.store import Store

Z = 1.6448536269514722  # of intervals of 90 %


@pytest.fixture
def any_weight(monkeypatch):
    """Give estimates from any number of people."""
    monkeypatch.setattr(several, "LEAST_EFFECTIVE", 0.0)


def worth(p, q, start, rounds):
    """Mean reward of one person over some rounds, by all their paths: q [rounds, 2] by state."""
    law, total = np.eye(2)[start], 0.0
    for h in range(rounds):
        good = sum(
            law[s] * (q[h][s] * p[1, s] + (1 - q[h][s]) * p[0, s]) for s in (0, 1)
        )  # reached is 1: who is listed is contacted, nobody else
        law = np.array([1 - good, good])
        total += good / rounds
    return total


@pytest.mark.parametrize(("policy", "chance"), [(LOTTERY, 1 / 3), (NOBODY, 0.0)])
def test_right_on_average_whatever_the_model(any_weight, policy, chance):
    """Three people, one place, two rounds: all 9 pairs of lists times all 64 outcomes.

    The model is wrong about everything; the mean over the law of the log is the truth.
    """
    rng = np.random.default_rng(3)
    p = rng.uniform(0.1, 0.9, (3, 2, 2))
    score = rng.normal(size=(2, 3, 2))  # by round, person and state
    guess = rng.uniform(0.05, 0.95, (3, 2, 2))
    P = np.stack([1 - guess, guess], axis=-1)
    start = np.array([0, 1, 0])
    mean = total = own = 0.0
    for lists in itertools.product(range(3), repeat=2):
        for flat in itertools.product((0, 1), repeat=6):
            reached, state, chance_of_log, rounds = np.array(flat).reshape(2, 3), start, 1.0, []
            for h in (0, 1):
                now = score[h, range(3), state]
                stated = sampling.inclusion(now, 1, "joint")
                listed = np.eye(3, dtype=np.int64)[lists[h]]
                good = p[range(3), listed, state]
                chance_of_log *= stated[lists[h]]
                chance_of_log *= np.prod(np.where(reached[h] == 1, good, 1 - good))
                one = planned(
                    stated, listed, score=now, state=state, contacted=listed, after=reached[h],
                    round=h + 1,
                )  # fmt: skip
                rounds.append(one)
                state = reached[h]
            as_drawn, row = several_rounds_of(rounds, (AS_DRAWN, policy), P, 2, 0, Z)
            assert (row.windows, row.people, row.guessed) == (1, 3, 0.0)
            assert row.estimate - as_drawn.estimate == pytest.approx(row.difference)
            mean += chance_of_log * row.estimate
            own += chance_of_log * np.mean([one.after for one in rounds])
            total += chance_of_log * as_drawn.estimate
    truth = np.mean([worth(p[i], np.full((2, 2), chance), start[i], 2) for i in range(3)])
    assert mean == pytest.approx(truth, abs=1e-12)
    assert total == pytest.approx(own, abs=1e-12)


def programme(rng, p, score, k, c, T, missing=0.0):
    """T rounds of a programme: score [n, 2] by state, .85 of the listed are reached."""
    n = len(p)
    state, rounds = (rng.random(n) < 0.5).astype(np.int64), []
    for t in range(T):
        one = drawn(rng, score[np.arange(n), state], k, c=c, round=t + 1)
        contacted = one.listed * (rng.random(n) < 0.85)
        after = (rng.random(n) < p[np.arange(n), contacted, state]).astype(np.int64)
        rounds.append(replace(one, state=state, contacted=contacted, after=after))
        state = after
    if missing:
        unseen = rng.random((T + 1, n)) < missing
        unseen[0] = False
        for t, one in enumerate(rounds):
            rounds[t] = replace(
                one,
                state=np.where(unseen[t], -1, one.state),
                after=np.where(unseen[t + 1], -1, one.after),
            )
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.0, 0.15])
def test_intervals_cover_what_another_policy_brings(wrong):
    """300 programmes of the same 200 people: the right model's 90 % intervals cover .9.

    Within 4 sqrt(.09 / 300) = .07, that is. Where every chance of the model is off by .15, they
    cover at least .83. The mean error is within 4 of its standard errors, and .004 for the others'
    states, which are those of the log.
    """
    rng = np.random.default_rng(5)
    n, k, T = 200, 40, 4
    p = np.sort(rng.uniform(0.05, 0.95, (n, 4)), axis=1)[:, [0, 2, 1, 3]].reshape(n, 2, 2)
    score = 3 * (p[:, 1] - p[:, 0])
    off = np.clip(p + wrong * rng.choice([-1, 1], p.shape), 0.01, 0.99)
    P = np.stack([1 - off, off], axis=-1)

    def brought(c):
        runs = [programme(rng, p, score, k, c, T) for _ in range(400)]
        return np.mean([[one.after for one in rounds] for rounds in runs])

    truth = {"Random": brought(0.0), "c = 2": brought(2.0), "as drawn": brought(0.7)}
    found = {name: [] for name in truth}
    for _ in range(300):
        rounds = programme(rng, p, score, k, 0.7, T)
        for row in several_rounds_of(rounds, policies_for(rounds, (2.0,)), P, T, 0, Z):
            if row.policy in truth:
                assert row.estimable
                half = (row.high - row.low) / 2
                of_difference = (row.difference_high - row.difference_low) / 2
                found[row.policy].append((row.estimate, half, row.difference, of_difference))
    for name, rows in found.items():
        estimate, half, difference, of_difference = np.array(rows).T
        for value, width, true in (
            (estimate, half, truth[name]),
            (difference, of_difference, truth[name] - truth["as drawn"]),
        ):
            if name == "as drawn" and width is of_difference:
                continue  # is 0, exactly
            assert abs(value.mean() - true) < 4 * value.std() / math.sqrt(300) + 0.004, name
            covered = np.mean(abs(value - true) <= width)
            assert covered > 0.83, name
            if not wrong:
                assert covered < 0.97, name


def test_it_is_refused_where_the_lists_cannot_tell():
    rng = np.random.default_rng(6)
    p = rng.uniform(0.2, 0.8, (120, 2, 2))
    P = np.stack([1 - p, p], axis=-1)

    def told(rounds, cooldown=0, cs=(2.0,)):
        rows = several_rounds_of(rounds, policies_for(rounds, cs), P, 4, cooldown, Z)
        return {row.policy: row.why_not for row in rows}

    mild = programme(rng, p, 3 * (p[:, 1] - p[:, 0]), 30, 0.5, 4)
    assert not any(told(mild, cs=(0.6,))[name] for name in ("as drawn", "Random", "c = 0.6"))
    resting = told(mild, cooldown=2)
    assert resting.pop("as drawn") == ""
    assert set(resting.values()) == {"rounds of rest after a contact would have been others'"}
    hard = programme(rng, p, 30 * (p[:, 1] - p[:, 0]), 30, 1.0, 4)
    assert "(almost) never drawn" in told(hard)["Random"]
    few = programme(rng, p[:15], 3 * (p[:15, 1] - p[:15, 0]), 5, 0.5, 4)
    assert "people; 50 are needed" in told(few)["Random"]
    unseen = programme(rng, p, 3 * (p[:, 1] - p[:, 0]), 30, 0.5, 4, missing=0.3)
    assert "are not known" in told(unseen)["Random"]
    seen = programme(rng, p, 3 * (p[:, 1] - p[:, 0]), 30, 0.5, 4, missing=0.03)
    assert told(seen)["Random"] == ""


def test_windows_are_in_a_row_and_do_not_overlap():
    rounds, followed = [1, 3, 4, 5, 6, 7, 8], [1, 3, 4, 5, 7, 8]
    assert windows_of(rounds, followed, 2) == [(3, 4), (7, 8)]
    assert windows_of(rounds, followed, 4) == []


@pytest.mark.slow
def test_of_a_programme(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    small(database, tmp_path, n=200, capacity=60, c=0.3)
    rng = np.random.default_rng(10)
    for _ in range(3):
        plan, _ = make_plan(database, SOFTWARE)
        lines = [f"name-{i},{plan.listed[i]},{rng.integers(2)}" for i in range(200)]
        tell(database, tmp_path, "id,contacted,state\n" + "\n".join(lines) + "\n")
    found = audit(database, horizon=3)
    assert [row.policy for row in found.several] == [row.policy for row in found.off_policy]
    assert {row.people for row in found.several} == {200}
    (lottery,) = (row for row in found.several if row.policy == "Random")
    assert lottery.estimable
    assert [line for line in found.findings if line.startswith("By lottery for 3 rounds in a row")]
    assert "several" in [section.key for section in sections(found)]
    assert len(audit(database, horizon=2).several) == len(found.several)
    plain = audit(database)
    assert plain.several == ()
    assert "several" not in [section.key for section in sections(plain)]
    assert audit(database, round=plain.rounds[0].round, horizon=3).several == ()
    with pytest.raises(InvalidInput, match=r"no 4 planned rounds in a row .* \(of 3 planned"):
        audit(database, horizon=4)
