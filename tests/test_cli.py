"""The commands as real processes: their output and their exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import shell

from softfair import Cohort, datasets, policies
from softfair.cli import _policy, _show
from softfair.files import write_cohort


def softfair(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return shell.run(*words, folder=folder, COLUMNS="100")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cohort") / "people.csv"
    write_cohort(datasets.synthetic(n=30, seed=0), file)
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [[], ["reproduce"], ["verify"], ["frontier"], ["simulate"], ["bench"]]
)
def test_help(command: list[str]) -> None:
    done = softfair(*command, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_help_names_every_column_of_a_cohort_file() -> None:
    for command in ("frontier", "simulate"):
        said = softfair(command, "--help").stdout
        assert all(column in said for column in ("p00,p01,p10,p11", "id", "group", "start"))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("Oracle", policies.Oracle()),
        ("FairMyopic", policies.FairMyopic()),
        ("FairMyopic:3", policies.FairMyopic(c=3)),
        ("Whittle", policies.Whittle("infinite")),
        ("Whittle:finite", policies.Whittle("finite")),
        ("FaWT:10", policies.FaWT(window=10)),
        ("ProbFair:.05", policies.ProbFair(low=0.05)),
        ("SoftFair", policies.SoftFair(c=10)),
        ("SoftFair:inf", policies.SoftFair(c=float("inf"))),
        (
            "SoftFair:c=5,solver=paper,design=successive",
            policies.SoftFair(c=5, solver="paper", design="successive"),
        ),
        ("SoftFair:design=successive", policies.SoftFair(c=10, design="successive")),
        ("SoftFair:c_value=None, c=2", policies.SoftFair(c=2)),
        ("FaWT:least=2", policies.FaWT(window=20, least=2)),
        ("EvenHanded:entropy=2", policies.EvenHanded(entropy=2)),
    ],
)
def test_policies_by_name(text: str, policy: policies.Policy) -> None:
    assert _policy(text) == policy


@pytest.mark.parametrize(
    "policy",
    [
        policies.NoIntervention(),
        policies.FairMyopic(c=3),
        policies.Whittle("finite"),
        policies.FaWT(window=10, least=2),
        policies.ProbFair(low=0.05, high=0.9),
        policies.SoftFair(c=float("inf"), c_value=1.0, solver="meanfield", design="successive"),
        policies.SoftFair(c=0.1234567890123),
        policies.SoftFair(c=1e-7, solver="paper", episodes=70),
        policies.EvenHanded(mu=1 / 3, c=20.0, welfare="min", by="group"),
        policies.EvenHanded(entropy=2.5, welfare="log"),
    ],
    ids=lambda policy: policy.label,
)
def test_labels_can_be_pasted_back(policy: policies.Policy) -> None:
    assert _policy(policy.label) == policy


OWN = """
from dataclasses import dataclass
import softfair as sf

class FittedNeediest(sf.Fitted):
    def scores(self, t, states, memory=None):
        return [-self.policy.weight * int(state) for state in states]

@dataclass(frozen=True)
class Neediest(sf.Policy):
    weight: float = 1.0

    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        return FittedNeediest(self, cohort, k, horizon, gamma)
"""


def test_a_policy_from_a_file(people: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    words = ["simulate", str(people), "--k", "3", "--horizon", "5", "--runs", "2", "--csv"]
    done = softfair(
        *words, "--policy", "mine.py:Neediest", "--policy", "mine.py:Neediest:2", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(io.StringIO(done.stdout))
    assert table.policy.tolist() == ["Neediest", "Neediest(weight=2)"]
    assert table.reward.notna().all()
    for name, said in (
        ("mine.py:Greediest", "has no class 'Greediest'"),
        ("yours.py:Neediest", "cannot read yours.py"),
        ("mine.py:FittedNeediest", "is not a subclass of sf.Policy"),
        ("nowhere.at.all:Neediest", "no policy or module"),
        ("mine.py:Neediest:length=2", "no parameter 'length'; it takes weight"),
    ):
        done = softfair(*words, "--policy", name, folder=tmp_path)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_reproduce_with_a_policy_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    words = ["reproduce", "fig2a/10", "--quick", "--runs", "5", "--policy", "mine.py:Neediest"]
    done = softfair(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "quick" / "report.html").read_text(encoding="utf-8")
    assert "Policies of your own" in page
    assert "Neediest" in page


def test_an_unsuitable_policy_has_a_row_that_says_why(tmp_path: Path) -> None:
    import numpy as np

    from softfair import Cohort

    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(6, 2, 3))
    write_cohort(Cohort(P), tmp_path / "people.csv")
    words = ["--k", "1", "--horizon", "3", "--runs", "2", "--policy", "ProbFair", "--policy"]
    done = softfair("simulate", "people.csv", *words, "Random", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ProbFair(low=0): this needs arms with two states" in done.stdout


def test_version_and_doctor(tmp_path: Path) -> None:
    from softfair import __version__

    assert softfair("--version").stdout.strip() == f"softfair {__version__}"
    done = softfair("doctor", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert all(word in done.stdout for word in ("numpy", "threads", "compiled code", "gymnasium"))
    assert "database" not in done.stdout
    (tmp_path / "softfair.db").write_text("this is no database, and long enough to be looked at")
    done = softfair("doctor", "--json", folder=tmp_path)
    assert done.returncode == 1
    found = {row["what"]: row for row in json.loads(done.stdout)}
    assert not found["database"]["well"]
    assert not list(tmp_path.glob("*.db-*"))
    assert softfair("init", "--db", "new.db", folder=tmp_path).returncode == 0
    done = softfair("doctor", "--db", "new.db", "--csv", folder=tmp_path)
    assert done.returncode == 0
    assert 'database,"new.db: reachable, holds a programme",True' in done.stdout


def test_a_shell_completes_commands_and_policies(tmp_path: Path) -> None:
    def offered(*words: str) -> str:
        return shell.run(
            folder=tmp_path, _SOFTFAIR_COMPLETE="complete_bash",
            COMP_WORDS=" ".join(["softfair", *words]), COMP_CWORD=str(len(words)),
        ).stdout  # fmt: skip

    assert "simulate" in offered("sim")
    assert "SoftFair" in offered("simulate", "--policy", "Sof")


def test_csv_beside_json(people: Path) -> None:
    words = ["frontier", str(people), "--k", "3", "--horizon", "5", "--runs", "2", "--c", "0"]
    table = pd.read_csv(io.StringIO(softfair(*words, "--csv").stdout))
    rows = json.loads(softfair(*words, "--json").stdout)
    assert table.entropy[0] == pytest.approx(rows[0]["entropy"], abs=1e-9)
    claims = ["verify", "--claim", "entropy-kn", "--csv"]
    assert "entropy-kn" in pd.read_csv(io.StringIO(softfair(*claims).stdout)).claim.tolist()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\ntry:\n    import softfair.cli\nfinally:\n"
        "    print({'numba', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )


def test_frontier_as_json_and_picture(people: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    done = softfair(
        "frontier",
        str(people),
        "--k",
        "3",
        "--horizon",
        "10",
        "--runs",
        "3",
        "--c",
        "0",
        "--c",
        "inf",
        "--json",
        "--png",
        str(picture),
    )
    assert done.returncode == 0, done.stderr
    curve = json.loads(done.stdout)
    assert [row["c"] for row in curve] == [0, "inf"]
    assert curve[0]["entropy"] > curve[1]["entropy"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_simulate_as_a_table(people: Path) -> None:
    done = softfair(
        "simulate",
        str(people),
        "--k",
        "3",
        "--horizon",
        "10",
        "--runs",
        "3",
        "--policy",
        "Random",
        "--policy",
        "Whittle:finite",
    )
    assert done.returncode == 0, done.stderr
    assert "Random" in done.stdout
    assert "Whittle(finite)" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reproduce", "fig9"], "no experiment 'fig9'; the known ones are fig1"),
        (["reproduce", ""], "the name of an experiment is empty; the known ones are fig1"),
        (["reproduce", "fig2a/10", "--runs", "1", "--out", "/dev/null/x"], "cannot write"),
        (["simulate", "nobody.csv", "--k", "3"], "there is no file nobody.csv"),
        (["simulate", "{people}", "--k", "31"], "k is 31, the cohort has 30 arms"),
        (["simulate", "{people}", "--k", "3", "--policy", "Best"], "no policy 'Best'"),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "FaWT:inf"],
            "window is inf; give a whole number",
        ),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "FaWT:nan"],
            "window is nan; give a whole number",
        ),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "FaWT:10.7"],
            "window is 10.7; give a whole number",
        ),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "FaWT:long"],
            "window of FaWT is 'long'; give a number",
        ),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "FaWT:True"],
            "window of FaWT is 'True'; give a number",
        ),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "SoftFair:"],
            "c of SoftFair is ''; give a number",
        ),
        (["simulate", "{people}", "--k", "3", "--policy", "SoftFair:nan"], "c is nan"),
        (["simulate", "{people}", "--k", "3", "--policy", "Whittle:long"], "horizon is 'long'"),
        (
            ["simulate", "{people}", "--k", "3", "--policy", "Random:5"],
            "Random takes nothing after its name, and '5' was given",
        ),
        (["frontier", "{people}", "--k", "3", "--c", "much"], "c is 'much'"),
        (["frontier", "{people}", "--k", "3", "--c", "-1"], "c is -1"),
        (["frontier", "{people}"], "Missing option"),
        (["bench", "sorting"], "no benchmark 'sorting'; the known ones are pass, even, memory"),
        (["frobnicate"], "No such command"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    people: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    done = softfair(*[word.format(people=people) for word in words], folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())  # nothing half-written is left behind


def test_bad_probability_names_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,p00,p01,p10,p11\na,.1,.5,.4,.9\nb,.1,.5,1.4,.9\n")
    done = softfair("frontier", "people.csv", "--k", "1", folder=tmp_path)
    assert done.returncode == 2
    assert "row 3, column p10 is '1.4'" in done.stderr


@pytest.mark.slow
def test_reproduce_one_writes_a_report(tmp_path: Path) -> None:
    done = softfair("reproduce", "fig2a/10", "--runs", "2", "--out", "made", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "made/report.html"
    assert (tmp_path / "made" / "report.html").exists()


def test_reproduce_lists_its_ids_when_asked_for_help() -> None:
    said = " ".join(softfair("reproduce", "--help").stdout.split())
    for name in ("fig1", "fig2a/1000", "fig2c/20", "fig3a/inf", "fig3b/0.4", "table2"):
        assert name in said
    assert "Ids:" not in softfair("frontier", "--help").stdout


def test_a_small_report_shows_what_was_run(tmp_path: Path) -> None:
    done = softfair("reproduce", "fig2a/10", "--quick", "--runs", "10", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "out/quick/report.html"
    page = (tmp_path / "out" / "quick" / "report.html").read_text(encoding="utf-8")
    assert "(a) n = 10; k = 1; T = 50; c = 9; 2 cohorts, 5 runs on each." in page
    assert "SoftFair (paper)" not in page  # but in Table 2
    assert "Too few runs to say." in page  # two cohorts carry no verdict
    assert "Reproduced" not in page


def test_rows_whose_values_had_not_settled_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(
        {
            "policy": ["SoftFair(c=1)", "SoftFair(c=9)"],
            **dict.fromkeys(
                ("benefit", "of_bound", "entropy", "never_selected", "longest_wait", "unfair"), 1.0
            ),
            "converged": [True, False],
        }
    )
    _show(table, False, False, "a table")
    said = capsys.readouterr().out
    assert "SoftFair(c=9)*" in said
    assert "SoftFair(c=1)*" not in said
    assert "*: values had not settled" in said
    _show(table.assign(converged=True), False, False, "a table")
    assert "settled" not in capsys.readouterr().out


def test_bench_as_json() -> None:
    done = softfair("bench", "inclusion", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["goal"] for row in rows] == [None, None]  # goals are for the whole sizes
    assert all(row["measured"] > 0 and row["what"].startswith("inclusion") for row in rows)


def test_goals_are_met_from_the_right_side() -> None:
    from softfair.bench import reached

    assert reached(("", 4.0, "", 5))
    assert not reached(("", 6.0, "", 5))
    assert reached(("", 6.0, "", -5))
    assert not reached(("", 4.0, "", -5))
    assert reached(("", 1.0, "", None))


def test_an_interrupted_command_says_so(tmp_path: Path) -> None:
    code = (
        "import softfair.experiments as e\n"
        "def run(*_, **__): raise KeyboardInterrupt\n"
        "e.run = run\n"
        "from softfair.cli import main; main()"
    )
    words = [sys.executable, "-c", code, "reproduce", "fig2a/10"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.strip() == "softfair: interrupted; the same command goes on where it stopped"


def test_a_column_of_costs(tmp_path: Path) -> None:
    arms = datasets.synthetic(n=9, seed=0)
    cohort = Cohort.two_state(arms.p, cost=[1, 2, 4] * 3)
    write_cohort(cohort, tmp_path / "people.csv")
    words = ("simulate", "people.csv", "--horizon", "5", "--runs", "5", "--json", "--policy")
    done = softfair(*words, "Myopic", "--policy", "FaWT:9", "--k", "6", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    myopic, fawt = json.loads(done.stdout)
    assert myopic["problem"] == ""
    assert "costs (1 to 4), which FaWT" in fawt["problem"]
    done = softfair(*words, "Myopic", "--k", "22", folder=tmp_path)
    assert done.returncode == 2
    assert "all arms of the cohort cost 21 together" in done.stderr
