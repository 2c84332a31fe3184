"""Every page's code runs, from the README to the last page of the documentation."""

import shlex
from pathlib import Path

import matplotlib
import pytest
import typer.main
from pages import ROOT, broken, parse, run

from softfair.cli import app

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
POSTGRESQL = "postgresql+psycopg://user:password@host/name"
SCHEDULER = "tcp://host:8786"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes must not land in the repository
    matplotlib.use("Agg")  # and show() must not wait for a window to be closed


@pytest.fixture
def hosts(request):
    """The addresses of servers on pages, and addresses of real servers in their place."""

    def real(text):
        instead = {}
        if POSTGRESQL in text:
            instead[POSTGRESQL] = request.getfixturevalue("server")()
        if SCHEDULER in text:
            instead[SCHEDULER] = request.getfixturevalue("scheduler")
        return instead

    return real


@pytest.fixture
def scheduler():
    """The address of a Dask scheduler with a worker process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as running:
        yield running.scheduler_address


@pytest.mark.slow
def test_readme_runs():
    ran = run((ROOT / "README.md").read_text(encoding="utf-8"), "README.md")
    assert ran["python"] > 0
    assert ran["sh"] + ran["console"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_documentation_runs(page, hosts):
    text = (DOCS / page).read_text(encoding="utf-8")
    run(text, page, hosts(text))
    assert broken(text, (DOCS / page).parent) == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_lead_somewhere(page):
    assert broken((ROOT / page).read_text(encoding="utf-8"), ROOT) == []


@pytest.mark.slow
def test_examples_of_the_help_are_words_that_the_program_takes():
    group = typer.main.get_command(app)
    seen = 0
    for command in group.commands.values():
        for line in (command.epilog or "").split("\n\n"):
            if line.startswith("softfair "):
                parse(shlex.split(line)[1:])
                seen += 1
    assert seen > 30


def test_blocks_share_a_namespace():
    blocks = ["x = 1", ">>> x\n1\n>>> y = 2", "assert y == 2"]
    ran = run("".join(f"```python\n{block}\n```\n" for block in blocks), "page")
    assert ran == {"python": 3}


def test_blocks_share_a_folder():
    page = """
```{code-block} text
:caption: here.csv

p00,p01,p10,p11,start
.2,.3,.5,.9,0
```

- In a list, and with words that are not to be taken for others:

  ```sh
  export SOFTFAIR_DB=other.db
  softfair init --sample   # at once
  ```

```console
$ softfair allocate here.csv --k 1 --out list.csv
list.csv...
$ softfair init --c -1
softfair: c is -1...
```
"""
    assert run(page, "page") == {"file": 1, "sh": 1, "console": 1}
    assert Path("other.db").is_file()
    assert Path("here.csv").read_text() == "p00,p01,p10,p11,start\n.2,.3,.5,.9,0\n"


@pytest.mark.parametrize("block", ["assert 1 == 2", ">>> 1\n2", ">>> 1 / 0"])
def test_a_false_block_is_caught(block):
    with pytest.raises(AssertionError):
        run(f"```python\n{block}\n```\n", "page")


@pytest.mark.parametrize(
    "block",
    [
        "```sh\nsoftfair plan --db none.db\n```",
        "```sh\nsoftfair status --nothing\n```",
        "```sh\nmake coffee\n```",
        '```sh\npip install "softfair[coffee]"\n```',
        "```sh\npython examples/coffee.py\n```",
        "```sh\nrm -rf .\n```",
        "```console\n$ softfair --version\nsoftfair 9.9\n```",
        "```console\n$ softfair --version\nsoftfair: c is -1\n```",
        "```bash\nls\n```",
        "```\nls\n```",
    ],
)
def test_a_false_command_is_caught(block):
    with pytest.raises(AssertionError):
        run(f"{block}\n", "page")


def test_commands_that_take_minutes_are_parsed():
    run("```sh\nsoftfair demo --out out   # some minutes\n```\n", "page")
    with pytest.raises(Exception, match="No such option"):
        run("```sh\nsoftfair demo --loud   # some minutes\n```\n", "page")


def test_a_broken_link_is_caught(tmp_path):
    (tmp_path / "here.md").touch()
    sound = "[a](here.md#top) [b](https://example.org) `[c](code)` [d](#top)\n"
    page = sound + '![e](gone.png "title")\n[f]: lost.md\n<img src="no.svg">'
    assert broken(page, tmp_path) == ["gone.png", "lost.md", "no.svg"]
