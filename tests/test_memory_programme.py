"""Programmes whose chances go by more than the state now: fitted, planned, replayed, audited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shell
from test_contexts import chance_of_good, second_order
from worlds import cpap_people, recorded

from softfair.errors import InvalidInput
from softfair.estimate import Contexts, Memory
from softfair.programme import imports, plans
from softfair.programme.aims import Evenness
from softfair.programme.audit import audit, sections
from softfair.programme.audit.findings import memory as memory_findings
from softfair.programme.audit.memory import AFTER_CONTACT, STATE_BEFORE
from softfair.programme.audit.planned import Planned
from softfair.programme.audit.predicted import predicted
from softfair.programme.biography import biography
from softfair.programme.checks import check
from softfair.programme.eligibility import Site, beliefs
from softfair.programme.journal import settings_history
from softfair.programme.models import Model, fit, latest_model
from softfair.programme.plans.counterfactual import list_without
from softfair.programme.promises import Promise
from softfair.programme.records import record
from softfair.programme.settings import NOT_TRIED, Settings, Tried, initialise
from softfair.programme.snapshot import People, Snapshot, load_history
from softfair.programme.standing import standing
from softfair.programme.store import Store
from softfair.programme.tables import model_table
from softfair.programme.tracks import History

NAME = "softfair test"
N = 150


def founded(url, columns, n=N, **changes):
    """A programme with these columns of a history; the contacts of the last round are open."""
    database = Store(url)
    initialise(database, NAME, **{"seed": 0, "capacity": 15, **changes})
    people = "\n".join(["id,region", *(f"p{i:03d},{'ns'[i % 2]}" for i in range(n)), ""])
    imports.import_people(database, people.encode(), NAME)
    told, last = ("", "0", "1"), columns[1].max()
    rows = [
        f"p{i:03d},{r + 1},{told[s + 1]},{told[a + 1] if r < last else ''}"
        for i, r, s, a in zip(*columns, strict=True)
    ]
    header = "id,round,state,contacted"
    imports.import_history(database, "\n".join([header, *rows, ""]).encode(), NAME)
    return database


# By hand, and by enumeration


def model_of(P, memory):
    n, _, C, _ = P.shape
    nothing = np.zeros((n, 2, C), int)
    return Model(1, "", 0, None, P, P, P, nothing, np.zeros(n, bool), memory=Memory(memory))


@pytest.mark.parametrize("memory", ["2", "contact"])
def test_beliefs_against_all_paths(memory):
    """Of round 5: seen in rounds 4 and 5, 5 alone, 1 and 2, 2 alone, never."""
    rng = np.random.default_rng(1)
    n, S = 5, 2
    contexts = Contexts(S, Memory(memory))
    P = rng.dirichlet(np.ones(S), (n, 2, contexts.C))
    state = np.full((n, 5), -1)
    state[0, 3:], state[1, 4], state[2, :2], state[3, 1] = (0, 1), 1, (1, 0), 0
    contacted = rng.integers(-1, 2, (n, 5))
    rows = np.repeat(np.arange(n), 5), np.tile(np.arange(1, 6), n), state.ravel(), contacted.ravel()
    people = People([f"p{i}" for i in range(n)], ["{}"] * n, *np.full((4, n), -1))
    now = Snapshot(1, Settings(), 1, people, History.of_rows(*rows, n))
    found = beliefs(now, model_of(P, memory), 5)
    did = np.maximum(contacted, 0)  # what is not known counts as none
    for i in range(4):
        last = np.flatnonzero(state[i] >= 0)[-1]
        law = np.zeros((contexts.B, S))
        if memory == "contact":
            law[did[i, last - 1], state[i, last]] = 1
        elif state[i, last - 1] >= 0:
            law[state[i, last - 1], state[i, last]] = 1
        else:
            long = np.linalg.matrix_power(contexts.chain(P)[i, 0], 500)[0].reshape(2, 2)
            law[:, state[i, last]] = long[:, state[i, last]] / long[:, state[i, last]].sum()
        for r in range(last, 4):
            then = np.zeros_like(law)
            for b, s, s2 in np.ndindex(contexts.B, S, S):
                a = did[i, r]
                then[a if memory == "contact" else s, s2] += law[b, s] * P[i, a, 2 * b + s, s2]
            law = then
        np.testing.assert_allclose(found[i], law.ravel(), atol=1e-12)
    np.testing.assert_allclose(found[4], found[:4].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("memory", ["none", "2"])
def test_of_people_nobody_ever_saw_every_context_is_as_likely(memory):
    contexts = Contexts(2, Memory(memory))
    people = People(["a", "b"], ["{}"] * 2, *np.full((4, 2), -1))
    rows = np.zeros((4, 0), np.int64)
    now = Snapshot(1, Settings(), 1, people, History.of_rows(*rows, 2))
    P = np.full((2, 2, contexts.C, 2), 0.5)
    assert (beliefs(now, model_of(P, memory), 5) == 1 / contexts.C).all()


def test_predictions_of_a_model_with_memory():
    """Persons in good: 0 was in bad before, 1 in good, 2 where nobody saw."""
    rng = np.random.default_rng(2)
    model = model_of(rng.dirichlet(np.ones(2), (3, 2, 4)), "2")
    zero, one = np.zeros(3, int), np.ones(3, int)
    planned = Planned(
        *(7, 1, 1, 1.0, [Site("", 1)], np.arange(3), zero, zero),
        *(np.zeros(3), np.zeros(3), np.full(3, 1 / 3), zero, one, np.array([0, 1, 1]), one),
        state_before=np.array([0, 1, -1]),
    )
    found = predicted(planned, model, 2)
    law = Contexts(2, Memory.STATE).weights(model.P)[2, 1]
    assert found.law[0].tolist() == model.P[0, 0, 1].tolist()
    assert found.law[1].tolist() == model.P[1, 1, 3].tolist()
    np.testing.assert_allclose(found.law[2], law[0] * model.P[2, 1, 1] + law[1] * model.P[2, 1, 3])
    assert found.state.tolist() == [1, 1, 1]


# Whole programmes


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """A programme in which contacts help after two bad weeks alone; three rounds were planned."""
    path = tmp_path_factory.mktemp("memory") / "softfair.db"
    columns = second_order(2, n=N)
    database = founded(str(path), columns)
    fit(database, NAME, "2")
    own = np.random.default_rng([77, 2]).uniform(-0.1, 0.1, N)
    rng = np.random.default_rng(4)
    before, now = columns[2].reshape(N, -1).T[-2:]
    for at in (20, 21, 22):
        plan, _ = plans.make_plan(database, NAME)
        contact = np.zeros(N, int)
        contact[plan.person[plan.listed == 1]] = 1
        good = (rng.random(N) < chance_of_good(own, before, now, contact)).astype(int)
        before, now = now, good
        record_round(database, at, contact, now)
    return database


def record_round(database, at, contact, then):
    rows = [f"p{i:03d},{contact[i]},{then[i]}" for i in range(N)]
    record(database, "\n".join(["id,contacted,state", *rows, ""]).encode(), NAME, round=at)


@pytest.mark.slow
def test_a_plan_goes_by_the_state_before_too(longer):
    plan = plans.plan_of(longer)
    assert plan.memory == "2"
    model, names = latest_model(longer)
    assert model.P.shape == (N, 2, 4, 2)
    with longer.reading() as connection:
        history = load_history(connection)
    before, now = history.of(plan.round - 1, N)[0], history.of(plan.round, N)[0]
    twice, once = (before == 0) & (now == 0), (before == 1) & (now == 0)
    assert plan.score[twice].min() > plan.score[once].max()
    assert "the state before the last counts too" in plans.explain(plan)[0]
    assert "p00_before1_low" in model_table(model, names).kinds
    assert str(standing(longer).settings.memory).startswith(
        "plans go by the state before the last too, which helps to foretell: in "
    )
    assert [one.state for one in biography(longer, "p003").estimates[:4]] == [
        "bad after bad", "good after bad", "bad after good", "good after good"
    ]  # fmt: skip


def test_plans_with_memory_are_replayed(longer):
    found = check(longer)
    assert not found.wrong
    with longer.reading() as connection:
        plan = plans.plan_of(longer)
        again = list_without(connection, plan.id, plan.batch)
    assert again is not None
    assert again.tolist() == plan.person[plan.listed == 1].tolist()


def test_the_audit_of_plans_with_memory(longer):
    found = audit(longer, horizon=2)
    assert found.goes_by == "2"
    assert not found.wrong
    assert not any(row.flagged for row in (*found.calibration, *found.cells))
    assert len(found.several) > 0
    assert not any(row.flagged for row in found.memory)  # left alone, they are of the first order
    (table,) = (one for one in sections(found) if one.key == "memory")
    assert table.lead.startswith("The last plan takes the state now and the one before for all")
    row = replace(found.memory[0], after=STATE_BEFORE, flagged=True)
    (said,) = memory_findings(replace(found, memory=(row,)))
    assert said.endswith("The last plan goes by that, too.")
    (said,) = memory_findings(replace(found, memory=(replace(row, after=AFTER_CONTACT),)))
    assert said.endswith("Whether plans gain by that: softfair fit --memory contact.")
    assert "plans go by the state before" in str(settings_history(longer)[-1].changes["memory"][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"promise": Promise(wait=12)},
        {"promise": Promise.parse("share region=n>=40%")},
        {"evenness": Evenness.parse("EvenHanded:100")},
    ],
    ids=str,
)
def test_whatever_else_is_asked_of_a_plan(longer, tmp_path, how):
    """Each with contexts: drawn, stored, replayed."""
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(longer.name).read_bytes())
    database = Store(str(copy))
    plan, _ = plans.make_plan(database, NAME, plans.PlanWish(**how))
    assert (plan.memory, int(plan.listed.sum())) == ("2", 15)
    assert plan.outlook.gain.low > 0
    assert not check(database).wrong


def test_sites_with_memory(tmp_path, longer):
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(longer.name).read_bytes())
    database = Store(str(copy))
    initialise(database, NAME, by="region", capacity={"n": 10, "s": 5})
    plan, _ = plans.make_plan(database, NAME)
    assert plan.outlook.sites_cost is not None
    assert 0 <= plan.outlook.sites_cost < 0.5
    assert not check(database).wrong


def test_a_memory_that_tells_nothing_is_asked_for_and_not_used(tmp_path):
    columns = recorded(cpap_people(60, True, 1), 10, 1)
    database = founded(str(tmp_path / "a.db"), columns, n=60)
    plain, _ = plans.make_plan(database, NAME)
    model, new = fit(database, NAME, "2")
    assert (model.id, new) == (plain.model, False)
    assert (model.memory, model.P.shape) == ("none", (60, 2, 2, 2))
    assert str(standing(database).settings.memory).startswith(
        "plans go by the state alone; that the state before the last helps to foretell cannot be"
    )
    again, _ = plans.make_plan(database, NAME, plans.PlanWish(replan="memory"))
    np.testing.assert_array_equal(again.score, plain.score)
    fit(database, NAME, "none")
    assert standing(database).settings.memory == NOT_TRIED


def test_settings_survive_and_earlier_ones_have_no_memory():
    tried = Tried("2", True, (0.01, 0.005, 0.015), 500, (16, 20))
    assert Settings.from_json(Settings(memory=tried).to_json()).memory == tried
    assert "memory" not in json.loads(Settings().to_json())
    assert Settings.from_json(Settings().to_json()).memory == NOT_TRIED
    assert str(tried) == (
        "plans go by the state before the last too, which helps to foretell: in 500 moves of "
        "rounds 16 to 20, held out, it changes the chance given to what came by +1 % on average "
        "(95 % interval +0.5 % to +1.5 %)"
    )


@pytest.mark.slow
def test_the_command(tmp_path):
    columns = second_order(2, n=N)
    database = founded(str(tmp_path / "softfair.db"), columns)
    for wrong in ("3", "0", "state"):
        done = shell.run("fit", "--memory", wrong, folder=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"memory is '{wrong}'; give 2 (the state before" in done.stderr
    done = shell.run("fit", "--memory", "2", "--json", folder=tmp_path)
    told = json.loads(done.stdout)["memory"]
    assert (told["asked"], told["used"], told["rounds"]) == ("2", True, [16, 20])
    assert told["gain"][1] > 0
    done = shell.run("fit", folder=tmp_path)
    assert "bad after bad: a contact changes the chance of good next by +0." in done.stdout
    assert "plans go by the state before the last too, which helps to foretell" in done.stdout
    assert "Memory: plans go by the state" in shell.run("status", folder=tmp_path).stdout
    done = shell.run("init", "--monotone", folder=tmp_path)
    assert done.returncode == 2
    assert "say softfair init --free, or softfair fit --memory none" in done.stderr
    with pytest.raises(InvalidInput, match="memory is '3'"):
        fit(database, NAME, "3")


def test_a_short_history_is_refused_and_nothing_is_set(tmp_path):
    columns = recorded(cpap_people(20, True, 1), 3, 1)
    database = founded(str(tmp_path / "softfair.db"), columns, n=20)
    done = shell.run("fit", "--memory", "contact", folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "too short for the memory contact" in done.stderr
    assert standing(database).settings.memory == NOT_TRIED
    assert fit(database, NAME)[1]
