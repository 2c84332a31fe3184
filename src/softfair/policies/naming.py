"""Policies by name, as the command line takes them and as labels print them.

Oracle                      with its usual parameters
SoftFair:10                 its main parameter
SoftFair:c=5,solver=paper   any parameters
SoftFair(c=5, paper)        a label; a word stands for the parameter that allows it
mine.py:Neediest:power=2    a class of your own, in a file of Python or in a module
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..errors import InvalidInput, SoftFairError
from ..registry import POLICIES
from . import evenhanded, fawt, indexed, probfair, simple, softfair
from .base import Policy

__all__ = ["parse_policy"]

_HOMES = (evenhanded, fawt, indexed, probfair, simple, softfair)
_OWN = re.compile(r"(?P<home>[^:()]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)(?P<rest>.*)", re.S)
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<rest>.*)", re.S)


def parse_policy(text: str) -> Policy:
    """The policy that a text names.

    Parameters
    ----------
    text : str
        In one of the forms that the docstring of this module lists. A label that a table prints is
        one of these forms.

    Returns
    -------
    Policy

    Raises
    ------
    InvalidInput
        There is no such policy or parameter, or the policy refuses a value.

    Examples
    --------
    >>> from softfair.policies.naming import parse_policy
    >>> parse_policy("SoftFair:c=5,solver=paper,design=successive").label
    'SoftFair(c=5, paper, successive)'
    >>> parse_policy(parse_policy("Whittle:finite").label)
    Whittle(horizon='finite')
    """
    own = _OWN.fullmatch(text)
    if own and (own["home"].endswith(".py") or own["home"] not in POLICIES):
        own_class = _own_class(own["home"], own["name"])
        if not issubclass(own_class, Policy):
            raise InvalidInput(f"{own['name']} in {own['home']} is not a subclass of sf.Policy")
        return _instance(own_class, _parameters(own["rest"], text), text)
    named = _NAMED.fullmatch(text)
    if named is None or named["name"] not in POLICIES:
        name = text if named is None else named["name"]
        raise InvalidInput(
            f"there is no policy {name!r}; choose from {', '.join(POLICIES)}, "
            "or give FILE.py:Class for one of your own"
        )
    kind = next(vars(home)[named["name"]] for home in _HOMES if named["name"] in vars(home))
    return _instance(kind, _parameters(named["rest"], text), text)


def _parameters(rest: str, text: str) -> list[str]:
    """The parameters after a name: ``:a,b``, ``(a, b)`` or nothing."""
    if not rest:
        return []
    inner = rest[1:] if rest.startswith(":") else rest[1:-1]
    if not rest.startswith(":") and (rest[0], rest[-1]) != ("(", ")"):
        raise InvalidInput(f"{text!r} is not a policy; write it as SoftFair:c=5,solver=paper")
    return [part.strip() for part in inner.split(",")]


def _instance(kind: type[Policy], parts: list[str], text: str) -> Policy:
    """An instance of a class from the texts of its parameters."""
    name = kind.__name__
    entry = POLICIES.get(name)
    plain = not dataclasses.is_dataclass(kind)
    hints: dict[str, Any] = {} if plain else get_type_hints(kind)
    fields = () if plain else dataclasses.fields(kind)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    main = entry.parameter if entry is not None else (names[0] if names else None)
    if parts and not names:
        raise InvalidInput(
            f"{name} takes nothing after its name, and {', '.join(parts)!r} was given; say {name}"
        )
    values: dict[str, Any] = {}
    for place, part in enumerate(parts):
        before, equals, value = part.partition("=")
        if equals:
            parameter = before.strip()
        else:
            parameter, value = _parameter_of(part, hints, main if place == 0 else None) or "", part
        if parameter not in names:
            what = f"parameter {parameter!r}" if equals else f"use for {part!r}"
            raise InvalidInput(f"{name} has no {what}; it takes {', '.join(names)}")
        if parameter in values:
            raise InvalidInput(f"{text!r} gives {parameter} twice; give it once")
        values[parameter] = _value(name, parameter, value.strip(), hints[parameter])
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    if entry is not None and entry.parameter and (not values or required - values.keys()):
        values.setdefault(entry.parameter, entry.usual)
    try:
        return kind(**values)
    except SoftFairError:
        raise
    except TypeError as error:
        raise InvalidInput(f"{name} cannot be made of {text!r}: {error}") from None


def _parameter_of(word: str, hints: dict[str, Any], main: str | None) -> str | None:
    """The parameter whose type lists the word as a value; if there is none, the main parameter."""
    for parameter, hint in hints.items():
        if word in _words(hint):
            return parameter
    return main


def _words(hint: Any) -> tuple[Any, ...]:
    """The values that a type lists as literals."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _words(part))


def _value(policy: str, parameter: str, text: str, hint: Any) -> Any:
    """A parameter's value from its text, by its type."""
    kinds = {hint, *get_args(hint)}
    if text == "None" and type(None) in kinds:
        return None
    if bool in kinds and text in ("True", "False"):
        return text == "True"
    if not kinds & {int, float}:
        return text
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"{parameter} of {policy} is {text!r}; give a number") from None
    return int(value) if float not in kinds and value.is_integer() else value


def _own_class(home: str, name: str) -> type:
    """A class that a user wrote, from a file or a module."""
    try:
        module = _file(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    except OSError as error:
        raise InvalidInput(f"cannot read {home}: {error.strerror}; give a file of Python") from None
    except ModuleNotFoundError as error:
        if not f"{home}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        raise InvalidInput(
            f"there is no policy or module {home!r}; choose from {', '.join(POLICIES)}, "
            "or give FILE.py:Class"
        ) from None
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        raise InvalidInput(f"{home} has no class {name!r}; give FILE.py:Class")
    return kind


def _file(path: Path) -> Any:
    """The module in a file, run once."""
    path = path.resolve()
    path.stat()
    name = f"softfair_own_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
