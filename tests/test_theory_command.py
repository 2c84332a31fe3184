"""``softfair verify``: summary and table, claims by name, witnesses re-checked from a file."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import shell
from typer.testing import CliRunner

from softfair import theory
from softfair.cli import app
from softfair.errors import InvalidInput
from softfair.theory import output

CHEAP = ["entropy-kn", "entropy-kT", "lemma-1", "theorem-1"]


@pytest.fixture(scope="module")
def cheap():
    return theory.verdicts(quick=True, claims=CHEAP)


def run(*words: str):
    """Exit code, output, and the refusal if there is one (main() prints it and exits with 2)."""
    done = CliRunner().invoke(app, ["verify", *words])
    refusal = str(done.exception) if isinstance(done.exception, InvalidInput) else ""
    assert refusal or done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output, refusal


def chosen() -> list[str]:
    return [word for claim in CHEAP for word in ("--claim", claim)]


def test_the_summary_comes_first_and_the_correction_is_shown(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, text, _ = run("--quick", *chosen())
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "4 claims tried: 1 holds, 2 fail, 1 holds under a condition."
    assert lines.index(lines[0]) < next(at for at, line in enumerate(lines) if "theorem-1" in line)
    assert "Instead: With P(i) = selections / (k T) an entropy of 4.56" in text
    assert "Condition: gamma < 1." in text
    assert text.count("Instead:") == 2
    assert "0.697 nats; 1 tried" in text
    assert '"printed": 4.56' in text  # the witness of a claim asked for by name


def test_json_is_a_list_of_verdicts(cheap):
    code, text, _ = run("--quick", "--json", *chosen())
    assert code == 0
    assert json.loads(text) == [asdict(v) for v in cheap]
    assert list(json.loads(text)[0]) == [
        *("claim", "statement", "verdict", "condition", "margin", "measure", "instances"),
        *("witness", "corrected"),
    ]


def test_an_unknown_claim_is_refused_with_the_known_ones():
    code, text, refusal = run("--claim", "theorem-9")
    assert code != 0
    assert text == ""
    assert refusal.startswith("no claim is called 'theorem-9'; choose from theorem-1, ")
    assert all(claim.id in refusal for claim in theory.CLAIMS)
    assert "\n" not in refusal


def test_summary_counts():
    assert output.summary([]) == "0 claims tried: 0 hold, 0 fail, 0 hold under a condition."


@pytest.mark.parametrize("words", [["--claim", "theorem-9"], ["--recheck", "none.json"]])
def test_the_command_exits_with_2_and_one_line(tmp_path, words):
    done = shell.run("verify", *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("softfair: ")
    assert done.stderr.count("\n") == 1


# The recheck of a file.


def written(tmp_path: Path, content) -> str:
    path = tmp_path / "verdicts.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_what_was_written_is_confirmed(cheap, tmp_path):
    file = written(tmp_path, output.as_json(cheap))
    code, text, _ = run("--recheck", file)
    assert code == 0
    assert text.splitlines()[0] == "4 of 4 witnesses confirmed."
    assert [line.split()[-1] for line in text.splitlines()[1:]] == CHEAP
    code, text, _ = run("--recheck", file, "--json", "--claim", "lemma-1")
    assert (code, json.loads(text)) == (0, [{"claim": "lemma-1", "confirmed": True}])


def test_one_verdict_and_one_without_a_correction_are_read(cheap, tmp_path):
    alone = asdict(cheap[0])
    assert output.read_verdicts(Path(written(tmp_path, alone))) == [cheap[0]]
    del alone["corrected"]
    assert run("--recheck", written(tmp_path, alone))[0] == 0


def test_a_tampered_witness_is_not_confirmed(cheap, tmp_path):
    v = next(v for v in cheap if v.claim == "theorem-1")
    p = [[0.9 * x for x in row] for row in v.witness["p"]]
    false = replace(v, witness={**v.witness, "p": p})
    file = written(tmp_path, output.as_json([cheap[0], false]))
    code, text, _ = run("--recheck", file)
    assert code == 1
    assert text.splitlines()[0] == "1 of 2 witnesses confirmed."
    assert "NOT CONFIRMED  fails        theorem-1" in text
    assert run("--recheck", file, "--claim", "entropy-kn")[0] == 0
    assert json.loads(run("--recheck", file, "--json")[1])[1] == {
        "claim": "theorem-1",
        "confirmed": False,
    }


LARGE = "9" * 400
DAMAGED = [
    ("", "is not JSON"),
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ("9" * 5000, "is not JSON"),
    ("[]", "holds no verdict"),
    ("3", "entry 1 is no verdict"),
    ('["theorem-1"]', "entry 1 is no verdict"),
    ("{}", "entry 1 has no 'claim'"),
]


@pytest.mark.parametrize(("content", "complaint"), DAMAGED)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, content, complaint):
    code, text, refusal = run("--recheck", written(tmp_path, content))
    assert code != 0
    assert text == ""
    assert complaint in refusal
    assert "\n" not in refusal


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    assert "cannot be read" in run("--recheck", str(tmp_path / "none.json"))[2]
    assert "cannot be read" in run("--recheck", str(tmp_path))[2]
    (tmp_path / "picture.json").write_bytes(b"\xff\xfe\x00PNG")
    assert "is not JSON" in run("--recheck", str(tmp_path / "picture.json"))[2]


ABSURD = [
    ({"claim": "theorem-9"}, "no claim is called 'theorem-9'"),
    ({"claim": 3}, "'claim' is not of the kind"),
    ({"verdict": "perhaps"}, "verdict is 'perhaps'"),
    ({"margin": "large"}, "'margin' is not of the kind"),
    ({"margin": float("nan")}, "margin is nan"),
    ({"margin": int(LARGE)}, "margin is inf"),
    ({"instances": 1.5}, "'instances' is not of the kind"),
    ({"witness": [1, 2]}, "'witness' is not of the kind"),
    ({"witness": {}}, "the witness has no 'left'"),
    ({"witness": {"left": 0.0, "right": 1.0}}, "the witness has no 'decisions_left'"),
]
ABSURD_WITNESS = [
    ({"p": [[0.1, 0.2], [0.3, 1.4]]}, "p of the witness is"),
    ({"p": [[0.1, 0.2], [0.3, None]]}, "p of the witness is"),
    ({"p": []}, "p of the witness is"),
    ({"p": [[[0.5, 0.5], [0.5, 0.5]]] * 40}, "at most 6 arms"),
    ({"gamma": -3}, "gamma of the witness is -3"),
    ({"gamma": float("inf")}, "gamma of the witness is inf"),
    ({"s": 5}, "s of the witness is 5"),
    ({"s": [0, 1]}, "the witness cannot be evaluated"),
    ({"decisions_left": [10**9, 2]}, "decisions_left of the witness is"),
    ({"decisions_left": 3}, "the witness cannot be evaluated"),
    ({"left": "much"}, "left of the witness is 'much'"),
    ({"left": int(LARGE)}, "left of the witness is 999"),
    ({"right": True}, "right of the witness is True"),
]


@pytest.mark.parametrize(("change", "complaint"), ABSURD)
def test_an_absurd_verdict_is_refused_in_one_line(cheap, tmp_path, change, complaint):
    entry = asdict(next(v for v in cheap if v.claim == "theorem-1")) | change
    code, text, refusal = run("--recheck", written(tmp_path, [asdict(cheap[0]), entry]))
    assert (code != 0, text) == (True, "")
    assert complaint in refusal
    assert "\n" not in refusal
    assert len(refusal) < 250 or "choose from" in refusal


@pytest.mark.parametrize(("change", "complaint"), ABSURD_WITNESS)
def test_an_absurd_witness_is_refused_in_one_line(cheap, tmp_path, change, complaint):
    v = next(v for v in cheap if v.claim == "theorem-1")
    entry = asdict(v) | {"witness": {**v.witness, **change}}
    code, text, refusal = run("--recheck", written(tmp_path, entry))
    assert (code != 0, text) == (True, "")
    assert refusal.startswith("theorem-1: ")
    assert complaint in refusal
    assert "\n" not in refusal
    assert len(refusal) < 250


def answer(verdict) -> str:
    try:
        return str(theory.recheck(verdict))
    except InvalidInput as refusal:
        return str(refusal)


@pytest.mark.slow
def test_every_entry_of_every_witness_can_be_missing_or_absurd_without_a_traceback():
    """Whatever is put in the place of an entry, the answer is yes, no or a refusal in one line."""
    quick = [claim for claim in theory.CLAIMS if not claim.id.endswith("algorithm-1")]
    for claim in quick:
        if claim.id == "larger-T-slower":
            continue
        v = claim.check(count=None if claim.count is None else max(2, claim.count // 20))
        for name in v.witness:
            without = {key: value for key, value in v.witness.items() if key != name}
            others = [None, "x", -1, 10**9, 1e300, [], [[]], [1, 2, 3], {}, True, float("nan")]
            for witness in (without, *({**without, name: other} for other in others)):
                assert "\n" not in answer(replace(v, witness=witness))


def test_no_verdict_on_a_claim_asked_for(cheap, tmp_path):
    file = written(tmp_path, output.as_json(cheap))
    assert "holds no verdict on lemma-2" in run("--recheck", file, "--claim", "lemma-2")[2]
    assert "no claim is called 'lemma-9'" in run("--recheck", file, "--claim", "lemma-9")[2]
