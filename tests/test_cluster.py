"""The map over shards: draws and chances over shards, and the same bits on real workers."""

import itertools
import math
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from test_shards import STATES, K, N, T, answers, assert_same, columns, in_memory, write

import softfair as sf
from softfair import sampling
from softfair.cluster import Spread, crew_of, crews, versions, work
from softfair.errors import ClusterError, InvalidInput
from softfair.experiments import find
from softfair.experiments.running import run as run_experiments
from softfair.kernels.rules import RuleCode
from softfair.shards import open_cohort

POLICY = sf.SoftFair(c=8, design="successive")


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch, tmp_path):
    monkeypatch.setattr("softfair.shards.arrays.SHARD", 1024)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# Chances and draws over shards, in this process.


def cut(monkeypatch, size):
    monkeypatch.setattr("softfair.shards.arrays.SHARD", size)


def law_by_enumeration(z, k, design):
    """Pr(set) of every set of k arms."""
    w = np.exp(z)
    law = Counter()
    if design == "joint":
        for arms in itertools.combinations(range(len(z)), k):
            law[arms] = math.prod(w[list(arms)])
    else:
        for order in itertools.permutations(range(len(z)), k):
            left, chance = w.sum(), 1.0
            for arm in order:
                chance *= w[arm] / left
                left -= w[arm]
            law[tuple(sorted(order))] += chance
    total = sum(law.values())
    return {arms: chance / total for arms, chance in law.items()}


@pytest.mark.parametrize("design", ["joint", "successive"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_draw_over_shards_has_the_law_of_the_design(monkeypatch, design, size):
    """Every set of 3 of 7 arms, against enumeration.

    With 2000 draws a count deviates from its mean by more than 5 sd with a chance of 6e-7 at most,
    by the normal law; 35 sets, 4 cases.
    """
    cut(monkeypatch, size)
    z, k, draws = np.array([0.0, 1.0, -2.0, 0.5, 3.0, 0.0, -1.0]), 3, 2000
    rng = np.random.default_rng(0)
    seen = Counter(tuple(sampling.draw(z, k, rng, design).tolist()) for _ in range(draws))
    law = law_by_enumeration(z, k, design)
    assert set(seen) <= set(law)
    for arms, chance in law.items():
        sd = math.sqrt(draws * chance * (1 - chance))
        assert abs(seen[arms] - draws * chance) < 5 * sd + 1


def test_ties_over_shards_are_broken_evenly(monkeypatch):
    """The 4 highest of 9: two are above, five share two places."""
    cut(monkeypatch, 2)
    scores = np.array([1.0, 1, 5, 0, 1, 0, 1, 4, 1])
    draws, rng = 1000, np.random.default_rng(1)
    seen = Counter()
    for _ in range(draws):
        found = sampling.draw_spread(Spread.of(scores), 4, RuleCode.TOP, sampling.new_key(rng))
        assert len(found) == 4
        seen.update(found.tolist())
    assert seen[2] == seen[7] == draws
    assert seen[3] == seen[5] == 0
    for arm in (0, 1, 4, 6, 8):
        assert abs(seen[arm] - 0.4 * draws) < 5 * math.sqrt(0.24 * draws)


@pytest.mark.parametrize("design", ["joint", "successive"])
def test_many_shards_agree_with_one(monkeypatch, design):
    z = np.random.default_rng(3).normal(size=40_000) * 2
    one = sampling.inclusion(z, 400, design)
    drawn = sampling.draw(z, 400, np.random.default_rng(0), design)
    cut(monkeypatch, 7001)
    np.testing.assert_allclose(sampling.inclusion(z, 400, design), one, rtol=1e-11)
    found = sampling.draw(z, 400, np.random.default_rng(0), design)
    if design == "successive":  # the keys are the same ones
        np.testing.assert_array_equal(found, drawn)
    assert len(set(found.tolist())) == 400


@pytest.mark.parametrize("design", ["joint", "successive"])
@pytest.mark.parametrize("k", [0, 1, 99, 100])
def test_extreme_weights_over_shards(monkeypatch, design, k):
    """With infinite weights and spreads of 1e6, the arms above are drawn, those below are not."""
    cut(monkeypatch, 9)
    z = np.linspace(-1e6, 1e6, 100)
    z[0], z[-1] = -math.inf, math.inf
    found = sampling.draw(z, k, np.random.default_rng(0), design)
    np.testing.assert_array_equal(found, np.arange(100 - k, 100))
    with pytest.raises(InvalidInput, match=r"log_weights\[50\] is nan"):
        sampling.draw(np.where(np.arange(100) == 50, np.nan, z), k, np.random.default_rng(0))


def test_counts_of_shards_follow_their_weights(monkeypatch):
    """The mean number of draws in a shard is the sum of its arms' chances."""
    cut(monkeypatch, 500)
    z = np.repeat([0.0, 2.0, -1.0, 1.0], 500)
    chances = sampling.inclusion(z, 100, "joint").reshape(4, 500).sum(axis=1)
    rng, draws = np.random.default_rng(0), 100
    counts = np.array(
        [np.bincount(sampling.draw(z, 100, rng, "joint") // 500, minlength=4) for _ in range(draws)]
    )
    error = counts.std(axis=0) / math.sqrt(draws)
    assert (np.abs(counts.mean(axis=0) - chances) < 5 * error).all()


# Real workers.


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """(cohort in memory, the same in files)"""
    table = columns(N)
    folder = write(tmp_path_factory.mktemp("people"), table, cuts=(900, 4000), rows=600)
    return in_memory(table), folder


@pytest.fixture(scope="module")
def expected(people):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("softfair.shards.arrays.SHARD", 1024)
        return answers(POLICY, people[0])


@pytest.fixture(scope="module")
def dask():
    """A local Dask cluster of worker processes, without workers yet."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as started:
        yield started


@pytest.mark.slow
def test_the_same_on_dask_workers(dask, people, expected):
    """Bit by bit on 1, 2 and 4 of them, from files and from memory; then one is killed."""
    from distributed import Client

    in_memory_, folder = people
    with Client(dask, set_as_default=False) as client:
        for workers in (1, 2, 4):
            dask.scale(workers)
            client.wait_for_workers(workers)
            assert_same(answers(POLICY, open_cohort(folder), client), expected)
        assert_same(answers(POLICY, in_memory_, client), expected)
        assert_same(answers(POLICY, open_cohort(folder), dask.scheduler_address), expected)
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def kill():
            while not killed.wait(0.01):
                if any(client.processing().values()):  # in mid-fit
                    os.kill(victim, signal.SIGKILL)
                    killed.set()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            assert_same(answers(POLICY, in_memory_, client), expected)
            assert killed.is_set()
        finally:
            killed.set()
            killer.join()


@pytest.mark.slow
def test_all_dask_workers_gone(monkeypatch, people):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(crews, "PATIENCE", 1.0)
    with (
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as empty,
        Client(empty, set_as_default=False) as client,
    ):
        with pytest.raises(ClusterError, match="no worker left; start workers and call again"):
            answers(POLICY, people[0], client)
        address = empty.scheduler_address
    monkeypatch.setattr(crews, "REACH", 1.0)
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address}"):
        answers(POLICY, people[0], address)


@pytest.fixture(scope="module")
def pool():
    """Two processes, started anew: not by fork."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as started:
        yield started


@pytest.mark.slow
def test_the_same_on_processes(pool, people, expected):
    in_memory_, folder = people
    assert_same(answers(POLICY, open_cohort(folder), pool), expected)
    assert_same(answers(POLICY, in_memory_, pool), expected)


def test_the_same_on_threads(people, expected):
    with ThreadPoolExecutor(3) as threads:
        assert_same(answers(POLICY, people[0], threads), expected)
        assert_same(answers(POLICY, open_cohort(people[1]), threads), expected)


@pytest.mark.slow
def test_sweeps_give_the_same_rows(pool, tmp_path):
    cohort = sf.datasets.synthetic(n=20, seed=0)
    policies = [sf.Random(), sf.Oracle(), sf.SoftFair(c=5), sf.RoundRobin()]
    setting = {"k": 2, "horizon": 5, "runs": 4, "against": "Random"}
    here = sf.compare(policies, cohort, **setting)
    assert here.equals(sf.compare(policies, cohort, **setting, on=pool))
    curve = {"k": 2, "horizon": 5, "runs": 4, "cs": [0, 5]}
    assert sf.frontier(cohort, **curve).equals(sf.frontier(cohort, **curve, on=pool))
    experiments = [experiment.small() for experiment in find(["fig3b"])][:2]
    ended: list[str] = []
    rows = [
        run_experiments(
            experiments,
            tmp_path / str(on),
            runs=12,
            on=on,
            each=lambda outcome: ended.append(outcome.experiment.id),
        )
        for on in (None, pool)
    ]
    assert sorted(ended) == sorted(2 * list(rows[0]))
    for name in rows[0]:
        assert rows[0][name].rows.equals(rows[1][name].rows)


PARENT = """
import sys, time
from softfair.cluster import crew_of
import os
if __name__ == "__main__":
    crew = crew_of("1")
    [worker] = crew.run([(os.getpid,)])
    print(worker, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_processes_started_here_do_not_outlive_their_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    os.kill(worker, 0)  # it is there
    os.kill(worker, signal.SIGINT)  # Ctrl-C is for the parent
    time.sleep(0.2)
    os.kill(worker, 0)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.1)
    assert not _alive(worker)


def _alive(pid):
    """Whether a process runs; a zombie (ended, not waited for) does not run."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def other_version():
    versions.software.cache_clear()
    versions.version = lambda name: "0.0.9"


@pytest.mark.slow
def test_workers_with_other_software_and_workers_that_die(people):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=other_version) as old:
        with pytest.raises(
            ClusterError, match=r"a worker has softfair 0\.0\.9.*, this session softfair 0\.1\.0"
        ):
            answers(POLICY, people[0], old)
        (process,) = old._processes.values()
        os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)
        with pytest.raises(ClusterError, match="the workers of the executor are gone"):
            answers(POLICY, people[0], old)


def test_an_executor_that_was_shut_down(people):
    with ThreadPoolExecutor(1) as closed:
        pass
    with pytest.raises(ClusterError, match=r"does not take tasks.*; make a new one"):
        answers(POLICY, people[0], closed)


def test_no_such_workers():
    for on in (3, "nowhere:what", object(), ""):
        with pytest.raises((InvalidInput, ClusterError)) as caught:
            crew_of(on)
        assert "\n" not in str(caught.value)
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(InvalidInput, match="solver='paper' runs in one process"),
    ):
        sf.SoftFair(solver="paper").fit(sf.datasets.synthetic(5), k=1, horizon=2, on=threads)


def test_a_fitted_policy_forgets_its_workers_when_it_is_sent_away(people):
    import pickle

    with ThreadPoolExecutor(1) as threads:
        fitted = POLICY.fit(people[0], k=K, horizon=T, on=threads)
    again = pickle.loads(pickle.dumps(fitted))
    assert len(again.draw(0, STATES, np.random.default_rng(0))) == K


def test_a_store_makes_room_for_the_cohort_at_work(monkeypatch):
    store = work._Store()
    monkeypatch.setattr(work, "KEEP", 100)
    block = np.zeros(5)  # 40 bytes
    store.keep(("old", 0), block)
    store.keep(("old", 1), block)
    store.keep(("old", 2), block)
    assert [store.arms(("old", i)) is not None for i in range(3)] == [True, True, False]
    store.keep(("new", 0), block)
    assert store.arms(("old", 0)) is None
    assert store.arms(("new", 0)) is block
