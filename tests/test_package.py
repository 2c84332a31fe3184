"""The package as a user gets it: built, installed into an empty environment, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = [sys.executable, "-m", "uv"]
OLDEST = (3, 11)

pytestmark = pytest.mark.slow


def run(*words, folder, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True,
        env={**clean, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pythons():
    """The interpreters of this machine that are new enough, one for each minor version."""
    listed = subprocess.run(
        [*UV, "python", "list", "--only-installed", "--output-format", "json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = {sys.version_info[:2]: sys.executable}
    for one in json.loads(listed):
        parts = one["version_parts"]
        version = parts["major"], parts["minor"]
        if version >= OLDEST and one["implementation"] == "cpython":
            found.setdefault(version, one["path"])
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with a source archive and a wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(*UV, "build", "--quiet", "--out-dir", folder, ROOT, folder=folder)
    return folder


def test_the_wheel_holds_what_it_should(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert "softfair/py.typed" in names
    assert "softfair/cli.py" in names
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]
    assert source.stat().st_size < 10 * 2**20


@pytest.mark.parametrize("version", sorted(pythons()), ids=lambda v: ".".join(map(str, v)))
def test_an_empty_environment_is_enough(built, version, tmp_path):
    (wheel,) = built.glob("*.whl")
    run(*UV, "venv", "--quiet", "--python", pythons()[version], "env", folder=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(*UV, "pip", "install", "--quiet", "--python", python, wheel, folder=tmp_path)
    softfair = tmp_path / "env" / "bin" / "softfair"
    assert "Usage" in run(softfair, "--help", folder=tmp_path)
    assert "softfair 0." in run(softfair, "--version", folder=tmp_path)
    assert 'pip install "softfair[gym]"' in run(softfair, "doctor", folder=tmp_path)
    assert "300 people" in run(softfair, "init", "--sample", folder=tmp_path)
    code = "import softfair as sf; print(sf.datasets.synthetic(n=3))"
    assert "Cohort(n=3, S=2)" in run(python, "-c", code, folder=tmp_path)
    if version != sys.version_info[:2]:
        return  # what follows compiles every kernel anew, which takes a minute or two
    assert "Round 21" in run(softfair, "plan", folder=tmp_path)
    assert "Round 21" in run(softfair, "record", "--sample", folder=tmp_path)
    run(softfair, "audit", "--html", "audit.html", folder=tmp_path)
    said = run(softfair, "reproduce", "fig2a/10", "--quick", "--runs", "5", folder=tmp_path)
    assert (tmp_path / said.strip()).stat().st_size > 10_000
