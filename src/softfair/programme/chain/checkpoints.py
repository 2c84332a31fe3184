"""The head of the log: the root of the Merkle tree of its entries, as a text that can be kept."""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...errors import InvalidInput
from .entries import Entry

__all__ = [
    "Checkpoint",
    "checkpoint_of",
    "compare",
    "root_of",
]

WIDTH = 60  # of the lines of a checkpoint, which is printed on pages
SHORT = 8  # digits of a table's digest in a checkpoint; the root covers the whole log


@dataclass(frozen=True)
class Checkpoint:
    """The head of a log, which stands for all of its entries.

    Parameters
    ----------
    origin
        The programme, by a hash of its seed.
    size
        The number of entries.
    root
        The root of the tree of entries, base64.
    tables
        For each table the first digits of the digest of all that the entries say of it.
    """

    origin: str
    size: int
    root: str
    tables: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        named = " ".join(["tables", *(f"{name}:{digits}" for name, digits in self.tables)])
        lines = [self.origin, str(self.size), self.root]
        if self.tables:
            lines += textwrap.wrap(named, WIDTH)
        return "\n".join(lines) + "\n"

    @classmethod
    def find(cls, text: str) -> Checkpoint:
        """The last checkpoint in a text, which may be a checkpoint alone or an export with one.

        Raises
        ------
        InvalidInput
            If there is none.
        """
        matches = list(CHECKPOINT.finditer(text))
        if not matches:
            raise InvalidInput(
                "there is no checkpoint in what --against names; give a text with its lines: "
                "softfair/..., a number, and 44 characters that end in ="
            )
        origin, size, root, named = matches[-1].groups()
        pairs = (pair.partition(":") for pair in (named or "").replace("\\n", " ").split())
        tables = tuple((name, digits) for name, _, digits in pairs)
        return cls(origin, int(size), root, tables)


# Lines are separated by line ends, by spaces (in a cell of a table), or by \n (in JSON).
_GAP = r"(?:\s|\\n)+"
CHECKPOINT = re.compile(
    rf"(softfair/[\w.-]+){_GAP}([0-9]{{1,12}}){_GAP}([A-Za-z0-9+/]{{43}}=)"
    rf"(?:{_GAP}tables((?:{_GAP}[a-z_]+:[0-9a-f]{{{SHORT}}})+))?"
)


def checkpoint_of(entries: Sequence[Entry], origin: str) -> Checkpoint:
    """The checkpoint of a log with these entries."""
    tables: dict[str, bytes] = {}
    for entry in entries:
        try:
            salt, _, added = entry.parts()
        except ValueError:
            continue  # garbled content changes the root
        for name, (rows, digest) in added.items():
            text = f"{salt} {rows} {digest}".encode()
            tables[name] = hashlib.sha256(tables.get(name, b"") + text).digest()
    named = tuple((name, tables[name].hex()[:SHORT]) for name in sorted(tables))
    root = base64.b64encode(root_of([entry.leaf for entry in entries])).decode()
    return Checkpoint(origin, len(entries), root, named)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash of RFC 6962, section 2.1."""
    stack: list[bytes] = []  # roots of complete trees, the largest first
    for place, leaf in enumerate(leaves):
        stack.append(leaf)
        while place & 1:
            right, left = stack.pop(), stack.pop()
            stack.append(hashlib.sha256(b"\1" + left + right).digest())
            place >>= 1
    if not stack:
        return hashlib.sha256().digest()
    root = stack.pop()
    while stack:
        root = hashlib.sha256(b"\1" + stack.pop() + root).digest()
    return root


def compare(entries: Sequence[Entry], earlier: Checkpoint, origin: str) -> Iterator[str]:
    """How a log differs from what it was at a checkpoint, in sentences; none if it only grew."""
    if earlier.origin != origin:
        yield f"the checkpoint is of another programme ({earlier.origin}, this one is {origin})"
        return
    if len(entries) < earlier.size:
        yield (
            f"the log has {len(entries)} entries, at the checkpoint it had {earlier.size}: "
            f"the last {earlier.size - len(entries)} are gone"
        )
    then = checkpoint_of(entries[: earlier.size], origin)
    if len(entries) < earlier.size or then.root == earlier.root:
        return
    now = dict(then.tables)
    differ = [name for name, digits in earlier.tables if now.get(name) != digits]
    where = f": {', '.join(differ)}" if differ else ""
    yield (
        f"the log was written anew: its first {earlier.size} entries are not those "
        f"of the checkpoint{where}"
    )
