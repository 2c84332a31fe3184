"""Cohorts in Parquet files: the same answers as in memory, never all arms at once, bad files."""

import gc
import json
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from shell import run

import softfair as sf
from softfair import shards
from softfair.allocation import states_now
from softfair.errors import InvalidInput
from softfair.files import write_cohort
from softfair.shards import Arms, FileShard, ShardedCohort, open_cohort, shards_of
from softfair.solvers import budget

N, K, T = 5000, 100, 6
STATES = (np.arange(N) % 3 == 0).astype(int)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch, tmp_path):
    monkeypatch.setattr("softfair.shards.arrays.SHARD", 1024)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def columns(n, seed=0, **more):
    """p as columns of a file, from a law of its own: four uniforms."""
    p = np.random.default_rng(seed).random((n, 4))
    return {name: p[:, j] for j, name in enumerate(("p00", "p01", "p10", "p11"))} | more


def write(folder, table, cuts=(), rows=None):
    """A table as Parquet files that end at the cuts, with row groups of so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    n = len(table["p00"])
    for i, (low, high) in enumerate(zip((0, *cuts), (*cuts, n), strict=True)):
        part = pa.table({name: pa.array(values[low:high]) for name, values in table.items()})
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=rows)
    return folder


def in_memory(table, **more):
    p = np.stack([table[name] for name in ("p00", "p01", "p10", "p11")], axis=1)
    return sf.Cohort.two_state(p.reshape(-1, 2, 2), **more)


def fit_and_act(policy, cohort, on=None):
    """The answers of a fitted policy, and the policy."""
    fitted = policy.fit(cohort, k=K, horizon=T, on=on)
    said = (
        fitted._scorer.theta,
        fitted.scores(2, STATES),
        fitted.inclusion(2, STATES),
        fitted.draw(2, STATES, np.random.default_rng(5)),
    )
    return said, fitted


def answers(policy, cohort, on=None):
    """Everything that a fitted policy says, for comparison bit by bit."""
    said, fitted = fit_and_act(policy, cohort, on)
    return (*said, np.float64(fitted.upper_bound))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_arm_is_where_it_was(tmp_path):
    people = columns(
        N,
        id=np.array([f"person {i}" for i in range(N)]),
        group=np.array(["north", "south"])[np.arange(N) % 2],
        start=STATES,
    )
    cohort = open_cohort(write(tmp_path / "people", people, cuts=(1, 700, 3000), rows=333))
    assert repr(cohort) == "ShardedCohort(n=5000, S=2, shards=5)"
    assert len(cohort) == cohort.n == N
    expected = in_memory(people, ids=people["id"], groups=people["group"], start=STATES)
    for name in ("P", "p", "ids", "groups", "start", "reward", "start_rows", "immediate_gain"):
        np.testing.assert_array_equal(getattr(cohort, name), getattr(expected, name))
    np.testing.assert_array_equal(states_now(cohort), STATES)
    np.testing.assert_array_equal(cohort.subset([4, 4000]).p, expected.subset([4, 4000]).p)


@pytest.mark.parametrize("design", ["joint", "successive"])
@pytest.mark.parametrize("c", [0.0, 7.0, np.inf])
def test_the_same_from_files_as_from_memory(tmp_path, design, c):
    people = columns(N)
    policy = sf.SoftFair(c=c, design=design)
    expected = answers(policy, in_memory(people))
    assert len(expected[3]) == K
    assert expected[2].sum() == pytest.approx(K, abs=1e-9)
    for cuts, rows in (((), None), ((10, 2048, 2049), 500)):
        folder = write(tmp_path / f"{len(cuts)}", people, cuts, rows)
        assert_same(answers(policy, open_cohort(folder)), expected)


def test_the_mean_field_reads_shards_too(tmp_path):
    people = columns(N)
    policy = sf.SoftFair(c=3, solver="meanfield")
    cohort = open_cohort(write(tmp_path, people, cuts=(77,)))
    assert_same(answers(policy, cohort), answers(policy, in_memory(people)))


@pytest.mark.slow
def test_three_states_and_eight_columns(tmp_path):
    rng = np.random.default_rng(1)
    for S in (2, 3):
        P = rng.dirichlet(np.ones(S), size=(N, 2, S))
        names = [f"p_{a}_{s}_{t}" for a in (0, 1) for s in range(S) for t in range(S)]
        table = pa.table(dict(zip(names, P.reshape(N, -1).T, strict=True)))
        pq.write_table(table, tmp_path / f"{S}.parquet")
        cohort = open_cohort(tmp_path / f"{S}.parquet")
        np.testing.assert_array_equal(cohort.P, P)
        policy = sf.SoftFair(c=5)
        assert_same(answers(policy, cohort), answers(policy, sf.Cohort(P)))


def test_float32_columns_are_computed_with_in_double_precision(tmp_path):
    """Stored in half the space, prices agree to 1e-6."""
    people = columns(N)
    exact = sf.SoftFair(c=10).fit(in_memory(people), k=K, horizon=T)
    small = {name: values.astype(np.float32) for name, values in people.items()}
    rounded = sf.SoftFair(c=10).fit(open_cohort(write(tmp_path, small)), k=K, horizon=T)
    price, other = exact._scorer.theta / 10, rounded._scorer.theta / 10
    assert np.abs(price - other).max() < 1e-6
    assert np.abs(price - other).max() > 0


def test_never_all_arms_at_once(tmp_path, monkeypatch):
    """Without room to keep shards, at most three are in memory: at work, being read, going."""
    monkeypatch.setattr("softfair.cluster.work.KEEP", 0)
    cohort = open_cohort(write(tmp_path, columns(N)))
    alive = most = 0
    load = FileShard.load

    def gone():
        nonlocal alive
        alive -= 1

    def counted(shard):
        nonlocal alive, most
        arms = load(shard)
        alive += 1
        most = max(most, alive)
        weakref.finalize(arms, gone)
        return arms

    monkeypatch.setattr(FileShard, "load", counted)
    fit_and_act(sf.SoftFair(c=5), cohort)
    gc.collect()
    assert len(cohort.shards) == 5
    assert 1 <= most <= 3
    assert alive == 0


def test_what_fits_is_read_once(tmp_path, monkeypatch):
    cohort = open_cohort(write(tmp_path, columns(N)))
    read = []
    load = FileShard.load
    monkeypatch.setattr(FileShard, "load", lambda shard: read.append(shard.first) or load(shard))
    fit_and_act(sf.SoftFair(c=5), cohort)
    assert sorted(read) == [0, 1024, 2048, 3072, 4096]


def test_a_folder_names_the_group(tmp_path):
    for place, seed in (("group=north", 0), ("group=south", 1)):
        write(tmp_path / place, columns(30, seed))
    cohort = open_cohort(tmp_path)
    assert cohort.groups.tolist() == ["north"] * 30 + ["south"] * 30


# An interrupted fit.


def interrupted_after(monkeypatch, passes):
    """Interrupt after this number of passes over all arms; yields the passes that were made."""
    made, sweep = [], budget.sweep

    def counted(of, *args):
        if of.n == N:
            if len(made) == passes:
                raise KeyboardInterrupt
            made.append(1)
        return sweep(of, *args)

    monkeypatch.setattr(budget, "sweep", counted)
    return made


@pytest.mark.parametrize("damage", [None, "half a fi", '{"a": "b"}', "[1, 2]"])
def test_an_interrupted_fit_goes_on(tmp_path, monkeypatch, damage):
    cohort = open_cohort(write(tmp_path / "people", columns(N)))
    policy = sf.SoftFair(c=20)
    with monkeypatch.context() as patched:
        passes = interrupted_after(patched, 10_000)
        expected = policy.fit(cohort, k=K, horizon=T)
    whole = len(passes)
    assert whole > 3
    cache = tmp_path / "cache" / "softfair"
    assert list(cache.iterdir()) == []  # nothing is left of a fit that has ended
    with monkeypatch.context() as patched:
        interrupted_after(patched, 3)
        with pytest.raises(KeyboardInterrupt):
            policy.fit(cohort, k=K, horizon=T)
    (kept,) = cache.iterdir()
    assert len(json.loads(kept.read_text())) == 3
    if damage is not None:
        kept.write_text(damage)
    with monkeypatch.context() as patched:
        passes = interrupted_after(patched, 10_000)
        found = policy.fit(cohort, k=K, horizon=T)
    assert len(passes) == (whole - 3 if damage is None else whole)
    np.testing.assert_array_equal(found._scorer.theta, expected._scorer.theta)
    assert found.info == expected.info
    assert list(cache.iterdir()) == []


def test_another_setting_does_not_go_on_there(tmp_path, monkeypatch):
    cohort = open_cohort(write(tmp_path / "people", columns(N)))
    with monkeypatch.context() as patched:
        interrupted_after(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            sf.SoftFair(c=20).fit(cohort, k=K, horizon=T)
    made = interrupted_after(monkeypatch, 10_000)
    found = sf.SoftFair(c=20).fit(cohort, k=K + 1, horizon=T)
    expected = sf.SoftFair(c=20).fit(in_memory(columns(N)), k=K + 1, horizon=T)
    np.testing.assert_array_equal(found._scorer.theta, expected._scorer.theta)
    assert len(made) > 2


def test_a_cache_that_cannot_be_written_does_not_stop_a_fit(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cohort = open_cohort(write(tmp_path / "people", columns(N)))
    assert sf.SoftFair(c=5).fit(cohort, k=K, horizon=T).info.converged


# Bad input: one line that names the file, before any pass where it can be known.


def refusal(work):
    with pytest.raises(InvalidInput) as caught:
        work()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_shard_with_other_columns(tmp_path):
    write(tmp_path, columns(30), cuts=(10, 20))
    odd = columns(10, start=np.zeros(10))
    pq.write_table(pa.table(odd), tmp_path / "part-1.parquet")
    said = refusal(lambda: open_cohort(tmp_path))
    assert "part-1.parquet has a column 'start', unlike" in said
    del odd["start"], odd["p10"]
    pq.write_table(pa.table(odd), tmp_path / "part-1.parquet")
    assert "part-1.parquet has no column 'p10', unlike" in refusal(lambda: open_cohort(tmp_path))
    text = columns(10) | {"p10": ["0.5"] * 10}
    pq.write_table(pa.table(text), tmp_path / "part-1.parquet")
    said = refusal(lambda: open_cohort(tmp_path))
    assert "part-1.parquet: column p10 holds string; give numbers" in said
    pq.write_table(pa.table({"q": [1.0]}), tmp_path / "part-0.parquet")
    assert "part-0.parquet has no column p00" in refusal(lambda: open_cohort(tmp_path))


def test_a_broken_file(tmp_path):
    write(tmp_path, columns(3000), cuts=(1000, 2000))
    broken = tmp_path / "part-1.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])  # the footer is lost: known at once
    said = refusal(lambda: open_cohort(tmp_path))
    assert "part-1.parquet is broken or no Parquet file" in said
    broken.write_bytes(b"\xff" * 400 + whole[400:])  # the footer is there: known when it is read
    said = refusal(lambda: sf.SoftFair().fit(open_cohort(tmp_path), k=5, horizon=2))
    assert "part-1.parquet" in said


def test_an_entry_that_is_no_probability(tmp_path):
    people = columns(N, start=STATES.astype(float))
    people["p01"][3210] = 1.3
    cohort = open_cohort(write(tmp_path / "a", people, cuts=(2000,)))
    said = refusal(lambda: sf.SoftFair().fit(cohort, k=K, horizon=T))
    assert "part-1.parquet: row 1211, column p01 is 1.3" in said
    people["p01"][3210] = np.nan
    cohort = open_cohort(write(tmp_path / "b", people))
    assert "row 3211, column p01 is nan" in refusal(lambda: cohort.loaded)
    people["p01"][3210], people["start"][17] = 0.5, 2
    cohort = open_cohort(write(tmp_path / "c", people))
    assert "row 18, column start is 2 (1 of" in refusal(lambda: states_now(cohort))


def test_rows_that_do_not_sum_to_one(tmp_path):
    P = np.full((4, 2, 3, 3), 1 / 3)
    P[2, 1, 0] = [0.5, 0.5, 0.5]
    names = [f"p_{a}_{s}_{t}" for a in (0, 1) for s in range(3) for t in range(3)]
    table = pa.table(dict(zip(names, P.reshape(4, -1).T, strict=True)))
    pq.write_table(table, tmp_path / "x.parquet")
    said = refusal(lambda: open_cohort(tmp_path).loaded)
    assert "row 3, columns p_1_0_0 to p_1_0_2 sum to 1.5, not 1" in said


@pytest.mark.parametrize("kind", [int, str])
def test_shards_that_overlap_in_ids(tmp_path, kind):
    ids = np.array([kind(i) for i in range(100)])
    ids[70] = ids[20]
    folder = write(tmp_path, columns(100, id=ids), cuts=(50,))
    said = refusal(lambda: open_cohort(folder))
    assert "part-1.parquet: row 21 has the id of" in said
    assert "part-0.parquet: row 21 (1 ids stand in two rows or more)" in said


def test_ids_that_are_missing(tmp_path):
    folder = write(tmp_path, columns(3, id=np.array(["a", None, "b"], object)))
    assert "column id is empty in 1 rows" in refusal(lambda: open_cohort(folder))


def test_nothing_to_open(tmp_path):
    assert "there is no Parquet file in the folder" in refusal(lambda: open_cohort(tmp_path))
    assert "there is no file" in refusal(lambda: open_cohort(tmp_path / "x.parquet"))
    (tmp_path / "x.csv").write_text("p00\n")
    assert "x.csv is broken or no Parquet file" in refusal(lambda: open_cohort(tmp_path / "x.csv"))
    write(tmp_path, columns(0))
    assert "has no rows" in refusal(lambda: open_cohort(tmp_path))


def test_a_file_that_changes_meanwhile(tmp_path):
    cohort = open_cohort(write(tmp_path, columns(N)))
    write(tmp_path, columns(N, seed=9), rows=100)
    said = refusal(lambda: sf.SoftFair().fit(cohort, k=K, horizon=T))
    assert "part-0.parquet was changed since the cohort was opened" in said


def test_a_cohort_that_would_not_fit_in_memory(tmp_path, monkeypatch):
    cohort = open_cohort(write(tmp_path, columns(N)))
    monkeypatch.setattr("softfair.shards.cohort.available_memory", lambda: 400_000)
    for work in (
        lambda: cohort.P,
        lambda: sf.Oracle().fit(cohort, k=K, horizon=T),
        lambda: sf.compare([sf.Random()], cohort, k=K, horizon=T),
    ):
        assert "5,000 arms, which need about 0.0 GiB in memory at once" in refusal(work)
    assert sf.SoftFair(c=5).fit(cohort, k=K, horizon=T).info.converged  # needs no such thing
    # A system that does not tell.
    monkeypatch.setattr("softfair.shards.cohort.available_memory", lambda: None)
    assert cohort.P.shape == (N, 2, 2, 2)


def test_memory_that_is_free():
    free = shards.available_memory()
    assert free is None or free > 2**20


def test_shards_of_a_cohort_in_memory_are_views():
    cohort = sf.datasets.synthetic(3000, seed=0)
    parts = shards_of(cohort)
    assert [(part.first, part.count) for part in parts] == [(0, 1024), (1024, 1024), (2048, 952)]
    for part in parts:
        assert isinstance(part.data, Arms)
        assert np.shares_memory(part.data.P, cohort.arms)


def test_two_state_cohorts_take_half_the_memory():
    p = np.random.default_rng(0).random((10, 2, 2))
    cohort = sf.Cohort.two_state(p)
    assert cohort.arms.nbytes == p.nbytes
    np.testing.assert_array_equal(cohort.P, np.stack([1 - p, p], axis=-1))
    assert cohort.P is cohort.P
    assert not cohort.P.flags.writeable


# The command.


def test_allocate_says_the_same_of_a_folder_and_of_a_csv_file(tmp_path, monkeypatch):
    monkeypatch.undo()  # the command is another process, with shards of the usual size
    n, k = 3000, 40
    people = columns(n, id=np.array([f"p{i}" for i in range(n)]), start=STATES[:n])
    write(tmp_path / "people", people, cuts=(1000,))
    pyarrow.csv.write_csv(pa.table(people), tmp_path / "people.csv")
    words = ("--k", k, "--c", 5, "--seed", 3, "--horizon", 4)
    for cohort, out in (("people", "list.parquet"), ("people.csv", "list.csv")):
        done = run("allocate", cohort, *words, "--out", out, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{out}: 40 of 3,000 people are listed, by SoftFair(c=5), seed 3\n"
    listed = pq.read_table(tmp_path / "list.parquet")
    assert listed.equals(pyarrow.csv.read_csv(tmp_path / "list.csv").cast(listed.schema))
    assert listed.column_names == ["id", "state", "score", "probability", "listed"]
    assert listed["id"].to_pylist() == people["id"].tolist()
    chosen = np.flatnonzero(listed["listed"].to_numpy())
    fitted = sf.SoftFair(c=5).fit(in_memory(people, start=STATES[:n]), k=k, horizon=4)
    np.testing.assert_array_equal(chosen, fitted.draw(0, STATES[:n], np.random.default_rng(3)))
    np.testing.assert_array_equal(listed["score"].to_numpy(), fitted.scores(0, STATES[:n]))
    np.testing.assert_allclose(
        listed["probability"].to_numpy(), fitted.inclusion(0, STATES[:n]), rtol=1e-12
    )


def test_allocate_refuses_in_one_line_and_writes_nothing(tmp_path):
    write(tmp_path / "people", columns(30))
    done = run("allocate", "people", "--k", 3, "--out", "list.parquet", folder=tmp_path)
    assert done.returncode == 2
    assert "the state now of 30 of 30 people is not known" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["people"]


@pytest.mark.parametrize("command", ["frontier", "simulate"])
def test_other_commands_read_folders(tmp_path, command):
    write(tmp_path / "people", columns(30), cuts=(7,))
    write_cohort(in_memory(columns(30)), tmp_path / "people.csv")
    more = ("--c", 5) if command == "frontier" else ("--policy", "SoftFair:5")
    words = ("--k", 3, "--horizon", 4, "--runs", 3, "--json", *more)
    said = [run(command, cohort, *words, folder=tmp_path) for cohort in ("people", "people.csv")]
    assert said[0].returncode == 0, said[0].stderr
    assert said[0].stdout == said[1].stdout


def test_a_sharded_cohort_can_be_pickled(tmp_path):
    import pickle

    cohort = open_cohort(write(tmp_path, columns(30)))
    again = pickle.loads(pickle.dumps(cohort))
    assert isinstance(again, ShardedCohort)
    np.testing.assert_array_equal(again.p, cohort.p)
