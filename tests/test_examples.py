"""The examples run as they are, and say what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# Words after the name, and what is printed.
EXAMPLES = {
    "the_paper.py": ([], ["SoftFair(c=9, paper, successive, episodes=60)", "theorem-1: "]),
    "programme.py": (["here"], ["Round 21", "$ softfair audit --html audit.html"]),
    "three_states.py": ([], ["with village", "south"]),
    "million_arms.py": ([], ["solved for 1,000,000 people", "and loaded"]),
    "own_policy.py": ([], ["Neediest", "longest_wait"]),
    "gym_agents.py": ([], ["random: ", "SoftFair: ", "2 are helped at most"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, tmp_path):
    words, said = EXAMPLES[name]
    done = subprocess.run(
        [sys.executable, str(FOLDER / name), *words],
        cwd=tmp_path, capture_output=True, text=True, env=None,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in said if line not in done.stdout] == []


def test_every_example_is_run():
    assert {file.name for file in FOLDER.glob("*.py")} == {*EXAMPLES}
