"""Imports go down only, and `import softfair` stays light."""

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "softfair"

# From bottom to top. A room is a module or a folder; it may import only rooms that stand before it.
ORDER = (
    "errors",
    "for_json",
    "progress",
    "registry",
    "terminal",
    "frames",
    "figures",
    "kernels",
    "arrays",
    "cohort",
    "files",
    "saving",
    "shards",
    "cluster",
    "sampling",
    "costs",
    "quotas",
    "reserves",
    "indices",
    "datasets",
    "metrics",
    "solvers",
    "policies",
    "allocation",
    "simulation",
    "comparison",
    "testing",
    "env",
    "page",
    "estimate",
    "theory",
    "experiments",
    "bench",
    "programme",
    "web",
    "demo",
    "doctor",
    "ending",
    "cli",
)
REMEDY = f"add it to ORDER in {Path(__file__).name}"
HEAVY = {"pandas", "matplotlib", "scipy", "numba"}


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def dotted(package: Path, file: Path) -> str:
    """The module's name: pkg/solvers/__init__.py is pkg.solvers."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_of(node: ast.ImportFrom, file: Path, module: str) -> str:
    """The dotted name of what `from` refers to in a module."""
    base = node.module or ""
    if not node.level:
        return base
    here = module.split(".") + (["__init__"] if file.name == "__init__.py" else [])
    return ".".join(here[: -node.level] + base.split(".") * bool(base))


def imported(file: Path, module: str, modules: set[str]) -> list[tuple[int, str]]:
    """(line, dotted name) of each import, wherever it stands.

    One inside a function also ties two rooms together.
    """
    found = []
    for node in ast.walk(parsed(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = source_of(node, file, module)
            # `from pkg import x` means the module x if there is one, else a name that pkg itself
            # defines.
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.append((node.lineno, inner if inner in modules else base))
    return found


def faults(package: Path, order: tuple[str, ...]) -> list[str]:
    """Every import of the package that breaks the order, and every cycle inside a room."""
    files = {dotted(package, file): file for file in sorted(package.rglob("*.py"))}
    top = package.name
    said = []
    inside: dict[str, set[str]] = {}  # module -> modules of its own room that it imports
    for module, file in files.items():
        if module == top:
            continue  # the front door may import every room
        room = module.split(".")[1]
        if room not in order:
            said.append(f"{module}: the room {room!r} is not in the order: {REMEDY}")
            continue
        for line, target in imported(file, module, set(files)):
            where = f"{file.relative_to(package.parent).as_posix()}:{line}"
            if target == top:
                said.append(
                    f"{where}: {room} imports the front door {top}, which stands above every room"
                )
            elif target.startswith(f"{top}."):
                other = target.split(".")[1]
                if other == room:
                    inside.setdefault(module, set()).add(target)
                elif other not in order:
                    said.append(f"{where}: {other!r} is not in the order: {REMEDY}")
                elif order.index(other) > order.index(room):
                    said.append(f"{where}: {room} imports {other}, which stands above it")
    try:
        graphlib.TopologicalSorter(inside).prepare()
    except graphlib.CycleError as error:
        said.append(
            "a cycle: " + " imports ".join(reversed(error.args[1]))
        )  # graphlib lists the imported one first
    return said


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def borrowed(package: Path) -> list[str]:
    """Every private name of a module that another module of the package uses."""
    files = {dotted(package, file): file for file in sorted(package.rglob("*.py"))}
    said = []
    for module, file in files.items():
        where = file.relative_to(package.parent).as_posix()
        tree = parsed(file.read_text(encoding="utf-8"))
        modules = set()  # names that modules of the package have here
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            base = source_of(node, file, module)
            for alias in node.names:
                if f"{base}.{alias.name}" in files:
                    modules.add(alias.asname or alias.name)
                elif base in files and is_private(alias.name):
                    said.append(f"{where}:{node.lineno}: {alias.name}")
        said += [
            f"{where}:{node.lineno}: {node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and is_private(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id in modules
        ]
    return said


def heavy_after(statement: str) -> set[str]:
    """Which heavy libraries a fresh interpreter has loaded after the statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    return HEAVY & set(done.stdout.split())


def test_imports_go_down():
    assert PACKAGE.is_dir()
    rooms = {
        file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in PACKAGE.rglob("*.py")
    }
    assert set(ORDER) == rooms - {"__init__"}  # no room that does not exist
    assert not (found := faults(PACKAGE, ORDER)), "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("low.py", "import pkg.high", "pkg/low.py:1: low imports high"),
        ("low.py", "from pkg import high", "pkg/low.py:1: low imports high"),
        ("low.py", "x = 1\nfrom .high import f", "pkg/low.py:2: low imports high"),
        ("low.py", "def f():\n    from . import high", "pkg/low.py:2: low imports high"),
        ("mid/a.py", "from ..high import f", "pkg/mid/a.py:1: mid imports high"),
        ("mid/__init__.py", "from ..high import f", "pkg/mid/__init__.py:1: mid imports high"),
        ("high.py", "from pkg import version", "front door"),
        ("high.py", "import pkg", "front door"),
        ("new.py", "", "add it to ORDER"),
        ("high.py", "from .gone import f", "add it to ORDER"),
        ("mid/b.py", "from . import a", "pkg.mid.a imports pkg.mid.b"),
        ("mid/b.py", "from . import f", "pkg.mid imports pkg.mid.b"),
    ],
)
def test_the_checker_catches(tmp_path, file, source, complaint):
    package = tmp_path / "pkg"
    sound = {
        "__init__.py": "from .high import f",
        "low.py": "import os",
        "mid/__init__.py": "from .b import f",
        "mid/a.py": "from ..low import x\nfrom .b import f",
        "mid/b.py": "from pkg.low import x",
        "high.py": "from pkg import low, mid\nfrom pkg.mid.a import f",
    }
    for name, text in sound.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    order = ("low", "mid", "high")
    assert faults(package, order) == []
    (package / file).write_text(source)
    assert any(complaint in fault for fault in faults(package, order)), faults(package, order)


def test_no_module_uses_a_private_name_of_another():
    assert not (found := borrowed(PACKAGE)), "\n".join(found)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from .low import _f", "_f"),
        ("from pkg.low import _f as f", "_f"),
        ("def g():\n    from . import low\n    return low._f()", "low._f"),
        ("from . import low as ground\nx = ground._f", "ground._f"),
        ("from .low import f\nfrom . import __version__\nx = f._replace()", None),
        ("from os import _exit", None),
    ],
)
def test_a_private_name_of_another_module_is_seen(tmp_path, source, name):
    package = tmp_path / "pkg"
    package.mkdir()
    for file, text in (("__init__", ""), ("low", "def _f():\n    return 1"), ("high", source)):
        (package / f"{file}.py").write_text(text)
    said = [fault.rpartition(" ")[2] for fault in borrowed(package)]
    assert said == ([] if name is None else [name])


def test_import_is_light():
    assert heavy_after("import softfair") == set()


def test_a_heavy_import_is_seen():
    assert "scipy" in heavy_after("import scipy")


def test_the_map_names_every_room():
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert rooms == list(ORDER)


@pytest.mark.parametrize("room", ["programme", "web"])
def test_the_map_of_a_large_room_is_true(room):
    """It names every module, and each imports only those above it."""
    files = {dotted(PACKAGE, file): file for file in PACKAGE.rglob("*.py")}
    text = ast.get_docstring(ast.parse(files[f"softfair.{room}"].read_text(encoding="utf-8")))
    above = [line.split()[0] for line in text.splitlines() if line.startswith("    ")]
    within = {name: file for name, file in files.items() if name.startswith(f"softfair.{room}.")}
    assert sorted(above) == sorted({name.split(".")[2] for name in within})
    for name, file in within.items():
        here = above.index(name.split(".")[2])
        for line, target in imported(file, name, set(files)):
            if target in within:
                assert above.index(target.split(".")[2]) <= here, f"{file}:{line}"
