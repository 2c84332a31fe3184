"""The README's Python runs, and the links of the front pages lead somewhere."""

import doctest
import re
import textwrap
from pathlib import Path

import matplotlib
import pytest

from softfair.registry import POLICIES

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```(?:python|pycon|py)\b[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)|^ *\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(text: str, name: str) -> int:
    """Run the Python blocks in reading order in one namespace, as a reader would; count them."""
    space: dict[str, object] = {"__name__": "__main__"}
    blocks = list(BLOCK.finditer(text))
    for match in blocks:
        source = textwrap.dedent(match[1])
        line = text.count("\n", 0, match.start(1))  # so that an error points into the page
        if ">>>" in source:
            test = doctest.DocTestParser().get_doctest(source, space, name, name, line)
            report: list[str] = []
            doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            space.update(test.globs)  # doctest works on a copy
        else:
            exec(compile("\n" * line + source, name, "exec"), space)
    return len(blocks)


def broken(text: str, folder: Path) -> list[str]:
    """The relative links and images of a page that lead nowhere."""
    targets = ["".join(groups) for groups in LINK.findall(CODE.sub("", text))]
    relative = [target for target in targets if not re.match(r"[a-z]+:|#", target)]
    return [target for target in relative if not (folder / target.split("#")[0]).exists()]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes must not land in the repository
    matplotlib.use("Agg")  # and show() must not wait for a window to be closed


def test_readme_runs():
    assert run((ROOT / "README.md").read_text(encoding="utf-8"), "README.md") > 0


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_documentation_runs(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    run(text, page)
    assert broken(text, ROOT / "docs") == []


def test_readme_names_every_policy():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in POLICIES if f"`{name}" not in text] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_lead_somewhere(page):
    assert broken((ROOT / page).read_text(encoding="utf-8"), ROOT) == []


def test_blocks_share_a_namespace():
    blocks = ["x = 1", ">>> x\n1\n>>> y = 2", "assert y == 2"]
    assert run("".join(f"```python\n{block}\n```\n" for block in blocks), "page") == 3


@pytest.mark.parametrize("block", ["assert 1 == 2", ">>> 1\n2", ">>> 1 / 0"])
def test_a_false_block_is_caught(block):
    with pytest.raises(AssertionError):
        run(f"```python\n{block}\n```\n", "page")


def test_a_broken_link_is_caught(tmp_path):
    (tmp_path / "here.md").touch()
    sound = "[a](here.md#top) [b](https://example.org) `[c](code)` [d](#top)\n"
    page = sound + '![e](gone.png "title")\n[f]: lost.md\n<img src="no.svg">'
    assert broken(page, tmp_path) == ["gone.png", "lost.md", "no.svg"]
