"""Who is in the draw, how a plan is drawn, what its digest covers, and how it is explained."""

import dataclasses
import itertools
import math
import sqlite3

import numpy as np
import pytest
import sqlalchemy as sa

from softfair.errors import InvalidInput
from softfair.programme import schema
from softfair.programme.aims import Target
from softfair.programme.eligibility import Eligibility, Site, Status, beliefs, eligibility_of
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import Model, fit, is_intact, load_model
from softfair.programme.plans import (
    Header,
    PlanWish,
    Rows,
    explain,
    load_plan,
    make_plan,
    plan_of,
    verify,
)
from softfair.programme.plans.drawing import (
    chances,
    drawn_by_luck,
    drawn_by_position,
    seed_by_position,
)
from softfair.programme.plans.preparing import cohorts_of
from softfair.programme.plans.stored import digest_of
from softfair.programme.records import record
from softfair.programme.settings import Settings, initialise
from softfair.programme.snapshot import People, Snapshot
from softfair.programme.store import Store
from softfair.programme.tracks import History
from softfair.programme.words import percent

NAME = "softfair test"
AT = 10  # the round that is planned


def snapshot(facts, seen=(), groups=None, **changes):
    """People with facts (enrolled, departed, opted_out, reserved) and a history, in memory."""
    groups = ["{}"] * len(facts) if groups is None else groups
    table = np.array(facts, dtype=np.int64).reshape(-1, 4)
    people = People([f"p{i}" for i in range(len(facts))], groups, *table.T)
    rows = np.array(sorted(seen), dtype=np.int64).reshape(-1, 4)
    return Snapshot(1, Settings(**changes), 1, people, History.of_rows(*rows.T, len(facts)))


def model_of(P):
    P = np.asarray(P, float)
    n, _, S, _ = P.shape
    return Model(1, "", 0, None, P, P, P, np.ones((n, 2, S), int), np.zeros(n, bool))


@pytest.fixture
def small(tmp_path):
    """Makes a programme of n people with a history of 6 rounds, on SQLite."""
    places = itertools.count()

    def make(n=6, **changes):
        database = Store(str(tmp_path / f"{next(places)}.db"))
        initialise(database, NAME, **{"seed": 0, "capacity": 2, **changes})
        rng = np.random.default_rng(n)
        regions = "".join(f"p{i},{'ns'[i % 2]}\n" for i in range(n))
        import_people(database, f"id,region\n{regions}".encode(), NAME)
        seen = "".join(
            f"p{i},{r},{rng.integers(2)},{rng.integers(2)}\n" for i in range(n) for r in range(1, 7)
        )
        import_history(database, f"id,round,state,contacted\n{seen}".encode(), NAME)
        return database

    return make


# Who is in the draw.


def test_the_first_reason_counts():
    """Everybody with any combination of the six reasons not to be drawn."""
    order = (
        Status.OPTED_OUT,
        Status.LEFT,
        Status.NOT_YET,
        Status.NO_SITE,
        Status.RESERVED,
        Status.COOLING,
    )
    facts, groups, seen, wanted = [], [], [], []
    for i, has in enumerate(itertools.product((False, True), repeat=6)):
        out, left, later, nowhere, reserved, cooling = has
        facts.append(
            [AT + 1 if later else -1, AT if left else -1, int(out), AT if reserved else -1]
        )
        groups.append("{}" if nowhere else '{"region": "n"}')
        seen += [(i, AT - 1, 0, int(cooling))]
        wanted.append(next((reason for reason, is_so in zip(order, has, strict=True) if is_so), 0))
    now = snapshot(facts, seen, groups, capacity={"n": 1}, by="region", cooldown=1)
    assert eligibility_of(now, AT).status.tolist() == wanted


def test_the_rounds_at_which_reasons_begin_and_end():
    facts = [
        [AT, -1, 0, -1],  # enrolled in this round
        [AT + 1, -1, 0, -1],
        [-1, AT, 0, -1],  # no longer there in this round
        [-1, AT + 1, 0, -1],
        [-1, -1, 0, AT],
        [-1, -1, 0, AT - 1],
        [-1, -1, 0, AT + 1],
    ]
    draw, later, gone, held = Status.IN_DRAW, Status.NOT_YET, Status.LEFT, Status.RESERVED
    wanted = [draw, later, gone, draw, held, draw, draw]
    assert eligibility_of(snapshot(facts), AT).status.tolist() == wanted


@pytest.mark.parametrize("cooldown", [0, 1, 3])
def test_the_rounds_that_a_cooldown_lasts(cooldown):
    """Contacted r rounds before: out of the draw for 1 <= r <= cooldown."""
    nothing = [-1, -1, -1, -1]
    seen = [(r, AT - r, 0, 1) for r in range(6)]
    status = eligibility_of(snapshot([nothing] * 6, seen, cooldown=cooldown), AT).status
    wanted = [Status.COOLING if 1 <= r <= cooldown else Status.IN_DRAW for r in range(6)]
    assert status.tolist() == wanted


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (14, 1), (16, 2), (100, 10)])
def test_the_default_capacity_is_one_in_ten(n, k):
    sites = eligibility_of(snapshot([[-1] * 4] * n), AT).sites
    assert sites == [Site("", k)]


def test_sites_are_sorted_and_found_by_name():
    groups = [f'{{"region": "{name}"}}' for name in "cabx"]
    now = snapshot([[-1] * 4] * 4, (), groups, capacity={"c": 3, "a": 1, "b": 2}, by="region")
    found = eligibility_of(now, AT)
    assert found.sites == [Site("a", 1), Site("b", 2), Site("c", 3)]
    assert found.site.tolist() == [2, 0, 1, -1]
    assert [found.in_draw(j).tolist() for j in range(3)] == [[1], [2], [0]]


def test_a_state_seen_long_ago_is_followed_for_so_many_rounds():
    """Only the last 500 moves are made; here a state lasts a thousand rounds on average."""
    P = np.broadcast_to([[0.999, 0.001], [0.001, 0.999]], (1, 2, 2, 2))
    for ago in (400, 500, 501, 600):
        belief = beliefs(snapshot([[-1] * 4], [(0, 0, 0, -1)]), model_of(P), ago)
        moves = min(ago, 500)
        np.testing.assert_allclose(belief[0], np.linalg.matrix_power(P[0, 0], moves)[0], rtol=1e-10)


def test_beliefs_round_by_round():
    """Seen in round 1; contacted in 1 and 3, in 2 it is not known; a later round does not count."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], (2, 2, 3))
    seen = [(0, 1, 2, 1), (0, 2, -1, -1), (0, 3, -1, 1), (0, 5, 0, 0)]
    belief = beliefs(snapshot([[-1] * 4] * 2, seen), model_of(P), 4)
    np.testing.assert_allclose(belief[0], P[0, 1, 2] @ P[0, 0] @ P[0, 1], rtol=1e-12)
    np.testing.assert_allclose(belief[1], belief[0], rtol=1e-12)  # never seen: like those who were
    nobody = beliefs(snapshot([[-1] * 4] * 2), model_of(P), 4)
    np.testing.assert_allclose(nobody, 1 / 3)


@pytest.mark.parametrize(
    ("n", "capacity", "cooldown", "k"),
    [(5, 3, 0, 3), (5, 9, 0, 5), (5, 3, 1, 2), (5, 1, 1, 1), (1, 4, 3, 1), (5, 0, 1, 0)],
)
def test_the_contacts_a_round_that_rests_leave(n, capacity, cooldown, k):
    """If people rest r rounds after a contact, places suffice for a share of 1 / (r + 1)."""
    now = snapshot([[-1] * 4] * n, capacity=capacity, cooldown=cooldown)
    P = np.full((n, 2, 2, 2), 0.5)
    (cohort,) = cohorts_of(now, model_of(P), AT, 7, eligibility_of(now, AT))
    assert (cohort.k, cohort.horizon, cohort.who.tolist()) == (k, 7, list(range(n)))


def test_resting_people_are_planned_for_and_not_drawn():
    status = np.array([Status.IN_DRAW, Status.COOLING, Status.RESERVED, Status.LEFT, 3, 1, 6])
    found = Eligibility([Site("", 1)], np.array([0, 0, 0, 0, 0, 0, -1]), status)
    assert found.waiting(0).tolist() == [0, 1, 2]
    assert found.in_draw(0).tolist() == [0]


# Drawing.


@pytest.mark.parametrize("c", [0.0, 3.0, 200.0])
def test_probabilities_are_those_of_all_sets(small, c):
    """Design `joint`: a set of k has probability proportional to exp(c times the sum of scores)."""
    plan, _ = make_plan(small(c=c), NAME)
    assert (plan.c, len(plan.list)) == (c, 2)
    weight = {
        pair: math.exp(c * (plan.score[list(pair)].sum() - 2 * plan.score.max()))
        for pair in itertools.combinations(range(6), 2)
    }
    total = sum(weight.values())
    wanted = [sum(w for pair, w in weight.items() if i in pair) / total for i in range(6)]
    np.testing.assert_allclose(plan.probability, wanted, rtol=1e-9, atol=1e-12)


def test_infinite_c_lists_those_who_gain_most(small):
    database = small(c=math.inf)
    plan, _ = make_plan(database, NAME)
    best = np.argsort(plan.score)[-2:]
    assert sorted(np.flatnonzero(plan.listed)) == sorted(best)
    assert (plan.probability[best] == 1).all()
    with sqlite3.connect(database.name) as connection:
        assert connection.execute("SELECT c FROM plan").fetchall() == [(-1.0,)]
    with database.reading() as connection:
        assert connection.execute(sa.select(schema.plan.c.c)).scalar_one() == math.inf
        assert load_plan(connection, 1).c == math.inf
    assert verify(database) == [(7, 1, [])]


def test_seeds_by_position_follow_from_the_programme_and_the_round():
    """Seeds by position as in older versions, whose plans must replay."""
    assert seed_by_position(Settings(seed=0), 24) == "6dd801b532eaee83"  # SHA-256 of "0 24"
    seeds = {seed_by_position(Settings(seed=s), r) for s in range(3) for r in range(3)}
    assert len(seeds) == 9


def test_sites_drawn_by_position_do_not_share_their_luck():
    score, seed = np.zeros(40), "0123456789abcdef"
    lists = [drawn_by_position(score, 1.0, 10, seed, site).tolist() for site in (0, 1, 0)]
    assert lists[0] == lists[2] != lists[1]
    assert [len(drawn) for drawn in lists] == [10, 10, 10]
    # What the version before drew with this seed.
    assert lists[0] == [5, 8, 14, 16, 20, 23, 24, 27, 28, 33]


@pytest.mark.parametrize("c", [1.0, math.inf])
def test_capacity_for_nobody_and_for_all(c):
    score, seed, names = np.arange(3.0), "0123456789abcdef", ["a", "b", "c"]
    assert chances(score, c, 0).tolist() == [0, 0, 0]
    assert drawn_by_luck(score, c, 0, seed, names).tolist() == []
    assert drawn_by_position(score, c, 0, seed, 0).tolist() == []
    for k in (3, 4):
        np.testing.assert_allclose(chances(score, c, k), 1, rtol=1e-12)
        assert drawn_by_luck(score, c, k, seed, names).tolist() == [0, 1, 2]
        assert drawn_by_position(score, c, k, seed, 0).tolist() == [0, 1, 2]


def test_the_horizon_rolls_until_the_last_round(small):
    database = small(horizon=10)
    assert make_plan(database, NAME)[0].horizon == 10  # round 7
    assert make_plan(database, NAME, PlanWish(round=12, sure=True))[0].horizon == 10
    initialise(database, NAME, ends=16)
    assert make_plan(database, NAME, PlanWish(round=13, sure=True))[0].horizon == 4
    assert make_plan(database, NAME, PlanWish(round=16, sure=True))[0].horizon == 1
    with pytest.raises(InvalidInput, match="the programme ended with round 16"):
        make_plan(database, NAME, PlanWish(round=17, sure=True))


def test_a_plan_is_the_same_in_memory_and_in_the_database(small):
    """A new plan or model in memory equals the one that a later command reads."""
    database = small(target=Target("benefit", 0.5))
    made, new = fit(database, NAME)
    assert new
    with database.reading() as connection:
        read = load_model(connection, made.id)
    plan, new = make_plan(database, NAME)
    assert new
    with database.reading() as connection:
        loaded = load_plan(connection, plan.id)
    for one, other in ((made, read), (plan, loaded)):
        for field in dataclasses.fields(one):
            left, right = getattr(one, field.name), getattr(other, field.name)
            if field.name == "reserve":
                for name, values in vars(left).items():
                    assert values.dtype == vars(right)[name].dtype, name
                    np.testing.assert_array_equal(values, vars(right)[name])
            elif isinstance(left, np.ndarray):
                assert left.dtype == right.dtype, field.name
                np.testing.assert_array_equal(left, right)
            else:
                assert left == right, field.name


def test_a_round_is_over_when_everybody_on_its_list_has_a_record(small):
    database = small()
    plan, _ = make_plan(database, NAME)
    record(database, f"id\n{plan.list[0]}\n".encode(), NAME)
    assert make_plan(database, NAME)[0].round == plan.round
    record(database, f"id,contacted\n{plan.list[1]},0\n".encode(), NAME)
    assert make_plan(database, NAME)[0].round == plan.round + 1


# The digest.


def altered(value):
    """Something else of the same type."""
    if isinstance(value, np.ndarray):
        changed = value.copy()
        changed[0] += 1
        return changed
    return value + "x" if isinstance(value, str) else value + 1


HEADER = Header(7, 1, "now", "software", 1, 2, 3, 10.0, 26, "0f", "[]", "{}", "why", "luck")
ROWS = Rows(*(np.arange(3) * 1.0 if j in (4, 5, 6) else np.arange(3) for j in range(8)))


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Header)])
def test_the_digest_covers_the_header(field):
    other = dataclasses.replace(HEADER, **{field: altered(getattr(HEADER, field))})
    assert digest_of("", other, ROWS, ["a", "b", "c", "d"]) != digest_of(
        "", HEADER, ROWS, ["a", "b", "c", "d"]
    )


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Rows)])
def test_the_digest_covers_the_rows(field):
    names = ["a", "a", "a"]  # so that another person differs by their number alone
    other = dataclasses.replace(ROWS, **{field: altered(getattr(ROWS, field))})
    assert digest_of("", HEADER, other, names) != digest_of("", HEADER, ROWS, names)


def test_the_digest_covers_names_and_the_plan_before():
    digest = digest_of("", HEADER, ROWS, ["a", "b", "c"])
    assert digest_of("", HEADER, ROWS, ["a", "b", "d"]) != digest
    assert digest_of("before", HEADER, ROWS, ["a", "b", "c"]) != digest


def test_header_and_rows_are_the_columns_of_the_tables():
    header, rows = ({field.name for field in dataclasses.fields(kind)} for kind in (Header, Rows))
    assert header == set(schema.plan.c.keys()) - {"id", "digest"}
    assert rows == set(schema.plan_row.c.keys()) - {"plan"}


# Every column that a digest or a replay covers, with another value that the column can hold.
COVERED = {
    schema.plan: {
        "seed": "'0123456789abcdef'",
        "sites": """'[["", 1]]'""",
        "outlook": "outlook || ' '",
        "c": "c + 1e-9",
    },
    schema.plan_row: {
        "plan": "77",
        "score": "score + 1e-12",
        "bonus": "bonus + 1e-12",
        "probability": "probability + 1e-12",
    },
    schema.person: {},
    schema.model: {"content": "CAST(content || 'x' AS BLOB)"},
    schema.setting: {"content": """replace(content, '"seed": 0', '"seed": 1')"""},
}
UNCOVERED = {  # what no list follows from
    schema.person: {"batch"},
    schema.model: {"created", "software", "batch", "summary"},
    schema.setting: {"created", "software"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column"),
    [
        (table.name, column.name)
        for table in COVERED
        for column in table.c
        if column.name not in UNCOVERED.get(table, ())
    ],
)
def test_no_column_of_a_plan_can_be_altered_unseen(small, table, column):
    database = small()
    initialise(database, NAME, horizon=20)  # a second row of settings
    make_plan(database, NAME)
    make_plan(database, NAME, PlanWish(replan="a second version"))
    assert verify(database) == [(7, 1, []), (7, 2, [])]
    kind = schema.tables.tables[table]
    text = isinstance(kind.c[column].type, sa.Text)
    value = COVERED[kind].get(column, f"{column} || 'x'" if text else f"{column} + 50")
    key = next(iter(kind.primary_key.columns)).name
    with sqlite3.connect(database.name) as connection:  # without foreign keys
        last = f"(SELECT max({key}) FROM {table})"
        changed = connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {key} = {last}")
        assert changed.rowcount >= 1
    assert any(wrong for *_, wrong in verify(database))


def test_a_model_that_was_altered_or_removed(small):
    database = small()
    make_plan(database, NAME)
    with database.reading() as connection:
        assert is_intact(connection, 1)
        assert not is_intact(connection, 2)


# Sentences.


def test_a_sentence_says_how_many_would_gain_less(small):
    """Against a count: of the others in the draw of the same site, those with a lower score."""
    database = small(n=14, capacity={"n": 2, "s": 3}, by="region")
    plan, _ = make_plan(database, NAME)
    for i, sentence in enumerate(explain(plan)):
        others = [j for j in range(14) if plan.site[j] == plan.site[i] and j != i]
        share = sum(plan.score[j] < plan.score[i] for j in others) / len(others)
        assert sentence.startswith("Drawn," if plan.listed[i] else "Not drawn this time,")
        assert f"with a chance of {percent(plan.probability[i])}: " in sentence
        assert "good rounds over the 26 left" in sentence
        if share == 1:
            assert " more than for anyone else in the draw" in sentence
        elif share:
            assert f" more than for {share:.0%} of those in the draw" in sentence
        else:
            assert " the least of those in the draw" in sentence
        assert ("not seen" in sentence) == (plan.state[i] < 0)


@pytest.mark.parametrize(
    ("low", "mean", "high", "said"),
    [
        (0.1, 0.2, 0.4, "a contact now is worth 0.2 good rounds over the 26 left (90% interval"),
        (-0.1, 0.2, 0.4, "helps them cannot be told from this history yet (-0.1 to 0.4 good"),
        (-0.4, -0.2, -0.1, "a contact now is worth -0.2 good rounds over the 26 left (90% inter"),
    ],
)
def test_a_gain_is_stated_only_if_it_is_known(small, low, mean, high, said):
    plan, _ = make_plan(small(), NAME)
    worth = np.tile(np.array([[mean], [low], [high]]), 6)
    for sentence in explain(dataclasses.replace(plan, worth=worth)):
        assert said in sentence
    before = explain(dataclasses.replace(plan, worth=None))  # of a version without intervals
    counted = f"the draw counts {plan.score[0]:.3g} for it"
    assert f"{counted} in good rounds over the 26 left, " in before[0]
    assert f"; {counted}, " in explain(plan)[0]


def test_the_worth_of_contacts_is_stored_with_the_plan(small):
    database = small()
    made, _ = make_plan(database, NAME)
    stored = plan_of(database)
    np.testing.assert_array_equal(stored.worth, made.worth)
    assert stored.level == 0.9
    assert stored.outlook.gain == made.outlook.gain
    assert made.outlook.gain.low <= made.outlook.gain.value <= made.outlook.gain.high
    assert made.outlook.reached is None  # nobody has been listed before
    assert (made.worth[1] <= made.worth[2]).all()


def test_not_reaching_everybody_is_part_of_the_outlook(small):
    database = small(n=10, capacity=4)
    plan, _ = make_plan(database, NAME)
    rows = "".join(f"{name},{int(j > 0)}\n" for j, name in enumerate(plan.list))
    record(database, ("id,contacted\n" + rows).encode(), NAME, round=plan.round)
    following, _ = make_plan(database, NAME)
    assert following.outlook.reached == (3 + 0.5) / (4 + 1)


# Models.


def test_a_transition_under_either_action_is_a_history_of_their_own():
    P = np.full((3, 2, 2, 2), 0.5)
    seen = np.zeros((3, 2, 2), int)
    seen[0, 0, 1] = seen[1, 1, 0] = 1
    model = dataclasses.replace(model_of(P), seen=seen)
    assert model.unseen.tolist() == [False, False, True]


def test_how_many_people_make_a_group(small):
    """Two regions: told apart with 5 people each, not with one fewer."""
    assert fit(small(n=10), NAME)[0].summary.columns == ["region"]
    assert fit(small(n=8), NAME)[0].summary.columns == []


def test_what_a_model_was_learnt_from(small):
    database = small()
    summary = fit(database, NAME)[0].summary
    assert (summary.people, summary.transitions, summary.rounds) == (6, 6 * 5, [1, 6])
    assert fit(database, NAME)[1] is False
    assert fit(database, "another software")[1] is True
    import_history(database, b"id,round,state\np0,7,1\n", NAME)
    after, new = fit(database, "another software")
    assert new
    assert (after.summary.transitions, after.summary.rounds) == (31, [1, 7])
