"""Runs pages as a reader would: every block of code in reading order, in one folder.

- ``python`` blocks share one namespace; one with ``>>>`` must print the output below its commands.
- ``sh`` blocks: each line is a command, and must succeed. A line whose comment says that it takes
  minutes is not run: its words are parsed as the program would.
- ``console`` blocks: the lines after ``$ command`` are what it prints, with ``...`` for anything.
- A block with a ``:caption:`` is a file of that name.
- ``text`` blocks are not run. Any other language is refused, so that no code goes unrun.
"""

from __future__ import annotations

import doctest
import re
import shlex
import textwrap
import tomllib
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import shell
import typer.main

from softfair.cli import app

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|:::+)(?P<info>[^\n]*)\n(?P<body>.*?)^ *(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)|^ *\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE
)
OPTION = re.compile(r"^:([\w-]+): *(.*)$", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PYTHON = {"python", "pycon", "py"}
READ = {"text"}  # shown, not run


class Page:
    """The state of a reader of one page: a namespace, a folder, an environment."""

    def __init__(self, name: str, instead: dict[str, str]):
        self.name = name
        self.instead = instead  # names of hosts that stand in for real ones -> real ones
        self.space: dict[str, object] = {"__name__": "__main__"}
        self.environment = {"COLUMNS": "100"}
        self.ran: Counter[str] = Counter()

    def block(self, info: str, body: str, line: int) -> None:
        """Run one block; `line` is where its body begins in the page."""
        language, options = info.split()[0] if info else "", {}
        if language.startswith("{"):
            directive, language = language.strip("{}"), info.partition(" ")[2]
            if directive not in ("code-block", "code"):
                return  # a part of the page, not code
        while found := OPTION.match(body):
            options[found[1]] = found[2]
            body, line = body.partition("\n")[2], line + 1
        body = body.lstrip("\n") if options else body
        for word, real in self.instead.items():
            body = body.replace(word, real)
        if "caption" in options:
            Path(options["caption"]).write_text(body, encoding="utf-8")
            language = "file"
        elif language in PYTHON:
            self._python(body, line)
        elif language == "sh":
            for command in body.replace("\\\n", " ").splitlines():
                self._command(command)
        elif language == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                words, _, wanted = command.partition("\n")
                self._command(words, wanted)
        else:
            assert language in READ, f"{self.name}:{line}: nobody runs blocks of {language!r}"
        self.ran[language] += 1

    def _python(self, source: str, line: int) -> None:
        if ">>>" in source:
            test = doctest.DocTestParser().get_doctest(
                source, self.space, self.name, self.name, line
            )
            report: list[str] = []
            doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            self.space.update(test.globs)  # doctest works on a copy
        else:
            exec(compile("\n" * line + source, self.name, "exec"), self.space)

    def _command(self, line: str, wanted: str | None = None) -> None:
        words, comment = shlex.split(line, comments=True), line.partition(" #")[2]
        target = words[words.index(">") + 1] if ">" in words else None
        words = words[: words.index(">")] if target else words
        if not words:
            return
        if words[0] == "export":
            self.environment |= dict([words[1].split("=", 1)])
        elif words[0] != "softfair":
            assert known_elsewhere(words), f"{self.name}: {line}: nobody knows this command"
        elif "minutes" in comment:
            parse(words[1:])
        else:
            printed = self._printed(line, words[1:], wanted)
            if target:
                Path(target).write_text(printed, encoding="utf-8")

    def _printed(self, line: str, words: list[str], wanted: str | None) -> str:
        done = shell.run(*words, **self.environment)
        refused = "\nsoftfair: " in f"\n{wanted}"
        assert done.returncode == (2 if refused else 0), f"{line}\n{done.stdout}{done.stderr}"
        if wanted:
            got = done.stdout + done.stderr
            same = doctest.OutputChecker().check_output(wanted, got, FLAGS)
            assert same, f"{self.name}: {line}\nwanted:\n{wanted}\ngot:\n{got}"
        return done.stdout


def parse(words: list[str]) -> None:
    """Parse the words of a command as the program would, without running it."""
    name, *rest = words
    typer.main.get_command(app).commands[name].make_context(name, rest)


def known_elsewhere(words: list[str]) -> bool:
    """Whether a command that is not ours names things that exist: targets, extras, files."""
    if words[0] == "make":
        return f"\n{words[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    if words[:3] == ["python", "-m", "benchmarks"] or words[0] == "dask":
        known = {entry.name for entry in entry_points(group="dask_cli")}
        return words[0] == "python" or words[1] in known
    if words[0] == "python":
        return (ROOT / words[1]).is_file()
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = re.fullmatch(r"(?:softfair|\.)(?:\[([\w,]+)\])?", words[2])
        extras = project["optional-dependencies"]
        return wanted is not None and set((wanted[1] or "test").split(",")) <= set(extras)
    return False


def run(text: str, name: str, instead: dict[str, str] | None = None) -> Counter[str]:
    """Run the blocks of a page in reading order; count them by language."""
    page = Page(name, instead or {})
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body"))  # so that an error points into the page
        page.block(match["info"].strip(), textwrap.dedent(match["body"]), line)
    return page.ran


def broken(text: str, folder: Path) -> list[str]:
    """The relative links and images of a page that lead nowhere."""
    targets = ["".join(groups) for groups in LINK.findall(CODE.sub("", text))]
    relative = [target for target in targets if not re.match(r"[a-z]+:|#", target)]
    return [target for target in relative if not (folder / target.split("#")[0]).exists()]
