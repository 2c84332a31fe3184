"""Luck: where the random numbers of a draw come from, and who could have known them before.

A draw has a key of 256 bits. Each person's numbers follow from the key and their identifier alone,
through a cryptographic hash. So the order of people in a file has no effect, and when somebody
leaves the draw the others keep their luck.

The key follows from the programme's seed, the round and, after a commitment, from luck that came
from outside and later (`Source`):

    programme   nothing else: whoever holds the database could have known it
    text        what was seen in public, such as dice before witnesses or tonight's lottery numbers
    word        what a second person said when asked
    beacon      a round of drand's public randomness, whose signature is verified here

Plans that were made before each person had luck of their own are replayed by the older rule: luck
goes by position in the draw (`plans.drawing.drawn_by_position`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..for_json import read_json
from .entries import appearance

__all__ = [
    "QUICKNET",
    "SEED_BITS",
    "SHORT",
    "TRIAL",
    "Beacon",
    "Chain",
    "Identifiers",
    "Luck",
    "Source",
    "read_beacon",
    "seed_hash",
    "what_counts",
]

SEED_BITS = 128  # of a programme's seed, unless it is given
SHORT = "none-the-seed-is-short"  # in place of the hash of a short seed
TELLING = 64  # a seed of at most so many bits can be found from its hash by trying all seeds
TRIAL = "softfair trial"  # in the key of an assignment, so that it differs from that of a list
LONGEST_TEXT = 1000  # characters of luck
# Unicode's categories of what counts of them: letters, marks, numbers, and signs such as suits.
COUNTED = ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "So")
LONGEST_BEACON = 5000  # bytes read of a beacon's file: deeply nested JSON could end the process
LEAD = 300  # seconds between a commitment and its beacon, in which its code can be published
DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"  # of drand's scheme


def seed_hash(seed: int) -> str:
    """A hash that binds a programme to its seed without revealing it: 32 hexadecimal digits.

    For a seed that is short enough to be found from its hash, it is the text `SHORT` instead.
    """
    if seed.bit_length() <= TELLING:
        return SHORT
    return hashlib.sha256(f"softfair seed {seed}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Chain:
    """A chain of beacons: drand's scheme without links between rounds, signatures in G1."""

    name: str
    public_key: bytes  # [96] a point of G2
    genesis: int  # Unix time of round 1
    period: int  # seconds

    def time_of(self, round: int) -> int:
        """When a round is published, as Unix time."""
        return self.genesis + (round - 1) * self.period

    def round_after(self, moment: str) -> int:
        """The first round at least LEAD seconds after a moment (a text as `store.now` makes)."""
        wait = int(datetime.fromisoformat(moment).timestamp()) + LEAD - self.genesis
        return max(1, -(-wait // self.period) + 1)


QUICKNET = Chain(
    name="drand quicknet",
    public_key=bytes.fromhex(
        "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c"
        "8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb"
        "5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
    ),
    genesis=1692803367,
    period=3,
)


@dataclass(frozen=True)
class Beacon:
    """One round of a chain."""

    chain: str
    round: int
    signature: str  # hexadecimal

    def is_genuine(self, chain: Chain) -> bool:
        """Whether the chain's key made the signature.

        Raises
        ------
        InvalidInput
            If the library that verifies signatures is not installed.
        """
        depth = sys.getrecursionlimit()
        try:
            from py_ecc.bls.g2_primitives import subgroup_check
            from py_ecc.bls.hash_to_curve import hash_to_G1
            from py_ecc.bls.point_compression import decompress_G1, decompress_G2
            from py_ecc.optimized_bls12_381 import (  # type: ignore[attr-defined,unused-ignore]
                FQ12,
                G2,
                final_exponentiate,
                neg,
                pairing,
            )
        except ImportError:
            raise InvalidInput(
                "to verify a beacon needs the package py_ecc; install softfair[beacon]"
            ) from None
        finally:
            sys.setrecursionlimit(depth)  # the package raises the limit beyond what the stack holds
        signature, key = bytes.fromhex(self.signature), chain.public_key
        if self.chain != chain.name or len(signature) != 48:
            return False
        try:
            point: Any = decompress_G1(int.from_bytes(signature, "big"))  # type: ignore[arg-type]
            halves: Any = (int.from_bytes(key[:48], "big"), int.from_bytes(key[48:], "big"))
            public = decompress_G2(halves)
            if not subgroup_check(point) or not subgroup_check(public):
                return False
        except ValueError:
            return False
        message = hashlib.sha256(self.round.to_bytes(8, "big")).digest()
        sha256: Any = hashlib.sha256
        hashed = hash_to_G1(message, DOMAIN, sha256)
        # e(signature, G2) = e(H(message), key), as one product of pairings that must be 1
        both = pairing(neg(G2), point, False) * pairing(public, hashed, False)
        return bool(final_exponentiate(both) == FQ12.one())


def read_beacon(path: str | Path, chain: Chain) -> Beacon:
    """The round in a file as drand serves it: JSON with round and signature.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or holds no such round.
    """
    try:
        with Path(path).open("rb") as file:
            content = read_json(file.read(LONGEST_BEACON))
        round, signature = content["round"], content["signature"]
        if type(round) is not int or not 0 < round < 2**63:
            raise ValueError
        if not re.fullmatch("[0-9a-f]{96}", signature):
            raise ValueError
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; give a drand round") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{Path(path).name} is no round of {chain.name}; save what its /public/ROUND serves: "
            '{"round": ..., "signature": ...}'
        ) from None
    return Beacon(chain.name, round, signature)


def what_counts(text: str) -> str:
    """The letters, digits and symbols of a luck in words, without what may be written either way.

    Whoever writes down what everybody saw could otherwise choose among many draws: with commas or
    hyphens, with capitals, with a zero before a digit. Which words are written, and in which order,
    still counts; say so before the luck is known.

    Examples
    --------
    >>> from softfair.programme.luck import what_counts
    >>> [what_counts(text) for text in ("Dice: 12, 7, 33", "dice 12-07-33")]
    ['dice12733', 'dice12733']
    """
    plain = appearance(appearance(text).casefold())
    digits = "".join(str(unicodedata.decimal(one, one)) for one in plain)
    numbers = re.sub(r"(?<![0-9])0+(?=[0-9])", "", digits)
    return "".join(one for one in numbers if unicodedata.category(one) in COUNTED)


class Source(StrEnum):
    """Where luck came from."""

    PROGRAMME = "programme"
    TEXT = "text"
    WORD = "word"
    BEACON = "beacon"


@dataclass(frozen=True)
class Luck:
    """What a draw's key was made of besides the programme's seed and the round.

    Parameters
    ----------
    source
        Where the luck came from.
    text
        What was said, for ``text`` and ``word``.
    beacon
        The round, for ``beacon``.
    commitment
        The number of the commitment before the luck; None for ``programme``.
    counts
        What of the text counts (`what_counts`); None: all of it, as in older versions.
    """

    source: Source
    text: str | None = None
    beacon: Beacon | None = None
    commitment: int | None = None
    counts: str | None = None

    @property
    def outside(self) -> str:
        """The part of the key that came from outside."""
        return self.beacon.signature if self.beacon else self.counts or self.text or ""

    @property
    def seen(self) -> str:
        """What was seen; luck that is used twice shows by it, however it is written."""
        return self.beacon.signature if self.beacon else what_counts(self.text or "")

    def key(self, seed: int, round: int, of: str = "softfair luck") -> str:
        """The key of a round's draw, or of another draw in that round, 64 hexadecimal digits."""
        content = json.dumps([of, str(seed), round, self.source, self.outside])
        return hashlib.sha256(content.encode()).hexdigest()

    def to_json(self) -> str:
        """The luck as it is stored."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Luck:
        """The inverse of `to_json`."""
        parts = read_json(text)
        beacon = parts["beacon"] and Beacon(**parts["beacon"])
        known = (parts["text"], beacon, parts["commitment"], parts.get("counts"))
        return cls(Source(parts["source"]), *known)

    @classmethod
    def said(cls, text: str, source: Source, commitment: int) -> Luck:
        """Luck in words.

        Raises
        ------
        InvalidInput
            If the text is empty or too long to be luck.
        """
        words = " ".join(text.split())
        counts = what_counts(words)
        if not counts or len(words) > LONGEST_TEXT or not words.isprintable():
            raise InvalidInput(
                f"the luck has {len(words)} characters; write down what everybody saw, such as "
                f"'dice 3 5 6 1 2 2', in 1 to {LONGEST_TEXT} printable characters, with letters or "
                "digits"
            )
        return cls(source, words, commitment=commitment, counts=counts)

    def sentence(self, done: str) -> str:
        """Where the luck came from; ``done`` is what was done with it, such as Drawn."""
        if self.source is Source.PROGRAMME:
            return (
                f"{done} with the programme's own luck: "
                "whoever holds the database could have known it."
            )
        if self.beacon is not None:
            return f"{done} with public luck: {self.beacon.chain}, round {self.beacon.round}."
        if self.source is Source.WORD:
            return f"{done} with a second person's word, given after the commitment."
        return f"{done} with public luck: {self.text}."

    def __str__(self) -> str:
        return self.sentence("Drawn")


def coins(key: str, site: str) -> Iterator[float]:
    """Luck of a draw that belongs to no person: an endless series of numbers between 0 and 1.

    Parameters
    ----------
    key
        The key of the draw, hexadecimal.
    site
        The site whose draw it is.
    """
    base = hashlib.blake2b(key=bytes.fromhex(key), digest_size=8, person=b"softfair coins")
    base.update(site.encode("utf-8", "surrogatepass"))
    for number in itertools.count():
        one = base.copy()
        one.update(b"\n%d" % number)
        yield ((int.from_bytes(one.digest(), "little") >> 12) + 0.5) * 2.0**-52


def further(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Further luck of the same people [n, 2], for draws after the list and independent of it.

    Parameters
    ----------
    numbers
        Each person's luck [n, 2], whose bits are mixed as in splitmix64.
    """
    first = _mixed(_mixed(numbers[:, 0]) ^ numbers[:, 1])
    return np.stack([first, _mixed(first ^ _mixed(numbers[:, 1]))], axis=1)


def numbered(numbers: NDArray[np.uint64], number: int) -> NDArray[np.uint64]:
    """The luck of the same people or sites in one of many tries [n].

    Parameters
    ----------
    numbers
        Everybody's luck [n, 2].
    number
        The number of the try, from 0 on.
    """
    with np.errstate(over="ignore"):
        second = _mixed(numbers[:, 1] + np.uint64(number))
    return _mixed(numbers[:, 0] ^ second)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A one-to-one function of 64 bits; each bit of the result depends on all (splitmix64)."""
    with np.errstate(over="ignore"):
        x = bits + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Identifiers:
    """Identifiers of people as bytes, from which the luck of any of them in any draw follows.

    Parameters
    ----------
    names
        The identifier of each person, in the order of their number.
    """

    def __init__(self, names: Sequence[str]) -> None:
        each = [name.encode("utf-8", "surrogatepass") for name in names]
        self.text = b"\n".join([*each, b""])  # each followed by the end of a line
        lengths = np.fromiter(map(len, each), np.int64, len(each))
        self.begins = np.concatenate([[0], np.cumsum(lengths + 1)])

    def __len__(self) -> int:
        return len(self.begins) - 1

    def of(self, who: NDArray[np.int64]) -> list[str]:
        """The identifiers of some people."""
        return [self._bytes_of(i).decode("utf-8", "surrogatepass") for i in who.tolist()]

    def lines(self, who: NDArray[np.int64]) -> bytes | memoryview:
        """The identifiers of some people, a line each; no line end after the last."""
        if not len(who):
            return b""
        first, last = int(who[0]), int(who[-1])
        if last - first == len(who) - 1 and bool((np.diff(who) == 1).all()):  # usually everybody
            return memoryview(self.text)[self.begins[first] : self.begins[last + 1] - 1]
        return b"\n".join([self._bytes_of(i) for i in who.tolist()])

    def _bytes_of(self, number: int) -> bytes:
        return self.text[self.begins[number] : self.begins[number + 1] - 1]

    def numbers(self, key: str, who: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Luck of some people: 128 bits that follow from the key and their identifier [m, 2].

        Parameters
        ----------
        key
            The key of the draw, hexadecimal.
        who
            Their numbers [m].
        """
        from ..kernels.blake2b import BLOCK, two_words  # loads a compiler

        given = bytes.fromhex(key)
        base = hashlib.blake2b(key=given, digest_size=16, person=b"softfair")
        # The parameters of the standard: lengths of digest and key; fan-out and depth 1: no tree.
        parameters = bytes([16, len(given), 1, 1]).ljust(48, b"\0") + b"softfair".ljust(16, b"\0")
        blocks = [np.frombuffer(one, "<u8") for one in (parameters, given.ljust(BLOCK, b"\0"))]
        length = self.begins[who + 1] - 1 - self.begins[who]
        short = (length > 0) & (length <= BLOCK) & (len(given) > 0)
        out = np.empty((len(who), 2), np.uint64)
        some = np.empty((int(short.sum()), 2), np.uint64)
        two_words(*blocks, np.frombuffer(self.text, np.uint8), self.begins, who[short], some)
        out[short] = some
        for place in np.flatnonzero(~short).tolist():
            one = base.copy()
            one.update(self._bytes_of(int(who[place])))
            out[place] = np.frombuffer(one.digest(), "<u8")
        return out


def numbers(key: str, names: list[str]) -> NDArray[np.uint64]:
    """As `Identifiers.numbers`, for a list of names [n, 2]."""
    return Identifiers(names).numbers(key, np.arange(len(names)))
