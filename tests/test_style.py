"""Style that no linter here checks: functions that fit a screen, and a version stated once."""

import ast
import re
from pathlib import Path

import softfair

ROOT = Path(__file__).parents[1]
SCREEN = 60  # lines
WIDTH = 100  # columns


def long_functions(source):
    """Name and length of each function that does not fit a screen, its docstring not counted."""
    said = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            first = body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = first.end_lineno - first.lineno + 1 if documented else 0
            length = node.end_lineno - node.lineno + 1 - docstring
            if length > SCREEN:
                said.append((node.name, length))
    return said


def test_functions_fit_a_screen():
    # A kernel is one compiled loop: numba pays for every call across files.
    files = [
        file for file in (ROOT / "src" / "softfair").rglob("*.py") if file.parent.name != "kernels"
    ]
    assert len(files) > 40
    said = {
        file.relative_to(ROOT).as_posix(): functions
        for file in files
        if (functions := long_functions(file.read_text(encoding="utf-8")))
    }
    assert not said


def test_a_long_function_is_noticed():
    body = "    x = 1\n" * SCREEN
    assert long_functions(f"def f():\n{body}") == [("f", SCREEN + 1)]
    assert long_functions(f"async def f():\n{body}") == [("f", SCREEN + 1)]
    assert long_functions(f'def f():\n    """One\n\n    two."""\n{body[10:]}') == []


def test_no_line_is_too_long_behind_a_remark_to_a_tool():
    """The linter accepts long lines that end in a remark to a tool, such as one on types."""
    parts = ("src", "tests", "benchmarks")
    files = [file for part in parts for file in (ROOT / part).rglob("*.py")]
    assert len(files) > 300
    said = [
        f"{file.relative_to(ROOT).as_posix()}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert not said


def test_the_version_is_stated_once():
    stated = {
        "CITATION.cff": rf"(?m)^version: {re.escape(softfair.__version__)}$",
        "pyproject.toml": r'(?m)^version = \{ attr = "softfair\.__version__" \}',
    }
    for name, pattern in stated.items():
        assert re.search(pattern, (ROOT / name).read_text(encoding="utf-8")), name
