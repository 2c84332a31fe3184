"""The Cohort takes valid input, refuses other input in one line, and never changes afterwards."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softfair.cohort import Cohort
from softfair.errors import InvalidInput

FAIR = np.full((3, 2, 2, 2), 0.5)  # [n, 2, S, S], three arms that toss a coin
TWO = np.array([[[0.1, 0.6], [0.5, 0.9]], [[0.2, 0.3], [0.4, 0.8]]])  # p [n, 2, 2]


def put(values, place, value):
    """A copy with one entry changed."""
    changed = np.array(values, dtype=float)
    changed[place] = value
    return changed


def random_P(rng, n, S):  # [n, 2, S, S]
    return rng.dirichlet(np.ones(S), size=(n, 2, S))


def same(one, other):
    """Equal in everything a caller can see."""
    for name in ("P", "reward", "ids", "groups", "start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# Closed form


def test_two_state_is_the_shorthand_of_P():
    expected = [
        [[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]],
        [[[0.8, 0.2], [0.7, 0.3]], [[0.6, 0.4], [0.2, 0.8]]],
    ]
    cohort = Cohort.two_state(TWO)
    np.testing.assert_allclose(cohort.P, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(cohort.p, TWO)
    same(cohort, Cohort(cohort.P))


def test_two_state_passes_the_rest_on():
    rest = {"reward": [1, 3], "ids": ["a", "b"], "groups": ["north", "south"], "start": [0, 1]}
    same(Cohort.two_state(TWO, **rest), Cohort(Cohort.two_state(TWO).P, **rest))


def test_defaults():
    cohort = Cohort(np.full((2, 2, 3, 3), 1 / 3))
    assert (cohort.n, cohort.S, len(cohort)) == (2, 3, 2)
    np.testing.assert_array_equal(cohort.reward, [[0, 0.5, 1], [0, 0.5, 1]])
    np.testing.assert_array_equal(cohort.start, np.full((2, 3), 1 / 3))
    np.testing.assert_array_equal(cohort.ids, [0, 1])
    assert cohort.groups is None


def test_repr():
    assert repr(Cohort(FAIR)) == "Cohort(n=3, S=2)"
    assert repr(Cohort(FAIR, groups=["a", "b", "a"])) == "Cohort(n=3, S=2, groups=2)"
    assert repr(Cohort(FAIR, groups=[None, "b", "a"])) == "Cohort(n=3, S=2, groups=3)"


@pytest.mark.parametrize(
    ("reward", "rows", "full"),
    [
        (None, [[[0, 1]]], [[0, 1]] * 3),
        ([2, 5], [[[2, 5]]], [[2, 5]] * 3),
        ([[0, 1], [0, 2], [0, 3]], [[[0, 1]], [[0, 2]], [[0, 3]]], [[0, 1], [0, 2], [0, 3]]),
        ([[[0, 4], [1, 5]]], [[[0, 1], [4, 5]]], [[0, 1]] * 3),
        ([[[0, 0], [1, 1]]], [[[0, 1]]], [[0, 1]] * 3),
        (
            [[[0, 0], [1, 1]]] * 2 + [[[0, 2], [1, 3]]],
            [[[0, 1]] * 2] * 2 + [[[0, 1], [2, 3]]],
            [[0, 1]] * 3,
        ),
    ],
)
def test_reward_forms(reward, rows, full):
    cohort = Cohort(FAIR, reward=reward)
    np.testing.assert_array_equal(cohort.reward_rows, rows)
    np.testing.assert_array_equal(cohort.reward, full)


@pytest.mark.parametrize(
    ("start", "full"),
    [
        (None, [[0.5, 0.5]] * 3),
        ([0, 1, 1], [[1, 0], [0, 1], [0, 1]]),
        ([[0.25, 0.75], [1, 0], [0, 1]], [[0.25, 0.75], [1, 0], [0, 1]]),
        ([[0.25, 0.75]] * 3, [[0.25, 0.75]] * 3),
    ],
)
def test_start_forms(start, full):
    cohort = Cohort(FAIR, start=start)
    np.testing.assert_array_equal(cohort.start, full)
    np.testing.assert_array_equal(np.broadcast_to(cohort.start_rows, (3, 2)), full)


def test_rows_that_agree_are_stored_once():
    assert Cohort(FAIR).start_rows.shape == (1, 2)
    assert Cohort(FAIR, start=[[0.25, 0.75]] * 3).start_rows.shape == (1, 2)
    assert Cohort(FAIR).reward_rows.shape == (1, 1, 2)
    assert Cohort(FAIR).start.strides[0] == 0  # the public [n, S] is a view of that row


def test_immediate_gain():
    # Delta = p[1, s] - p[0, s], times what the good state is worth more than the bad one.
    np.testing.assert_allclose(Cohort.two_state(TWO).immediate_gain, [[0.4, 0.3], [0.2, 0.5]])
    rewarded = Cohort.two_state(TWO, reward=[[1, 3], [0, -1]])
    np.testing.assert_allclose(rewarded.immediate_gain, [[0.8, 0.6], [-0.2, -0.5]])


def test_p_needs_two_states():
    with pytest.raises(InvalidInput) as error:
        _ = Cohort(np.full((1, 2, 3, 3), 1 / 3)).p
    assert (
        str(error.value)
        == "this needs arms with two states, the cohort has 3; choose a policy for S states"
    )


@pytest.mark.parametrize("pick", [[2, 0], np.array([2, 0]), (2, 0), [-1, -3]])
def test_subset_by_index(pick):
    P = random_P(np.random.default_rng(0), 3, 2)
    whole = Cohort(
        P, reward=[[0, 1], [0, 2], [0, 3]], ids=["a", "b", "c"], groups=[7, 8, 9], start=[0, 1, 0]
    )
    part = Cohort(P[[2, 0]], reward=[[0, 3], [0, 1]], ids=["c", "a"], groups=[9, 7], start=[0, 0])
    same(whole.subset(pick), part)


def test_subset_by_mask():
    P = random_P(np.random.default_rng(0), 3, 4)
    same(Cohort(P).subset([True, False, True]), Cohort(P[[0, 2]], ids=[0, 2]))


# What is refused, and in which words

SHAPE = "expected (n, 2, S, S) with n >= 1 and S >= 2: P[i, action, state, next state]"
BETWEEN = "give probabilities between 0 and 1"
REFUSED = {
    "P a number": (lambda: Cohort(0.5), f"P has shape (), {SHAPE}"),
    "P flat": (lambda: Cohort(FAIR[0]), f"P has shape (2, 2, 2), {SHAPE}"),
    "P empty": (lambda: Cohort(FAIR[:0]), f"P has shape (0, 2, 2, 2), {SHAPE}"),
    "P three actions": (
        lambda: Cohort(np.full((1, 3, 2, 2), 0.5)),
        f"P has shape (1, 3, 2, 2), {SHAPE}",
    ),
    "P not square": (
        lambda: Cohort(np.full((1, 2, 2, 3), 1 / 3)),
        f"P has shape (1, 2, 2, 3), {SHAPE}",
    ),
    "P one state": (lambda: Cohort(np.ones((1, 2, 1, 1))), f"P has shape (1, 2, 1, 1), {SHAPE}"),
    "P NaN": (
        lambda: Cohort(put(FAIR, (1, 0, 1, 0), np.nan)),
        "P[1, 0, 1, 0] is nan (1 of 24 entries are wrong); "
        "fill the missing transition probabilities or leave those arms out",
    ),
    "P negative": (
        lambda: Cohort(put(FAIR, (2, 1, 0), [-0.25, 1.25])),
        f"P[2, 1, 0, 0] is -0.25 (2 of 24 entries are wrong); {BETWEEN}",
    ),
    "P infinite": (
        lambda: Cohort(put(FAIR, (0, 0, 0, 1), np.inf)),
        f"P[0, 0, 0, 1] is inf (1 of 24 entries are wrong); {BETWEEN}",
    ),
    "P row sums": (
        lambda: Cohort(put(FAIR, (slice(1, None), 1, 0, 0), 0.4)),
        "P[1, 1, 0] sums to 0.9, not 1 (2 of 12 rows are wrong); "
        "if this is rounding, pass P / P.sum(axis=-1, keepdims=True, dtype=float)",
    ),
    "p flat": (
        lambda: Cohort.two_state(TWO[0]),
        "p has shape (2, 2), expected (n, 2, 2) with n >= 1: "
        "p[i, action, state] = chance of state 1 next",
    ),
    "p empty": (
        lambda: Cohort.two_state(TWO[:0]),
        "p has shape (0, 2, 2), expected (n, 2, 2) with n >= 1: "
        "p[i, action, state] = chance of state 1 next",
    ),
    "p too large": (
        lambda: Cohort.two_state(put(TWO, (1, 1, 0), 1.5)),
        f"p[1, 1, 0] is 1.5 (1 of 8 entries are wrong); {BETWEEN}",
    ),
    "p NaN": (
        lambda: Cohort.two_state(put(TWO, (0, 0), np.nan)),
        f"p[0, 0, 0] is nan (2 of 8 entries are wrong); {BETWEEN}",
    ),
    "reward shape": (
        lambda: Cohort(FAIR, reward=[0, 1, 2]),
        "reward has shape (3,), expected (2,) or (3, 2): the worth of each state reached; "
        "or (1, 2, 2) or (3, 2, 2): R(s, a)",
    ),
    "reward turned": (
        lambda: Cohort(FAIR, reward=np.zeros((2, 3))),
        "reward has shape (2, 3), expected (2,) or (3, 2): the worth of each state reached; "
        "or (1, 2, 2) or (3, 2, 2): R(s, a)",
    ),
    "reward NaN": (
        lambda: Cohort(FAIR, reward=[0, np.nan]),
        "reward[1] is nan (1 of 2 entries are wrong); give finite numbers",
    ),
    "reward infinite": (
        lambda: Cohort(FAIR, reward=[[0, 1], [0, 1], [np.inf, 1]]),
        "reward[2, 0] is inf (1 of 6 entries are wrong); give finite numbers",
    ),
    "start shape": (
        lambda: Cohort(FAIR, start=[0, 1]),
        "start has shape (2,), expected (3,) states or (3, 2) distributions",
    ),
    "start no such state": (
        lambda: Cohort(FAIR, start=[0, 2, -1]),
        "start[1] is 2.0 (2 of 3 entries are wrong); give states between 0 and 1",
    ),
    "start half a state": (
        lambda: Cohort(FAIR, start=[0, 0.5, 1]),
        "start[1] is 0.5 (1 of 3 entries are wrong); give states between 0 and 1",
    ),
    "start state NaN": (
        lambda: Cohort(FAIR, start=[0, np.nan, 1]),
        "start[1] is nan (1 of 3 entries are wrong); give states between 0 and 1",
    ),
    "start negative": (
        lambda: Cohort(FAIR, start=[[0.5, 0.5], [-1, 2], [0.5, 0.5]]),
        f"start[1, 0] is -1.0 (2 of 6 entries are wrong); {BETWEEN}",
    ),
    "start NaN": (
        lambda: Cohort(FAIR, start=[[0.5, 0.5], [0.5, 0.5], [np.nan, 1]]),
        f"start[2, 0] is nan (1 of 6 entries are wrong); {BETWEEN}",
    ),
    "start sum": (
        lambda: Cohort(FAIR, start=[[0.5, 0.5], [0.5, 0.25], [0.5, 0.5]]),
        "the sum of start[1] is 0.75 (1 of 3 entries are wrong); each row must sum to 1",
    ),
    "ids length": (
        lambda: Cohort(FAIR, ids=["a", "b"]),
        "ids has shape (2,), the cohort has 3 arms; give one label an arm",
    ),
    "ids repeated": (
        lambda: Cohort(FAIR, ids=["b", "a", "b"]),
        "ids[2] repeats ids[0] (1 of 3 ids are duplicates); give each arm an id of its own",
    ),
    "ids all the same": (
        lambda: Cohort(FAIR, ids=[5, 5, 5]),
        "ids[1] repeats ids[0] (2 of 3 ids are duplicates); give each arm an id of its own",
    ),
    "groups length": (
        lambda: Cohort(FAIR, groups=["a", "b", "a", "b"]),
        "groups has shape (4,), the cohort has 3 arms; give one label an arm",
    ),
    "groups a word": (
        lambda: Cohort(FAIR, groups="abc"),
        "groups has shape (), the cohort has 3 arms; give one label an arm",
    ),
    "subset empty": (
        lambda: Cohort(FAIR).subset([False, False, False]),
        f"P has shape (0, 2, 2, 2), {SHAPE}",
    ),
    "subset repeated": (
        lambda: Cohort(FAIR).subset([1, 1]),
        "ids[1] repeats ids[0] (1 of 2 ids are duplicates); give each arm an id of its own",
    ),
}


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(build, message):
    with pytest.raises(InvalidInput) as error:
        build()
    assert str(error.value) == message


# An input that cannot be used raises InvalidInput in one line, never an error from NumPy.
ODD = {
    "P words": (lambda: Cohort([["a"]]), "P is not an array of numbers"),
    "P ragged": (lambda: Cohort([[1], [1, 2]]), "P is not an array of numbers"),
    "P an object": (lambda: Cohort(object()), "P is not an array of numbers"),
    "p words": (lambda: Cohort.two_state("half"), "p is not an array of numbers"),
    "reward words": (
        lambda: Cohort(FAIR, reward=["bad", "good"]),
        "reward is not an array of numbers",
    ),
    "start words": (
        lambda: Cohort(FAIR, start=["bad", "good", "bad"]),
        "start is not an array of numbers",
    ),
    "ids ragged": (lambda: Cohort(FAIR, ids=[[1], [1, 2], 3]), "ids"),
    "ids NaN": (lambda: Cohort(FAIR, ids=[1.0, np.nan, np.nan]), "ids[1]"),
    "ids None": (lambda: Cohort(FAIR, ids=[None, 1, 2]), "ids[0]"),
    "groups ragged": (lambda: Cohort(FAIR, groups=[[1], [1, 2], 3]), "groups"),
    "subset of none": (lambda: Cohort(FAIR).subset([]), "arms"),
    "subset out of range": (lambda: Cohort(FAIR).subset([0, 5]), "arms[1] is 5"),
    "subset fractional": (lambda: Cohort(FAIR).subset([0.0, 1.0]), "arms"),
    "subset short mask": (lambda: Cohort(FAIR).subset([True, False]), "arms"),
    "subset a number": (lambda: Cohort(FAIR).subset(1), "arms"),
}


@pytest.mark.parametrize(("build", "says"), ODD.values(), ids=ODD.keys())
def test_odd_input_is_refused_in_one_line(build, says):
    with pytest.raises(InvalidInput) as error:
        build()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("off", "taken"), [(0.9e-8, True), (1.1e-8, False), (-0.9e-8, True), (-1.1e-8, False)]
)
def test_row_sums_may_be_off_by_rounding_only(off, taken):
    P = put(FAIR, (1, 1, 1, 0), 0.5 + off)
    start = [[0.5, 0.5 + off], [0.5, 0.5], [0.5, 0.5]]
    if taken:
        np.testing.assert_array_equal(Cohort(P, start=start).P, P)  # taken as it is, not repaired
    else:
        with pytest.raises(InvalidInput, match="sums to"):
            Cohort(P)
        with pytest.raises(InvalidInput, match="the sum of start"):
            Cohort(FAIR, start=start)


def test_the_remedy_for_rounded_rows_works():
    """Rows in single precision miss 1 by up to 1e-7.

    Divided by their sums in single precision they still would.
    """
    P = np.random.default_rng(0).dirichlet(np.ones(5), size=(20, 2, 5)).astype(np.float32)
    with pytest.raises(InvalidInput) as error:
        Cohort(P)
    advice = str(error.value).split("if this is rounding, pass ")[1]
    np.testing.assert_allclose(Cohort(eval(advice, {"P": P})).P, P, atol=1e-6)


# Frozen, read-only, apart from the input


@pytest.mark.parametrize(
    "name", ["P", "reward", "ids", "groups", "start", "reward_rows", "start_rows"]
)
def test_frozen_and_read_only(name):
    cohort = Cohort(FAIR, reward=[0, 2], ids=[4, 5, 6], groups=[1, 1, 2], start=[0, 1, 1])
    array = getattr(cohort, name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(cohort, name, array)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(cohort, name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = array[0]


def test_input_is_unchanged_and_not_shared():
    arrays = {
        "P": FAIR.copy(),
        "reward": np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]),
        "ids": np.array([3, 4, 5]),
        "groups": np.array([0, 0, 1]),
        "start": np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),
    }
    before = copy.deepcopy(arrays)
    cohort = Cohort(**arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])
        assert array.flags.writeable
        array[...] = 0
        np.testing.assert_array_equal(getattr(cohort, name), before[name])


@pytest.mark.parametrize("name", ["P", "reward", "start"])
def test_a_read_only_window_on_a_writeable_array_is_not_shared(name):
    owner = {"P": FAIR.copy(), "reward": np.array([0.0, 1.0]), "start": np.eye(2)[[0, 1, 1]]}[name]
    window = owner.view()
    window.flags.writeable = False
    cohort = Cohort(**{"P": FAIR, name: window})
    before = getattr(cohort, name).copy()
    owner[...] = 9
    np.testing.assert_array_equal(getattr(cohort, name), before)


def test_read_only_P_is_not_copied():
    # Ten million arms are 640 MB: one copy is enough.
    P = FAIR.copy()
    P.flags.writeable = False
    assert np.shares_memory(Cohort(P).P, P)


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda P: P[::-1].copy()[::-1],
        lambda P: P.astype(np.float32),
        np.ndarray.tolist,
    ],
)
def test_any_layout_becomes_contiguous_float64(form):
    eighths = np.arange(1, 9).reshape(2, 2, 2) / 8  # exact in float32
    P = np.stack([1 - eighths, eighths], axis=-1)  # [n, 2, S, S], no two rows alike
    cohort = Cohort(form(P))
    assert cohort.P.flags.c_contiguous
    assert cohort.P.dtype == np.float64
    np.testing.assert_array_equal(cohort.P, P)


@pytest.mark.parametrize(
    "again", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy, copy.copy]
)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reward": [0, 2], "start": [1, 1, 1]},
        {"reward": [[[0, 0.1], [1, 0.3]]]},
        {"reward": np.random.default_rng(1).normal(size=(3, 2, 2))},
        {
            "reward": [[0, 1], [0, 2], [0, 3]],
            "ids": ["a", "b", "c"],
            "groups": [1, 1, 2],
            "start": [0, 1, 0],
        },
    ],
)
def test_round_trip(again, fields):
    cohort = Cohort(random_P(np.random.default_rng(0), 3, 2), **fields)
    back = again(cohort)
    same(cohort, back)
    assert back.reward_rows.shape == cohort.reward_rows.shape
    assert not any(array.flags.writeable for array in (back.P, back.reward, back.ids, back.start))


def test_round_trip_of_a_single_arm():
    cohort = Cohort(FAIR[:1], reward=[[1, 2]], start=[[0.25, 0.75]])
    same(cohort, pickle.loads(pickle.dumps(cohort)))


# Property

SIZES = {"n": st.integers(1, 5), "S": st.integers(2, 4), "seed": st.integers(0, 2**32 - 1)}


@settings(deadline=None)
@given(**SIZES)
def test_valid_P_is_taken_as_it_is(n, S, seed):
    P = random_P(np.random.default_rng(seed), n, S)
    cohort = Cohort(P)
    np.testing.assert_array_equal(cohort.P, P)
    assert (cohort.n, cohort.S) == (n, S)


@settings(deadline=None)
@given(
    **SIZES,
    where=st.integers(0, 10**6),
    corrupt=st.one_of(
        st.sampled_from([np.nan, np.inf, -np.inf, -1e-300, np.nextafter(1, 2)]),
        st.floats(allow_nan=False).filter(lambda value: not 0 <= value <= 1),
        st.floats(1e-7, 1),  # a shift of the entry: one row no longer sums to one
    ),
)
def test_any_single_corrupted_entry_is_refused(n, S, seed, where, corrupt):
    P = random_P(np.random.default_rng(seed), n, S)
    place = np.unravel_index(where % P.size, P.shape)
    P[place] = P[place] + corrupt if 0 <= corrupt <= 1 else corrupt
    row = ", ".join(str(int(j)) for j in place[:3])
    with pytest.raises(InvalidInput) as error:
        Cohort(P)
    assert str(error.value).startswith((f"P[{row}, {int(place[3])}] is ", f"P[{row}] sums to "))
    assert "(1 of " in str(error.value)


@settings(deadline=None)
@given(**SIZES, data=st.data())
def test_subset_of_subset(n, S, seed, data):
    rng = np.random.default_rng(seed)
    cohort = Cohort(
        random_P(rng, n, S), reward=rng.normal(size=(n, S)), start=rng.integers(S, size=n)
    )
    first = data.draw(st.permutations(range(n)))
    second = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    same(cohort.subset(first).subset(second), cohort.subset([first[j] for j in second]))
