"""The paper's evaluation: the catalogue is the paper's; results are kept, resumed and guarded; the
report shows what was run."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from worlds import World, outcome

from softfair import datasets
from softfair.errors import InvalidInput
from softfair.experiments import (
    EXPERIMENTS,
    Drawings,
    Experiment,
    Outcome,
    compiling,
    drawings,
    find,
    judgements,
    load,
    outcomes,
    run,
    running,
    simulating,
    write_report,
)
from softfair.experiments.catalogue import names_of_experiments
from softfair.experiments.report import SECTIONS
from softfair.experiments.sections import SOLVERS, describe, unsettled_note
from softfair.policies import Myopic, Oracle, Random, SoftFair
from softfair.solvers import tradeoff_bound, upper_bound
from softfair.theory import verdicts

pytestmark = pytest.mark.filterwarnings("ignore::softfair.errors.NotConverged")


def test_the_catalogue_is_the_papers() -> None:
    sizes = {name: (e.n, e.k, e.horizon) for name, e in EXPERIMENTS.items()}
    assert sizes["fig1"] == (100, 10, 100)
    assert [sizes[f"fig2a/{n}"] for n in (10, 100, 1000)] == [
        (10, 1, 50),
        (100, 10, 50),
        (1000, 100, 50),
    ]
    assert [sizes[f"fig2b/{k}"] for k in (5, 10, 20)] == [
        (100, 5, 50),
        (100, 10, 50),
        (100, 20, 50),
    ]
    assert [sizes[f"fig2c/{T}"] for T in (20, 50, 100)] == [
        (100, 10, 20),
        (100, 10, 50),
        (100, 10, 100),
    ]
    assert sizes["table2"] == (100, 10, 80)
    assert EXPERIMENTS["table2"].dataset == "cpap"
    assert {e.x for e in EXPERIMENTS.values() if e.figure == "fig3b"} == {
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
    }
    assert np.inf in {e.x for e in EXPERIMENTS.values() if e.figure == "fig3a"}
    needed = {"Random", "Myopic", "FairMyopic", "Oracle", *SOLVERS}
    beyond = ("-readings", "limit")
    of_the_paper = [e for e in EXPERIMENTS.values() if not e.figure.endswith(beyond)]
    assert all(needed <= set(e.policies) for e in of_the_paper if e.id != "fig1")
    assert all(
        policy.c == 2 for label, policy in EXPERIMENTS["fig1"].policies.items() if label in SOLVERS
    )  # type: ignore[attr-defined]


def test_find_by_id_by_figure_and_not_at_all() -> None:
    assert [e.id for e in find(["fig2b"])] == ["fig2b/5", "fig2b/10", "fig2b/20"]
    assert [e.id for e in find(["fig2b/5", "fig2a/10", "fig2b/5"])] == ["fig2b/5", "fig2a/10"]
    assert len(find([])) == len(find()) == len(EXPERIMENTS)
    with pytest.raises(
        InvalidInput, match="no experiment 'fig9'; the known ones are fig1, fig2a/10"
    ):
        find(["fig9"])


def test_a_figure_means_all_its_parts() -> None:
    assert {e.figure for e in find(["fig2"])} == {"fig2a", "fig2b", "fig2c"}
    assert {e.figure for e in find(["fig3"])} == {"fig3a", "fig3b"}
    assert len(find(["fig2"])) == 9
    assert {e.figure for e in find(["fig1"])} == {"fig1", "fig1-readings"}
    assert {e.figure for e in find(["table2"])} == {"table2", "table2-readings"}


@pytest.mark.parametrize("names", [[""], ["fig1", "  "]])
def test_an_empty_name_is_refused_in_one_line(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="the name of an experiment is empty; the known"):
        find(names)


def test_a_text_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(InvalidInput, match=r"the text 'fig1'; give a list, such as \['fig1'\]"):
        find("fig1")


def test_every_experiment_has_a_name_that_is_listed() -> None:
    listed = names_of_experiments()
    assert {e.id for e in find(listed)} == set(EXPERIMENTS)
    assert len(listed) < 60  # a grid of many readings has one name


NEARLY = [EXPERIMENTS["fig2a/10"].small()]  # a quick one


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Outcome]]:
    out = tmp_path_factory.mktemp("out")
    return out, run(NEARLY, out, runs=7, seed=1)


def test_rows_settings_and_hash_are_kept(small: tuple[Path, dict[str, Outcome]]) -> None:
    out, rows = small
    table = rows["fig2a/10"].rows
    assert table.groupby("policy").size().eq(7).all()
    assert sorted(table["instance"].unique()) == [
        0,
        1,
    ]  # 5 runs on the first cohort, 2 on the second
    record = json.loads((out / "results" / "fig2a_10.json").read_text())
    assert record["settings"]["policies"]["SoftFair (priced)"] == {
        "policy": "SoftFair",
        "c": 9.0,
        "solver": "priced",
        "design": "joint",
        "c_value": 9.0,  # as it is in force
        "episodes": None,
        "max_wait": None,
        "floor": 0.0,
        "shares": None,
    }
    assert "SoftFair (paper)" not in record["settings"]["policies"]  # in the small version
    assert record["settings"]["parameters"] == {"recovery": None}
    assert re.fullmatch("[0-9a-f]{16}", record["settings"]["software"]["source"])
    assert record["settings"]["software"]["numpy"] == np.__version__
    assert record["python"] == platform.python_version()
    assert not (out / "results" / "parts").exists()
    assert table.loc[table["policy"] == "Oracle"].groupby("instance")[
        "benefit"
    ].mean().to_numpy() == pytest.approx([100, 100])


def test_a_finished_experiment_is_not_run_again_unless_asked(
    small: tuple[Path, dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, rows = small
    calls: list[int] = []
    real = running.simulate_cohort
    monkeypatch.setattr(
        running, "simulate_cohort", lambda *args: (calls.append(args[2]), real(*args))[1]
    )
    pd.testing.assert_frame_equal(
        run(NEARLY, out, runs=7, seed=1)["fig2a/10"].rows, rows["fig2a/10"].rows
    )
    assert not calls
    pd.testing.assert_frame_equal(
        run(NEARLY, out, runs=7, seed=1, again=True)["fig2a/10"].rows, rows["fig2a/10"].rows
    )
    assert sorted(calls) == [0, 1]
    assert load(NEARLY[0], out, runs=8, seed=1) is None  # other settings, no such result
    assert load(NEARLY[0], out, runs=7, seed=2) is None


def test_an_interrupted_run_resumes(
    tmp_path: Path, small: tuple[Path, dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    real = running.simulate_cohort

    def dies_at_the_second(experiment: object, runs: int, instance: int, seed: int) -> object:
        if instance == 1 and not done.count(-1):
            done.append(-1)
            raise KeyboardInterrupt
        done.append(instance)
        return real(experiment, runs, instance, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "simulate_cohort", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(NEARLY, tmp_path, runs=7, seed=1, jobs=1)
    assert not (tmp_path / "results" / "fig2a_10.json").exists()
    again = run(NEARLY, tmp_path, runs=7, seed=1, jobs=1)
    assert done == [0, -1, 1]  # the first cohort was not done twice
    pd.testing.assert_frame_equal(again["fig2a/10"].rows, small[1]["fig2a/10"].rows)


def test_meanwhile_is_called_once_whether_there_is_work_or_not(tmp_path: Path) -> None:
    calls: list[str] = []
    for word in ("run", "loaded"):
        run(NEARLY, tmp_path, runs=1, meanwhile=partial(calls.append, word))
    assert calls == ["run", "loaded"]


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"rows": []}'])
def test_a_damaged_part_is_done_again(
    tmp_path: Path, small: tuple[Path, dict[str, Outcome]], content: str
) -> None:
    part = outcomes.part_file(NEARLY[0], tmp_path, 7, 1, 0)
    part.parent.mkdir(parents=True)
    part.write_text(content)
    pd.testing.assert_frame_equal(
        run(NEARLY, tmp_path, runs=7, seed=1)["fig2a/10"].rows, small[1]["fig2a/10"].rows
    )


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "simulate_cohort", lambda *_: pytest.fail("it went to work"))
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot write"):
        run(NEARLY, tmp_path / "file", runs=1)


@pytest.mark.parametrize("damage", ["rows", "record"])
def test_a_damaged_result_is_refused(tmp_path: Path, damage: str) -> None:
    run(NEARLY, tmp_path, runs=1)
    file = tmp_path / "results" / ("fig2a_10.csv" if damage == "rows" else "fig2a_10.json")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(
        InvalidInput, match=r"fig2a_10.json is damaged; delete it, or run with --again"
    ):
        run(NEARLY, tmp_path, runs=1)
    run(NEARLY, tmp_path, runs=1, again=True)


def test_jobs_do_not_change_results(tmp_path: Path, small: tuple[Path, dict[str, Outcome]]) -> None:
    one = run(NEARLY, tmp_path, runs=7, seed=1, jobs=1)["fig2a/10"]
    pd.testing.assert_frame_equal(one.rows, small[1]["fig2a/10"].rows)


def test_a_second_process_compiles_only_if_something_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[list[str]] = []

    class Child:
        def __init__(self, words: list[str], **_: object) -> None:
            started.append(words)

        def wait(self) -> None:
            started.append(["waited for"])

    monkeypatch.setattr(compiling.subprocess, "Popen", Child)
    compiling.compile_side_by_side()  # perhaps the first use of its kernels
    started.clear()
    compiling.compile_side_by_side()
    assert not started
    from_cold = compiling.SecondCompiler()
    for _ in range(2):
        from_cold.on_start(None)
    assert len(started) == 1
    exec(started[0][-1], {})  # what the child is told is sound


def tiny(name: str, **policies: object) -> Experiment:
    """Five decisions for ten patients."""
    return Experiment(name, "table2", "cpap", 10, 1, 5, policies)  # type: ignore[arg-type]


def test_every_parameter_of_the_data_set_is_recorded(tmp_path: Path) -> None:
    run([tiny("tiny", Random=Random())], tmp_path, runs=1)
    record = json.loads((tmp_path / "results" / "tiny.json").read_text())
    parameters = record["settings"]["parameters"]
    assert set(parameters) == set(datasets.cpap.__kwdefaults__)
    assert parameters["mix"] == dict(datasets.CPAP_MIX)
    assert parameters["noise"] == datasets.cpap.__kwdefaults__["noise"]
    assert parameters["matrices"]["adherent"] == [[0.02, 0.98], [0.05, 0.95]]


@pytest.mark.parametrize(
    "change", ["noise", "mix", "design", "source", "softfair", "numpy", "numba"]
)
def test_a_result_is_not_used_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def experiment() -> Experiment:
        return tiny("tiny", SoftFair=SoftFair())

    run([experiment()], tmp_path, runs=1)
    assert load(experiment(), tmp_path, runs=1, seed=0) is not None
    if change in ("noise", "mix"):
        value = 0.03 if change == "noise" else {"all": 1.0}
        monkeypatch.setitem(datasets.cpap.__kwdefaults__, change, value)
    elif change == "design":
        c, solver, _, *rest = SoftFair.__init__.__defaults__
        monkeypatch.setattr(SoftFair.__init__, "__defaults__", (c, solver, "successive", *rest))
    else:
        software = outcomes._software()
        assert change in software
        monkeypatch.setattr(outcomes, "_software", lambda: {**software, change: "another"})
    assert load(experiment(), tmp_path, runs=1, seed=0) is None
    part = outcomes.part_file(experiment(), tmp_path, 1, 0, 0)
    monkeypatch.undo()
    assert part != outcomes.part_file(experiment(), tmp_path, 1, 0, 0)  # nor is half a run


def test_the_hash_is_of_the_source_files(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "inner" / "b.py").write_text("y = 2\n")
    first = outcomes.source_hash(tmp_path)
    (tmp_path / "a.pyc").write_bytes(b"compiled")
    assert outcomes.source_hash(tmp_path) == first
    (tmp_path / "inner" / "b.py").write_text("y = 3\n")
    second = outcomes.source_hash(tmp_path)
    (tmp_path / "inner" / "b.py").rename(tmp_path / "inner" / "c.py")
    assert len({first, second, outcomes.source_hash(tmp_path)}) == 3


def test_experiments_of_the_same_cohorts_share_what_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tiny("first", Random=Random(), Oracle=Oracle())
    second = tiny("second", Lottery=Random(), Myopic=Myopic())
    alone = {e.id: run([e], tmp_path / e.id, runs=6)[e.id].rows for e in (first, second)}
    calls: list[str] = []
    real = simulating.simulate
    monkeypatch.setattr(
        simulating,
        "simulate",
        lambda fitted, *rest: (calls.append(type(fitted.policy).__name__), real(fitted, *rest))[1],
    )
    monkeypatch.setattr(running, "compile_side_by_side", lambda: None)
    together = run([first, second], tmp_path / "both", runs=6)
    for name, rows in alone.items():
        pd.testing.assert_frame_equal(together[name].rows, rows)
    once = ["Myopic", "NoIntervention", "Oracle", "Oracle", "Random"]  # the Oracle is a yardstick
    assert sorted(calls) == sorted(2 * once)  # on each of two cohorts


def test_an_experiment_may_have_fewer_cohorts(tmp_path: Path) -> None:
    few = replace(tiny("few", Random=Random()), cohorts=2)
    results = run([few, tiny("all", Random=Random())], tmp_path, runs=20)
    assert (results["few"].cohorts, results["all"].cohorts) == (2, 4)
    assert results["few"].runs_a_cohort == outcomes.RUNS_A_COHORT


def test_small_has_the_papers_sizes_and_few_episodes() -> None:
    for experiment in EXPERIMENTS.values():
        small = experiment.small()
        assert (small.n, small.k, small.horizon) == (
            experiment.n,
            experiment.k,
            experiment.horizon,
        )
        left_out = set() if experiment.id == "table2" else {"SoftFair (paper)"}
        assert [*small.policies] == [p for p in experiment.policies if p not in left_out]
        for label, policy in small.policies.items():
            if label == "SoftFair (paper)":
                assert policy.episodes == experiment.horizon  # type: ignore[attr-defined]
            else:
                assert policy == experiment.policies[label]


# -- the report shows what was run

PAPER, MEAN_FIELD, PRICED = SOLVERS
ROUGH = World(own=1.0, rough=(PAPER,))


def made_up(name: str, world: World = ROUGH, **changes: object) -> Outcome:
    """A made-up outcome of an experiment, perhaps of another size than the catalogue's."""
    policies = {
        policy: {"benefit": 90.0, "entropy": 4.0, "of_bound": 90.0}
        for policy in EXPERIMENTS[name].policies
    }
    one = outcome(name, policies, world)
    return Outcome(replace(one.experiment, **changes), one.rows)  # type: ignore[arg-type]


def everything(world: World = ROUGH) -> dict[str, Outcome]:
    # Sections with tests of their own: test_readings.py and test_limits.py.
    others = ("-readings", "limit")
    names = [e.id for e in EXPERIMENTS.values() if not e.figure.endswith(others)]
    return {name: made_up(name, world) for name in names}


def legend_of(figure: object) -> list[str]:
    [legend] = figure.legends  # type: ignore[attr-defined]
    return [text.get_text() for text in legend.get_texts()]


def test_axes_and_captions_say_what_was_run() -> None:
    results = {
        "fig2a/10": made_up("fig2a/10", n=40, k=4, horizon=15),
        "fig2a/100": made_up("fig2a/100", n=80, k=8, horizon=15),
        "fig2b/5": made_up("fig2b/5", n=50, k=3),
    }
    by_n, by_k = drawings.draw_figure_2(results).axes
    assert [label.get_text() for label in by_n.get_xticklabels()] == ["40", "80"]
    assert by_n.get_xlabel() == "arms n; k is 10 % of n"
    assert by_k.get_xlabel() == "k of n = 50 arms"
    assert [label.get_text() for label in by_k.get_xticklabels()] == ["3"]
    assert (by_n.get_title("left"), by_k.get_title("left")) == ("(a)", "(b)")
    caption = next(s for s in SECTIONS if s.key == "fig2").caption(results)
    assert "(a) n = 40, 80; k = 4, 8; T = 15; c = 9; 8 cohorts, 2 runs on each." in caption
    assert "(b) n = 50; k = 3; T = 50;" in caption
    assert "(c)" not in caption


def test_every_caption_has_sizes_cohorts_and_runs() -> None:
    results = everything()
    for section in SECTIONS:
        if section.key.endswith(("readings", "limit")):
            continue
        caption = section.caption(results)
        for pattern in (r"n = \d", r"k = \d", r"T = \d", r"c = \d", "8 cohorts, 2 runs on each"):
            assert re.search(pattern, caption), (section.key, caption)
        assert f"* Values had not settled: {PAPER} (40 episodes)." in caption


@pytest.mark.slow
def test_figures_do_without_algorithm_1() -> None:
    """The small version leaves Algorithm 1 out of figures: it is neither drawn nor judged."""
    results = {}
    for name in (name for name, e in EXPERIMENTS.items() if re.match(r"fig\d[abc]?$", e.figure)):
        outcome = made_up(name)
        small = outcome.experiment.small()
        rows = outcome.rows[outcome.rows["policy"].isin(list(small.policies))]
        results[name] = Outcome(small, rows)
    for draw in (
        drawings.draw_figure_2,
        drawings.draw_figure_3a,
        drawings.draw_figure_3b,
        drawings.draw_frontiers,
    ):
        assert not [label for label in legend_of(draw(results)) if PAPER in label]
    assert not [ax for ax in drawings.draw_figure_1(results).axes if PAPER in ax.get_title()]
    for judge in (
        judgements.judge_figure_1,
        judgements.judge_figure_2,
        judgements.judge_figure_3a,
        judgements.judge_figure_3b,
        judgements.judge_frontiers,
    ):
        for judgement in judge(results):
            assert PAPER not in f"{judgement.paper} {judgement.ours} {judgement.verdict}"


def test_what_has_settled_is_not_marked() -> None:
    results = everything(World(own=1.0))
    assert unsettled_note(results.values()) == ""
    for draw in (drawings.draw_figure_2, drawings.draw_figure_3a, drawings.draw_table_2):
        assert not [label for label in legend_of(draw(results)) if "*" in label]


def test_bars_of_values_that_had_not_settled_are_hatched() -> None:
    figure = drawings.draw_figure_2(everything())
    labels = legend_of(figure)
    assert f"{PAPER}*" in labels
    assert {MEAN_FIELD, PRICED, "Random"} <= set(labels)
    for ax in figure.axes:
        hatched = [
            bars[0].get_facecolor()
            for bars in ax.containers
            if hasattr(bars, "patches") and any(bar.get_hatch() for bar in bars)
        ]
        assert hatched == [to_rgba(drawings.STYLE[PAPER][0])]


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw", [drawings.draw_figure_3a, drawings.draw_figure_3b, drawings.draw_frontiers]
)
def test_markers_of_values_that_had_not_settled_are_hollow(draw: object) -> None:
    figure = draw(everything())  # type: ignore[operator]
    assert f"{PAPER}*" in legend_of(figure)
    for ax in figure.axes:
        for line in ax.lines:
            if line.get_marker() in ("", "None", None) or not len(line.get_xdata()):
                continue
            hollow = line.get_markerfacecolor() == "white"
            assert hollow == (line.get_color() == drawings.STYLE[PAPER][0])


def test_one_point_may_be_rough_and_the_next_not() -> None:
    results = {
        "fig3a/1": made_up("fig3a/1", World(own=1.0)),
        "fig3a/5": made_up("fig3a/5", ROUGH),
    }
    [ax] = drawings.draw_figure_3a(results).axes
    lines = [
        line
        for line in ax.lines
        if line.get_color() == drawings.STYLE[PAPER][0] and line.get_marker() == "s"
    ]
    filled = [line for line in lines if line.get_markerfacecolor() != "white"]
    assert [list(line.get_xdata()) for line in lines if line not in filled] == [[1.0, 5.0]]
    assert [list(line.get_xdata()) for line in filled] == [[1.0]]  # drawn over the hollow one


def test_points_of_different_recipes_are_not_joined() -> None:
    results = everything(World(own=1.0))
    for figure in (drawings.draw_figure_3a(results), drawings.draw_frontiers(results)):
        for ax in figure.axes:
            for policy in (*SOLVERS, drawings.DECOUPLED):
                colour, marker = drawings.STYLE[policy]
                lines = [
                    line
                    for line in ax.lines
                    if line.get_color() == colour and line.get_marker() == marker
                ]
                lengths = sorted(len(line.get_xdata()) for line in lines)
                # c = 1, 2, 5, 9, 20 and apart from them c = inf, learnt with c_value = 1
                assert lengths == ([6] if policy == drawings.DECOUPLED else [1, 5])


def test_no_bar_reaches_below_what_a_figure_can_be() -> None:
    world = World(own=8.0)
    results = {
        name: Outcome(EXPERIMENTS[name], made_up(name, world).rows.assign(entropy=EVEN))
        for name in ("fig3b/0.4", "fig3b/0.9")
    }
    [ax] = drawings.draw_figure_3b(results).axes
    lowest = min(segment[:, 1].min() for bars in ax.collections for segment in bars.get_segments())
    assert lowest >= 0


EVEN = np.tile(np.repeat(np.linspace(0.0, 1.0, 8) ** 8, 2), 7)  # of 7 policies on 8 cohorts


def test_figure_1_shows_every_policy() -> None:
    figure = drawings.draw_figure_1({"fig1": made_up("fig1")})
    titles = [ax.get_title().split(":")[0] for ax in figure.axes]
    assert titles == ["Threshold Whittle", "Whittle", f"{PAPER}*", MEAN_FIELD, PRICED]
    for ax in figure.axes:
        assert sum(bar.get_height() for bar in ax.patches) == 3  # three arms in each panel


def test_labels_of_table_2_do_not_collide() -> None:
    [ax] = drawings.draw_table_2({"table2": made_up("table2")}).axes
    assert {text.get_text() for text in ax.texts if text.get_text()} == {
        f"{policy}, paper" for policy in ("Random", "Myopic", "FairMyopic", "SoftFair")
    }


def test_sizes_are_described_once() -> None:
    alike = [made_up("fig2b/5"), made_up("fig2b/10")]
    assert describe(alike) == "n = 100; k = 5, 10; T = 50; c = 9; 8 cohorts, 2 runs on each"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("page")
    some = verdicts(quick=True, claims=["entropy-kn", "entropy-kT"])
    path = write_report(everything(), out, seed=3, quick=True, verdicts=some)
    assert {f.stem for f in (out / "figures").iterdir()} >= {s.key for s in SECTIONS[:6]}
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_report_stands_alone(page: str) -> None:
    assert not re.findall(r'src="(?!data:)', page)  # nothing is fetched
    assert not re.findall(r"<(?:script|link|iframe)|url\(|@import", page)
    assert all(link.startswith("https://arxiv.org/") for link in re.findall(r'href="([^"]*)', page))
    assert "viewport" in page


def test_the_report_says_how_it_was_made(page: str) -> None:
    for name in ("softfair", "numpy", "numba", platform.python_version(), "cores"):
        assert name in page
    assert re.search(r"<td>date</td><td>\d{4}-\d\d-\d\d</td>", page)
    assert "<td>seed</td><td>3</td>" in page
    assert platform.node() not in re.sub(r'"data:[^"]*"', "", page)
    assert str(Path.home()) not in page


def test_the_report_has_table_2_and_the_claims_as_tables(page: str) -> None:
    rows = re.findall(r"<tr><td>(.*?)</td>", page)
    assert {"Random", "Myopic", "FairMyopic", "Oracle", f"{PAPER}*", MEAN_FIELD, PRICED} <= {*rows}
    assert "93\u00a0\u00b1\u00a07.6" in page
    assert {"entropy-kn", "entropy-kT"} <= {*rows}
    plain = page.replace('<td class="long">', "<td>")
    [corrected] = re.findall(r"<td>entropy-kn</td><td>.*?</td><td>fails</td><td>(.*?)</td>", plain)
    assert "selections / (k T)" in corrected
    assert "softfair verify --quick" in page


def test_the_report_names_its_sources(page: str) -> None:
    for words in ("Li and Pradeep Varakantham", "arxiv.org/abs/2207.13343", "Kang", "Herlihy"):
        assert words in page
    assert "How to cite" in page


def test_the_order_in_which_experiments_end_does_not_show(tmp_path: Path) -> None:
    names = [name for name in EXPERIMENTS if name.startswith(("fig2b", "fig2c"))]
    pages = []
    for order in (names, names[::-1]):
        sections = Drawings([EXPERIMENTS[name] for name in names], tmp_path)
        for name in order:
            assert not sections.sections()
            sections.add(made_up(name))
        [text] = sections.sections()
        pages.append(text)
    assert "k = 5, 10, 20" in pages[0]
    assert pages[0] == pages[1]


def test_the_full_report_does_not_call_itself_small(tmp_path: Path) -> None:
    some = {"fig2b/5": made_up("fig2b/5"), "fig2b/20": made_up("fig2b/20")}
    text = write_report(some, tmp_path).read_text(encoding="utf-8")
    assert "small version" not in text
    assert text.count("<h2>Figure") == 1  # what was not run is left out
    assert "The paper&#x27;s claims" not in text
    assert {f.name for f in (tmp_path / "figures").iterdir()} == {"fig2.png", "fig2.svg"}


def test_limits_of_cohorts_come_back_from_files_as_they_were(tmp_path: Path) -> None:
    experiment = replace(tiny("limited", Random=Random(), Myopic=Myopic()), keep_limits=True)
    made = run([experiment], tmp_path, runs=6)["limited"]
    again = load(experiment, tmp_path, runs=6, seed=0)
    assert again is not None
    assert len(made.limits) == len(again.limits) == made.cohorts == 2
    for j, (one, other) in enumerate(zip(made.limits, again.limits, strict=True)):
        people = experiment.cohort(j)
        bound = tradeoff_bound(people, experiment.k, experiment.horizon)
        for limit in (one, other):
            assert np.array_equal(limit.bound.slope, bound.slope)
            assert np.array_equal(limit.bound.intercept, bound.intercept)
            assert limit.none == upper_bound(people, 0, experiment.horizon, 1.0)
            assert limit.headroom == bound.intercept.max() - limit.none


def test_the_folder_of_parts_stays_while_others_may_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, there = running.finish, []

    def finish(*args: Any) -> Any:
        outcome = real(*args)
        there.append((tmp_path / "results" / "parts").exists())
        return outcome

    monkeypatch.setattr(running, "finish", finish)
    run(find(["fig1/synthetic", "fig1/p10=0.9"]), tmp_path, runs=1, jobs=1)
    assert there == [True, True]
    assert not (tmp_path / "results" / "parts").exists()
