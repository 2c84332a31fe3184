"""Data frames in and out: every library alike, nothing lost, and arrays of any kind taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softfair as sf
from softfair.errors import InvalidInput
from softfair.files import read_cohort, write_cohort
from softfair.frames import make_frame

BACKENDS = ("pandas", "polars", "pyarrow")


def cohort_of(n=5, S=2, seed=0, kind="full"):
    """A cohort with rewards, starts, ids and groups that are written here."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(n, 2, S))
    if kind == "plain":
        return sf.Cohort(P)
    return sf.Cohort(
        P,
        reward=rng.normal(size=(n, S)),
        ids=[f"id {i}, é" for i in range(n)],
        groups=rng.choice(["x", "NA", "y"], n),
        start=rng.dirichlet(np.ones(S), n) if kind == "full" else rng.integers(0, S, n),
    )


def same(one, other):
    for name in ("P", "reward", "start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.ids.tolist() == other.ids.tolist()
    assert (one.groups is None) == (other.groups is None)
    if one.groups is not None:
        assert one.groups.tolist() == other.groups.tolist()
    assert {name: values.tolist() for name, values in one.extra.items()} == {
        name: values.tolist() for name, values in other.extra.items()
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["plain", "full", "states"])
@pytest.mark.parametrize("S", [2, 3])
def test_a_frame_holds_the_whole_cohort(backend, kind, S):
    cohort = cohort_of(S=S, kind=kind)
    frame = cohort.to_frame(backend)
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    assert isinstance(frame, kinds[backend])
    same(sf.Cohort.from_frame(frame), cohort)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 4), st.integers(0, 10**6))
def test_any_cohort_comes_back(n, S, seed):
    cohort = cohort_of(n, S, seed)
    same(sf.Cohort.from_frame(cohort.to_frame("polars")), cohort)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".pq"])
@pytest.mark.parametrize("kind", ["full", "states"])
@pytest.mark.parametrize("S", [2, 3])
def test_a_file_holds_the_whole_cohort(tmp_path, suffix, kind, S):
    cohort = cohort_of(n=40, S=S, kind=kind)
    write_cohort(cohort, tmp_path / f"people{suffix}")
    same(read_cohort(tmp_path / f"people{suffix}"), cohort)


def test_what_a_file_would_lose_is_refused(tmp_path):
    cohort = sf.Cohort.from_frame(cohort_of().to_frame().assign(village="north"))
    with pytest.raises(InvalidInput, match=r"1 extra columns \(village \.\.\.\)"):
        write_cohort(cohort, tmp_path / "people.csv")
    for ids in ([(1, 2), (3, 4)], ["", "b"], [1.5, 2.5]):
        listed = np.empty(2, object)
        listed[:] = ids
        with pytest.raises(InvalidInput, match="ids are neither text nor whole numbers"):
            write_cohort(sf.Cohort(np.full((2, 2, 2, 2), 0.5), ids=listed), tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


def test_extra_columns_travel():
    frame = cohort_of().to_frame().assign(village=list("abcde"), age=range(5))
    cohort = sf.Cohort.from_frame(frame)
    assert cohort.extra["village"].tolist() == list("abcde")
    assert cohort.subset([3, 1]).extra["age"].tolist() == [3, 1]
    again = sf.Cohort.from_frame(cohort.to_frame("polars"))
    assert again.extra["age"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError):
        cohort.extra["new"] = 1
    with pytest.raises(ValueError, match="read-only"):
        cohort.extra["age"][0] = 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"p01": [0.1, 1.5, 0.2, 0.3, 0.4]}, r"frame: row 1, column p01 is '1.5' \(1 of 20"),
        ({"Group": "x"}, "'Group' that is not known and looks like one that is"),
        ({"p_00": 0.5}, "'p_00' that is not known"),
        ({"ids": 1}, "'ids' that is not known"),
        ({"reward_0": 1.0}, "column reward_1 is missing; the arms have 2 states"),
        ({"reward_0": 1.0, "reward_1": 1.0, "reward_2": 1.0}, "reward_2 is not known"),
        ({"reward_0": np.inf, "reward_1": 1.0}, "column reward_0 is 'inf'"),
        ({"start": 2}, "row 0, column start is '2'"),
        ({"start": 1, "start_0": 0.5, "start_1": 0.5}, "give one of them"),
        ({"group": [None, "a", "a", "a", "a"]}, "row 0, column group is empty"),
    ],
)
def test_wrong_frames_are_refused_with_their_place(change, said):
    good = sf.datasets.synthetic(n=5, seed=0).to_frame()
    for backend in ("pandas", "polars"):
        frame = good.assign(**change)
        frame = frame if backend == "pandas" else pl.from_pandas(frame)
        with pytest.raises(InvalidInput, match=said) as caught:
            sf.Cohort.from_frame(frame)
        assert "\n" not in str(caught.value)


def test_what_is_no_frame_is_refused():
    for wrong in (5, [1, 2], "people.csv"):
        with pytest.raises(InvalidInput, match="give a data frame of pandas, Polars or Arrow"):
            sf.Cohort.from_frame(wrong)
    with pytest.raises(InvalidInput, match=r"collect\(\) first"):
        sf.Cohort.from_frame(pl.LazyFrame({"p00": [0.5]}))
    with pytest.raises(InvalidInput, match="has no rows"):
        sf.Cohort.from_frame(pd.DataFrame({"p00": []}))
    with pytest.raises(InvalidInput, match="backend is 'excel'"):
        make_frame({"a": np.zeros(1)}, "excel")
    same(
        sf.Cohort.from_frame({name: [0.5] for name in ("p00", "p01", "p10", "p11")}),
        sf.Cohort.two_state(np.full((1, 2, 2), 0.5)),
    )


@pytest.mark.parametrize("form", [list, np.array, pd.Series, pl.Series, pa.array, tuple])
def test_arrays_of_any_kind_are_taken(form):
    """Series, lists and Arrow arrays wherever arrays are, with the same answers."""
    n = 6
    plain = sf.datasets.synthetic(n=n, seed=0)
    cohort = sf.Cohort(
        plain.P, ids=form([*range(n)]), groups=form([*"aabbcc"]), start=form([0, 1] * 3),
        reward=form([0.0, 2.0]),
    )  # fmt: skip
    assert cohort.groups.tolist() == [*"aabbcc"]
    assert cohort.start[:, 1].tolist() == [0, 1] * 3
    assert cohort.subset(form([True, False] * 3)).n == 3
    assert cohort.subset(form([4, 2])).ids.tolist() == [4, 2]
    fitted = sf.SoftFair(c=5).fit(cohort, k=2, horizon=3)
    states = [0, 1, 0, 1, 0, 1]
    np.testing.assert_array_equal(fitted.scores(0, form(states)), fitted.scores(0, states))
    fitted.remember(None, 0, form(states), form([0, 1]))
    weights = [0.1 * i for i in range(n)]
    np.testing.assert_array_equal(
        sf.sampling.inclusion(form(weights), 2), sf.sampling.inclusion(weights, 2)
    )
    rng = np.random.default_rng(0)
    assert len(sf.sampling.draw(form(weights), 2, rng)) == 2
    assert sf.metrics.action_entropy(form([4] * 10)) == pytest.approx(np.log(10))
    assert sf.metrics.gini(form([1, 1, 1])) == 0


# ---- results ----


def test_trajectories_are_those_of_the_runs_and_their_luck_replays_them():
    """Replayed by hand from the luck: inverse laws of the start and of each row of P."""
    cohort = cohort_of(n=7, S=3)
    for policy in (sf.SoftFair(c=5.0), sf.RoundRobin()):
        fitted = policy.fit(cohort, k=2, horizon=5)
        plain = sf.simulate(fitted, runs=3, seed=4)
        result = sf.simulate(fitted, runs=3, seed=4, trajectories=True)
        np.testing.assert_array_equal(plain.rewards, result.rewards)
        np.testing.assert_array_equal(plain.waits, result.waits)
        assert plain.trajectories is None
        paths = result.trajectories
        luck = paths.luck()
        assert ((luck > 0) & (luck < 1)).all()
        for run in range(3):
            for i in range(7):
                state = int(np.searchsorted(np.cumsum(cohort.start[i]), luck[run, 0, i], "right"))
                assert paths.states[run, 0, i] == state
                for t in range(5):
                    row = cohort.P[i, paths.actions[run, t, i], state]
                    state = int(np.searchsorted(np.cumsum(row), luck[run, t + 1, i], "right"))
                    assert paths.states[run, t + 1, i] == state
        np.testing.assert_array_equal(paths.actions.sum(axis=1), result.counts)
        reached = cohort.reward[np.arange(7), paths.states[:, 1:]].sum(axis=2)
        np.testing.assert_allclose(reached, result.rewards, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_frames_add_up(backend):
    import narwhals as nw

    cohort = sf.datasets.cpap(n=6, seed=0)
    result = sf.simulate(sf.Random().fit(cohort, k=2, horizon=4), runs=3, trajectories=True)
    arms = nw.from_native(result.to_frame(backend=backend))
    assert arms.columns == ["policy", "run", "id", "group", "helps", "longest_wait"]
    assert arms["helps"].sum() == 3 * 4 * 2
    decisions = nw.from_native(result.to_frame("decision", backend))
    assert decisions["reward"].sum() == pytest.approx(result.rewards.sum())
    steps = nw.from_native(result.trajectories.to_frame(backend))
    assert len(steps) == 3 * 4 * 6
    assert steps["action"].sum() == 24
    assert steps["reward"].sum() == pytest.approx(result.rewards.sum())
    with pytest.raises(InvalidInput, match="by is 'week'"):
        result.to_frame("week")


# ---- how things look ----


def test_html_and_plots():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    cohort = sf.Cohort.from_frame(cohort_of().to_frame().assign(**{"<b>": "<i>"}))
    fitted = sf.SoftFair(c=5).fit(cohort, k=1, horizon=3)
    result = sf.simulate(fitted, runs=2)
    verdict = sf.theory.verdicts(quick=True, claims=["entropy-kn"])[0]
    for thing, said in (
        (cohort, "gain by the next step"),
        (fitted, "SoftFair(c=5)"),
        (result, "arms never helped"),
        (verdict, "fails"),
    ):
        markup = thing._repr_html_()
        assert markup.startswith("<table>")
        assert said in markup
        assert "<b>" not in markup
        assert "\n" not in repr(thing)
    given = pyplot.subplots()[1]
    for plot in (cohort.plot, fitted.plot, result.plot):
        assert isinstance(plot(), Axes)
        assert plot(ax=given) is given
    (line,) = fitted.plot().lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, fitted.cohort.n + 1))
    chances = fitted.inclusion(0, fitted.cohort.start.argmax(axis=1))
    np.testing.assert_array_equal(line.get_ydata(), sorted(chances, reverse=True))
    pyplot.close("all")


# ---- type checkers see the names ----

SCRIPT = """
import numpy as np
import softfair as sf

cohort: sf.Cohort = sf.datasets.synthetic(n=10, seed=0)
fitted = sf.SoftFair(c=10).fit(cohort, k=2, horizon=5)
arms = fitted.draw(0, np.zeros(10, int), np.random.default_rng(0))
table = sf.compare([sf.Random(), sf.Oracle()], cohort, k=2, horizon=5)
print(arms.sum(), table["benefit"].max(), fitted.upper_bound, sf.simulate(fitted).totals.mean())
fitted.save("model")
back: sf.Fitted = sf.load("model")
frame = sf.Cohort.from_frame(cohort.to_frame())


class FittedMine(sf.Fitted):
    def scores(self, t: int, states: object, memory: object = None) -> "sf.metrics.Floats":
        return np.zeros(self.cohort.n)


class Mine(sf.Policy):
    def fit(
        self, cohort: sf.Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> sf.Fitted:
        return FittedMine(self, cohort, k, horizon, gamma)


sf.testing.check_policy(Mine())
"""


def test_the_names_are_spelt_out():
    import softfair

    assert sorted(softfair.__all__) == sorted(softfair._HOME)


@pytest.mark.slow
def test_a_users_script_passes_a_strict_type_check(tmp_path):
    from mypy import api

    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text("import softfair as sf\nsf.SoftFair(c='much')\nsf.Nobody\n")
    # With what `make lint` has kept of the libraries, which takes most of the time.
    cache = Path(__file__).parents[1] / ".mypy_cache"
    words = ["--strict", "--config-file=", f"--cache-dir={cache}"]
    said, complaints, code = api.run([*words, *map(str, sorted(tmp_path.glob("*.py")))])
    assert code == 1, complaints
    faults = [line for line in said.splitlines() if "error:" in line]
    assert len(faults) == 2
    assert all("wrong.py" in line for line in faults), said
