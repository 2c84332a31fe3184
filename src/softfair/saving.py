"""Fitted policies to and from a file.

A saved policy is a ZIP archive whose members are stored, not compressed:

    softfair.json     {"format": "softfair fitted policy", "version": 3, "software": "0.1.0",
                       "object": ...}
    0.npy, 1.npy ...  the arrays, in NumPy's own format, without pickles

``object`` is a tree of plain JSON values and of objects with a single key:

    {"array": 0}                        the array in 0.npy
    {"objects": [...]}                  an array of texts or other plain values
    {"class": "Rule", "fields": {...}}  an object of a class of softfair, by name
    {"same": 3}                         the fourth object of the tree once more, counted from 0 in
                                        the order in which their descriptions end
    {"enum": "RuleCode", "value": 1}, {"tuple": [...]}, {"dict": {...}}, {"float": "inf"}

Reading makes only objects of classes that the reader lists, and runs no code from the file. A
reader refuses a file of a newer version than its own.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import math
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput
from .files import write_whole
from .for_json import read_json

__all__ = ["FORMAT", "VERSION", "read", "write"]

FORMAT = "softfair fitted policy"
# Since 2, k may be an array and rewards may depend on the action; since 3, arms may have costs.
VERSION = 3
TREE = "softfair.json"
PACKAGE = __name__.split(".")[0]


def write(path: str | Path, what: Any, software: str) -> None:
    """Write an object of a class of softfair to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file.
    what : Any
        The object.
    software : str
        The version of softfair, for whoever reads the file.

    Raises
    ------
    InvalidInput
        The object contains an object of a class that is not one of softfair, or the file cannot be
        written.
    """
    packer = _Packer()
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "software": software,
        "object": packer.pack(what),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # With a fixed date, the same policy gives the same file.
        archive.writestr(zipfile.ZipInfo(TREE), json.dumps(tree, allow_nan=False))
        for number, array in enumerate(packer.arrays):
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{number}.npy"), content.getbuffer())
    write_whole(Path(path), buffer.getvalue())


def read(path: str | Path, classes: Mapping[str, type]) -> Any:
    """Read an object from a file that :func:`write` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    classes : mapping of str to type
        The classes that may be in the file, by name.

    Returns
    -------
    Any
        The object.

    Raises
    ------
    InvalidInput
        There is no such file, or the file is of another kind, newer than this software, or damaged.
    """
    name = Path(path).name
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; give a saved policy") from None
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise InvalidInput(f"{name} is not a saved policy; give a file that fitted.save wrote")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ValueError("a member is compressed")
            tree = read_json(archive.read(TREE))
            if not isinstance(tree, dict) or tree.get("format") != FORMAT:
                raise ValueError("no format")
            _refuse_newer(name, tree)
            return _Unpacker(archive, classes).unpack(tree["object"])
    except InvalidInput:
        raise
    except Exception as error:  # a damaged file can fail anywhere, and in any way
        reason = " ".join(str(error).split())[:80]
        raise InvalidInput(
            f"{name} is damaged ({reason}); copy it again from where it came, or fit and save anew"
        ) from None


def _refuse_newer(name: str, tree: dict[str, Any]) -> None:
    """Refuse a file of a newer version."""
    version = tree["version"]
    if not isinstance(version, int) or version < 1:
        raise ValueError("no version")
    if version > VERSION:
        raise InvalidInput(
            f"{name} has format {version}, written by softfair {str(tree.get('software'))[:20]}; "
            f"this softfair reads formats up to {VERSION}: upgrade it"
        )


class _Packer:
    """From objects to a tree of plain values, and a list of arrays."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._places: dict[int, int] = {}  # id of an object -> its number
        self._kept: list[Any] = []  # keeps objects alive, so that no id is used again

    def pack(self, what: Any) -> Any:
        if what is None or isinstance(what, (bool, str)):
            return what
        if isinstance(what, enum.Enum):
            return {"enum": self._class_of(what), "value": what.value}
        if isinstance(what, (int, float, np.generic)):
            return _pack_number(what)
        if isinstance(what, (list, tuple)):
            packed = [self.pack(part) for part in what]
            return {"tuple": packed} if isinstance(what, tuple) else packed
        if isinstance(what, Mapping):
            return {"dict": {str(name): self.pack(part) for name, part in what.items()}}
        if id(what) in self._places:
            return {"same": self._places[id(what)]}
        packed_object = (
            self._array(what)
            if isinstance(what, np.ndarray)
            else {"class": self._class_of(what), "fields": self._fields(what)}
        )
        self._places[id(what)] = len(self._kept)
        self._kept.append(what)
        return packed_object

    def _array(self, array: NDArray[Any]) -> dict[str, Any]:
        if array.dtype == object:
            return {"objects": [self.pack(part) for part in array.tolist()]}
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _fields(self, what: Any) -> dict[str, Any]:
        return {name: self.pack(value) for name, value in _fields_of(what).items()}

    def _class_of(self, what: Any) -> str:
        cls = type(what)
        if cls.__module__.split(".")[0] != PACKAGE:
            raise InvalidInput(
                f"a {cls.__name__} cannot be saved, because it is not a class of softfair; "
                "keep its parameters, and fit again"
            )
        return cls.__name__


def _pack_number(number: Any) -> Any:
    plain = number.item() if isinstance(number, np.generic) else number
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"float": str(plain)}
    return plain


def _fields_of(what: Any) -> dict[str, Any]:
    """The fields of an object: its ``saved_fields``, or its parameters, or its state."""
    if hasattr(what, "saved_fields"):
        fields: dict[str, Any] = what.saved_fields()
        return fields
    if dataclasses.is_dataclass(what):
        return {
            field.name: getattr(what, field.name)
            for field in dataclasses.fields(what)
            if field.init
        }
    computed = {
        name
        for base in type(what).__mro__
        for name, value in vars(base).items()
        if isinstance(value, cached_property)
    }
    state: dict[str, Any] = what.__getstate__()  # the state that is pickled, too
    return {name: value for name, value in state.items() if name not in computed}


class _Unpacker:
    """From a tree and arrays to objects, only of the given classes."""

    def __init__(self, archive: zipfile.ZipFile, classes: Mapping[str, type]) -> None:
        self.archive, self.classes = archive, classes
        self._objects: list[Any] = []

    def unpack(self, tree: Any) -> Any:
        if tree is None or isinstance(tree, (bool, int, float, str)):
            return tree
        if isinstance(tree, list):
            return [self.unpack(part) for part in tree]
        if "same" in tree:
            return self._objects[tree["same"]]
        if "float" in tree:
            return float(tree["float"])
        if "tuple" in tree:
            return tuple(self.unpack(part) for part in tree["tuple"])
        if "dict" in tree:
            return {name: self.unpack(part) for name, part in tree["dict"].items()}
        if "enum" in tree:
            return self.classes[tree["enum"]](tree["value"])
        unpacked = self._array(tree) if "class" not in tree else self._object(tree)
        self._objects.append(unpacked)
        return unpacked

    def _array(self, tree: dict[str, Any]) -> NDArray[Any]:
        if "objects" in tree:
            parts = [self.unpack(part) for part in tree["objects"]]
            array = np.empty(len(parts), object)
            array[:] = parts
        else:
            content = self.archive.read(f"{int(tree['array'])}.npy")
            array = np.load(io.BytesIO(content), allow_pickle=False)
        array.flags.writeable = False
        return array

    def _object(self, tree: dict[str, Any]) -> Any:
        cls: Any = self.classes[tree["class"]]
        fields = {str(name): self.unpack(part) for name, part in tree["fields"].items()}
        if hasattr(cls, "from_saved"):
            return cls.from_saved(fields)
        if hasattr(cls, "__dataclass_fields__"):
            return cls(**fields)  # the constructor checks the fields
        instance = cls.__new__(cls)
        instance.__dict__.update(fields)
        return instance
