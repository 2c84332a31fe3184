"""A programme whose lists EvenHanded draws: chances, replay, words, audit; both databases."""

from __future__ import annotations

import re

import numpy as np
import pytest
import shell
import sqlalchemy as sa

import softfair as sf
from softfair.errors import Infeasible, InvalidInput
from softfair.programme import schema, store
from softfair.programme.aims import Evenness, Target
from softfair.programme.audit import audit
from softfair.programme.audit.evidence import read
from softfair.programme.audit.off_policy import AS_DRAWN, MOST_EFFECTIVE
from softfair.programme.checks import check_in
from softfair.programme.eligibility import beliefs
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import load_model
from softfair.programme.outlook import Outlook
from softfair.programme.plans import PlanWish, explain, make_plan, plan_of, verify
from softfair.programme.settings import Settings, initialise
from softfair.programme.snapshot import take_snapshot

NAME = "softfair test"
N, K, HORIZON, C = 40, 4, 12, 8.0
EVEN = Evenness("mu", 15.0)


def fill(database, **changes):
    """40 people, of whom a few gain much from a contact, with a history of 30 rounds."""
    initialise(database, NAME, seed=0, capacity=K, horizon=HORIZON, c=C, **changes)
    people = "".join(f"p{i},{'ns'[i % 2]}\n" for i in range(N))
    import_people(database, f"id,region\n{people}".encode(), NAME)
    rng, rows = np.random.default_rng(2), []
    for i in range(N):
        state, gain = 0, 0.7 if i < 6 else 0.15
        for r in range(1, 31):
            contacted = int(rng.random() < 0.3)
            rows.append(f"p{i},{r},{state},{contacted}\n")
            state = int(rng.random() < 0.2 + gain * contacted + 0.2 * state * (i >= 6))
    import_history(database, f"id,round,state,contacted\n{''.join(rows)}".encode(), NAME)
    return database


@pytest.fixture
def planned(database):
    """A programme drawn by EvenHanded, with its first plan."""
    fill(database, evenness=EVEN)
    return database, make_plan(database, NAME)[0]


def test_the_plan_is_that_of_the_policy(planned):
    """Gains, bonuses and chances follow from the stored model by sf.EvenHanded itself."""
    database, plan = planned
    with database.reading() as connection:
        now, model = take_snapshot(connection), load_model(connection, plan.model)
    cohort = sf.Cohort(model.P, start=beliefs(now, model, plan.round))
    fitted = sf.EvenHanded(mu=EVEN.value, c=C).fit(cohort, K, HORIZON)
    seen = plan.state >= 0
    sums = np.sum(fitted.values.rows(0, 1)[0] * cohort.start, axis=1)
    np.testing.assert_allclose(plan.bonus, fitted.bonus, rtol=1e-9)
    np.testing.assert_allclose(plan.score + plan.bonus, sums, rtol=1e-9)
    chances = sf.sampling.inclusion(C * sums, K, "joint")
    np.testing.assert_allclose(plan.probability, chances, atol=1e-9)
    assert plan.listed.sum() == K
    assert plan.bonus.min() < 0 < plan.bonus.max()
    assert plan.outlook.evenness == EVEN
    assert plan.outlook.mu == (EVEN.value,)
    assert Outlook.from_json(plan.outlook.to_json()) == plan.outlook
    assert seen.any() or (plan.state == -1).all()


def test_it_is_replayed_and_a_bonus_cannot_be_altered(planned):
    database, plan = planned
    assert make_plan(database, NAME, PlanWish(round=plan.round))[1] is False
    assert [verdict.wrong for verdict in verify(database)] == [[]]
    with database.writing() as connection:
        r = schema.plan_row
        connection.execute(sa.update(r).where(r.c.person == 3).values(bonus=0.5))
    [verdict] = verify(database)
    assert "what is stored is not what was committed" in verdict.wrong
    assert any("do not follow from the scores" in wrong for wrong in verdict.wrong)


def test_more_even_than_softfair_and_less_effective(planned):
    database, plan = planned
    plain, _ = make_plan(
        database,
        NAME,
        PlanWish(round=plan.round, replan="compare", evenness=Evenness.parse("SoftFair")),
    )
    assert not plain.bonus.any()
    assert plain.outlook.evenness.is_softfair
    assert plan.probability.min() > plain.probability.min()
    assert plan.outlook.wait < plain.outlook.wait
    assert plan.outlook.benefit < plain.outlook.benefit
    assert [verdict.wrong for verdict in verify(database)] == [[], []]


def test_the_words_tell_the_sense_in_which_it_is_fair(planned):
    """What a sentence says of gain, evenness and rank is recomputed; SoftFair says none of it."""
    database, plan = planned
    said = explain(plan)
    sums = plan.score + plan.bonus
    for i, sentence in enumerate(said):
        gain, adds, bonus, less = re.search(
            r"the draw counts (\S+) for it and evenness (adds|takes off) (\S+); the sum is "
            r"(?:more than for (\d+%|anyone else)|the least of)",
            sentence,
        ).groups()
        assert float(gain) == pytest.approx(plan.score[i], rel=0.06)
        sign = 1 if adds == "adds" else -1
        assert sign * float(bonus) == pytest.approx(plan.bonus[i], rel=0.06)
        below = {None: "0%", "anyone else": "100%"}.get(less, less)
        assert int(below.rstrip("%")) == pytest.approx(
            100 * np.sum(sums < sums[i]) / (N - 1), abs=1
        )
    plain, _ = make_plan(
        database, NAME, PlanWish(round=plan.round, replan="compare", evenness=Evenness())
    )
    assert not any("evenness" in sentence for sentence in explain(plain))


def test_the_audit_does_not_call_it_soft_fairness(planned):
    database, plan = planned
    [row] = audit(database).fairness
    gain, p = plan.score, plan.probability
    less = sum(
        gain[i] < gain[j] and p[i] > p[j] + 1e-12 for i in range(N) for j in range(N) if i != j
    )
    assert row.unfair_pairs == 0
    assert row.for_evenness == pytest.approx(less, abs=2)  # ties of rounding
    assert less > 0
    found = " ".join(audit(database).findings)
    pairs = f"In {row.for_evenness} pairs the person who would gain less had the higher probability"
    assert pairs in found
    assert "Soft fairness holds" not in found
    with database.reading() as connection:
        [one] = read(connection, check_in(connection)).planned
    np.testing.assert_allclose(AS_DRAWN.inclusion(AS_DRAWN.scores(one), K, C), p, atol=1e-9)
    most = MOST_EFFECTIVE.inclusion(MOST_EFFECTIVE.scores(one), K, C)
    assert set(np.flatnonzero(most > 0.99)) <= set(np.argsort(-gain)[:K])
    make_plan(database, NAME, PlanWish(round=plan.round, replan="compare", evenness=Evenness()))
    found = " ".join(audit(database).findings)
    assert "Soft fairness holds" in found
    assert "evenness" not in found


def test_an_entropy_may_be_asked_for(tmp_path):
    """And what cannot be reached is refused, with the nearest that can, and nothing is stored."""
    database = fill(store.Store(str(tmp_path / "programme.db")))
    with pytest.raises(Infeasible, match=r"entropy is 3.9, but shares of 40 arms have at most"):
        make_plan(database, NAME, PlanWish(evenness=Evenness.parse("EvenHanded:entropy=3.9")))
    with pytest.raises(InvalidInput, match="there is no plan yet"):
        plan_of(database)
    plan, _ = make_plan(database, NAME, PlanWish(evenness=Evenness.parse("EvenHanded:entropy=3.2")))
    assert plan.outlook.evenness == Evenness("entropy", 3.2)
    assert plan.outlook.mu[0] > 0
    assert [verdict.wrong for verdict in verify(database)] == [[]]


def test_sites_have_weights_of_their_own(tmp_path):
    database = store.Store(str(tmp_path / "programme.db"))
    fill(database, evenness=EVEN)
    initialise(database, NAME, capacity={"n": 2, "s": 30}, by="region")
    plan, _ = make_plan(database, NAME)
    south = plan.site == 1
    assert plan.outlook.mu == (15.0, 0.0)  # in the south everybody is contacted
    assert plan.bonus[~south].any()
    assert not plan.bonus[south].any()
    np.testing.assert_allclose(plan.probability[south], 1.0)
    assert [verdict.wrong for verdict in verify(database)] == [[]]


def test_policies_are_parsed_or_refused():
    assert Evenness.parse("SoftFair") == Evenness()
    assert Evenness.parse("EvenHanded:100") == Evenness("mu", 100.0)
    assert Evenness.parse("EvenHanded: never = 5% ") == Evenness("never", 0.05)
    for text in ("Oracle", "EvenHanded", "EvenHanded:", "EvenHanded:mu=much", "SoftFair:10"):
        with pytest.raises(InvalidInput, match=f"the policy is {text!r}; say SoftFair, EvenH"):
            Evenness.parse(text)
    with pytest.raises(InvalidInput, match=r"mu is -1.0; give a finite number >= 0"):
        Evenness.parse("EvenHanded:-1")
    with pytest.raises(InvalidInput, match="EvenHanded has no 'gini'"):
        Evenness.parse("EvenHanded:gini=0.1")
    with pytest.raises(InvalidInput, match="say --target none, or --policy SoftFair"):
        Settings(evenness=EVEN, target=Target("wait", 8))
    assert Settings.from_json(Settings(evenness=EVEN).to_json()) == Settings(evenness=EVEN)
    old = Settings().to_json().replace('"evenness": {"goal": "mu", "value": 0.0}, ', "")
    assert "evenness" not in old
    assert Settings.from_json(old) == Settings()


@pytest.mark.slow
def test_on_the_command_line(tmp_path):
    db = tmp_path / "programme.db"

    def said(*words, code=0):
        done = shell.run(*words, "--db", db)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    assert "EvenHanded (mu = 50)" in said("init", "--sample", "--policy", "EvenHanded:50")
    shown = re.sub(r"\s+", " ", said("plan"))
    assert "Drawn by EvenHanded (mu = 50), weight of evenness mu = 50" in shown
    assert "someone who would gain less can have the better chance" in shown
    assert "the same list and probabilities" in said("check")
    assert "bonus" in said("export", "plan", "--out", tmp_path / "list.csv") + (
        tmp_path / "list.csv"
    ).read_text(encoding="utf-8")
    refused = said("plan", "--policy", "EvenHanded:60", code=2)
    assert "planned already, by EvenHanded (mu = 50)" in refused
    refused = said("init", "--target", "wait=8", code=2)
    assert len(refused.strip().splitlines()) == 1
    assert "a target is for SoftFair" in refused
    assert "the policy is 'Oracle'" in said("plan", "--policy", "Oracle", code=2)
