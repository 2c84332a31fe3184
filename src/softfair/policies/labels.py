"""How a policy, its parameters and its answers are written, and which policies are the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["brief", "identity", "label_of", "plain_number"]


def label_of(name: str, policy: object) -> str:
    """The name of a policy with the parameters that were set.

    Parameters
    ----------
    name : str
        The name of its kind.
    policy : object
        The policy; only a dataclass has parameters.

    Returns
    -------
    str
    """
    if not is_dataclass(policy):
        return name
    settings = [
        f"{field.name}={plain_number(value)}"
        for field in fields(policy)
        if (value := getattr(policy, field.name)) is not field.default
        and not (field.default is not MISSING and _same(value, field.default))
    ]
    return f"{name}({', '.join(settings)})" if settings else name


def plain_number(value: object) -> str:
    """A parameter as a label shows it: without trailing zeros, and without loss of digits.

    Parameters
    ----------
    value : object
        A number, or anything else.

    Returns
    -------
    str

    Examples
    --------
    >>> from softfair.policies.labels import plain_number
    >>> plain_number(5.0), plain_number(0.1234567890123), plain_number("finite")
    ('5', '0.1234567890123', 'finite')
    """
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(float(value))
    return str(value)


def brief(values: Any) -> str:
    """A value for a message, shortened.

    Parameters
    ----------
    values : Any
        An array, or anything else.

    Returns
    -------
    str
        The value if it is short, otherwise its shape.
    """
    text = " ".join(repr(values).split())
    return text if len(text) <= 60 else f"{type(values).__name__} of shape {np.shape(values)}"


def identity(policy: Hashable | object) -> Hashable:
    """The key under which results of a policy are kept; equal policies that can be hashed share it.

    Parameters
    ----------
    policy : Policy
        Any policy.

    Returns
    -------
    Hashable
        The policy itself, or its id if it cannot be hashed (a dataclass that is not frozen).
    """
    try:
        hash(policy)
    except TypeError:
        return id(policy)
    return policy


def _same(value: object, default: object) -> bool:
    try:
        return bool(value == default)
    except ValueError:  # arrays
        return False
