"""Every public name is documented in numpydoc form, and every example in a docstring runs."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import typing
from itertools import pairwise

import pytest

import softfair

MODULES = [
    module.name
    for module in pkgutil.walk_packages(softfair.__path__, "softfair.")
    if not module.name.endswith("__main__")
]
REFUSES = re.compile(r"raise \w|\bwhole\(|\brefuse\(|check_setting\(")


def sections(text):
    """The numpydoc sections of a docstring: heading -> lines under it."""
    lines = text.splitlines()
    starts = [
        number
        for number, (line, below) in enumerate(pairwise(lines))
        if line.strip() and set(below.strip()) == {"-"} and len(below.strip()) == len(line.strip())
    ]
    return {
        lines[start].strip(): lines[start + 2 : end]
        for start, end in pairwise([*starts, len(lines)])
    }


def parameters(lines):
    """The names that a Parameters section documents: those that stand at the margin."""
    names = []
    for line in lines:
        if line and not line.startswith(" "):
            names += [name.strip(" *") for name in line.split(" : ")[0].split(",")]
    return names


def faults(name, what):
    """What is missing from the documentation of one public class or function."""
    text = inspect.getdoc(what) or ""
    if not text:
        return [f"{name} has no docstring"]
    said = []
    summary = text.split("\n\n")[0]
    if "\n" in summary.strip() or not summary.strip().endswith("."):
        said.append(f"{name}: the first paragraph is not one line that ends with a period")
    parts = sections(text)
    if inspect.isclass(what) and not dataclasses.is_dataclass(what):
        return said
    taken = [p for p in inspect.signature(what).parameters if p not in ("self", "cls")]
    given = parameters(parts.get("Parameters", parts.get("Attributes", [])))
    if taken and given != taken:
        said.append(f"{name}: documents {given}, takes {taken}")
    if inspect.isclass(what):
        return said
    returned = inspect.signature(what).return_annotation
    if returned not in (None, "None", inspect.Signature.empty) and "Returns" not in parts:
        said.append(f"{name}: says nothing about what it returns")
    if REFUSES.search(inspect.getsource(what)) and "Raises" not in parts:
        said.append(f"{name}: says nothing about what it raises")
    return said


def public():
    """Name and object of everything that `softfair` shows: its own names, and its modules'."""
    for name in softfair.__all__:
        what = getattr(softfair, name)
        if inspect.ismodule(what):
            for inner in what.__all__:
                yield f"{name}.{inner}", getattr(what, inner)
        else:
            yield name, what


PUBLIC = {
    name: what
    for name, what in public()
    if inspect.isroutine(what) or (inspect.isclass(what) and typing.get_origin(what) is None)
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    assert not (found := faults(name, PUBLIC[name])), "\n".join(found)


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert not failed


def test_some_examples_are_there():
    """`test_examples_run` would pass if no docstring had an example, so this test counts them."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(module) for module in MODULES]
    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) >= 15


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_for(module):
    assert (importlib.import_module(module).__doc__ or "").strip()


def _documented(x, y=1):
    """Add.

    Parameters
    ----------
    x, y : int
        Numbers.

    Returns
    -------
    int
    """
    return x + y


def _two_lines(x):
    """Add, and say so in two
    lines.
    """


def _wrong_names(x, y) -> None:
    """Add.

    Parameters
    ----------
    x : int
    """


def _silent() -> int:
    """Raise."""
    raise ValueError


@pytest.mark.parametrize(
    ("function", "complaints"),
    [
        (_documented, []),
        (_two_lines, ["not one line", "documents [], takes ['x']"]),
        (_wrong_names, ["documents ['x'], takes ['x', 'y']"]),
        (_silent, ["what it returns", "what it raises"]),
        (type("Bare", (), {}), ["no docstring"]),
    ],
)
def test_the_checker_notices(function, complaints):
    said = faults("it", function)
    assert len(said) == len(complaints)
    assert all(complaint in line for complaint, line in zip(complaints, said, strict=True))
