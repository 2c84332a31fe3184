"""The documentation as a site: no warning, nothing from elsewhere, nothing left out."""

import inspect
import re
import shutil
import subprocess
import sys
import zlib

import pytest
import typer.main
from pages import FENCE, ROOT

import softfair
from softfair.cli import app
from softfair.registry import POLICIES

DOCS = ROOT / "docs"
COMMANDS = list(typer.main.get_command(app).commands)
# What a browser fetches by itself: no link that a reader may follow.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*"""
    r"""\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|url\(\s*["']?((?:https?:)?//[^"')]+)|@import\s+["']((?:https?:)?//[^"']+)"""
    r"""|\bimport\(?\s*["']((?:https?:)?//[^"']+)|\bfetch\(\s*["']((?:https?:)?//[^"']+)"""
)


def build(source, out):
    """Build a site as `make docs` does."""
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    return subprocess.run([*words, str(source), str(out)], capture_output=True, text=True)


def fetched(text):
    """The addresses that a page, style or script would fetch from elsewhere."""
    return ["".join(groups) for groups in FETCHED.findall(text)]


def public():
    """The full names of everything that `softfair` shows: its own names, and its modules'."""
    for name in softfair.__all__:
        what = getattr(softfair, name)
        if inspect.ismodule(what):
            yield from (f"softfair.{name}.{inner}" for inner in what.__all__)
        else:
            yield f"softfair.{name}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_there(site):
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    assert "start/officer.html" in pages
    assert [page for page in sorted(pages) if not (site / page).is_file()] == []


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js", ".svg")]
    assert len(files) > 30
    said = {file.name: fetched(file.read_text(encoding="utf-8")) for file in files}
    assert {name: found for name, found in said.items() if found} == {}


@pytest.mark.slow
def test_every_public_name_is_documented(site):
    _, _, _, _, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    entries = [line.split() for line in zlib.decompress(packed).decode().splitlines()]
    known = {name for name, role, *_ in entries if role.startswith("py:")}
    names = list(public())
    assert len(names) > 60
    assert [name for name in names if name not in known] == []


@pytest.mark.slow
def test_every_command_is_documented(site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f'id="softfair-{name}"' not in page] == []
    assert "The list: Parquet if the name ends in .parquet, otherwise CSV." in page


@pytest.mark.slow
def test_formulas_are_shown_by_the_browser_itself(site):
    page = (site / "method.html").read_text(encoding="utf-8")
    assert page.count("<math") > 10
    assert "$" not in re.sub(r"<(script|pre)\b.*?</\1>", "", page, flags=re.DOTALL)


@pytest.mark.slow
def test_a_fault_ends_the_build(tmp_path):
    shutil.copy(DOCS / "conf.py", tmp_path)
    for folder in ("extensions", "style"):
        shutil.copytree(DOCS / folder, tmp_path / folder)
    page = "# Page\n\n$\\nonsense{x}$ [nowhere](gone.md)\n\n```{coffee}\n```\n"
    (tmp_path / "index.md").write_text(page, encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert [word for word in ("nonsense", "gone.md", "coffee") if word not in done.stderr] == []


def test_every_command_is_shown_at_work():
    """Beyond the reference, every command stands in a block that is run or parsed."""
    shown = "\n".join(
        match["body"]
        for page in DOCS.rglob("*.md")
        for match in FENCE.finditer(page.read_text(encoding="utf-8"))
        if match["info"] in ("sh", "console")
    )
    assert len(COMMANDS) > 20
    assert [name for name in COMMANDS if not re.search(rf"\bsoftfair {name}\b", shown)] == []


def test_every_policy_is_named():
    text = (DOCS / "contents.md").read_text(encoding="utf-8")
    assert [name for name in POLICIES if f"`{name}" not in text] == []


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example.org/x.js">',
        "<link rel=stylesheet href=//fonts.example.org/a.css>",
        "body { background: url('http://example.org/a.png') }",
        '@import "https://example.org/a.css";',
        '<img alt="x" src="//example.org/a.png">',
    ],
)
def test_what_is_fetched_is_noticed(text):
    assert len(fetched(text)) == 1


def test_links_are_not_fetched():
    assert fetched('<a href="https://example.org">x</a><img src="a.png">') == []
