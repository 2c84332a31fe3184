"""Signed notes, as C2SP describes them: a text, an empty line, and signatures by Ed25519.

A key is a PEM file that only its owner reads. Others know the key by one line, its verifier:
``name+hash+base64``. If the environment variable SOFTFAIR_KEY names such a file, a checkpoint is
signed wherever it is shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..files import write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["is_signed_by", "new_key", "signed"]

KEY = "SOFTFAIR_KEY"  # environment variable: the file of the key
ED25519 = b"\1"  # the algorithm's number in a verifier
DASH = "—"  # before each signature


def new_key(path: Path) -> str:
    """Write a new key to a file that is not there yet, and return its verifier."""
    ed25519, serialization = _library()
    if path.exists():
        raise InvalidInput(f"{path} is there already; choose another name for a new key")
    key = ed25519.Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(path, text)
    return _verifier(path, key)


def signed(text: str) -> str:
    """A text with a signature if SOFTFAIR_KEY names a key, else as it is."""
    path = os.environ.get(KEY, "")
    if not path:
        return text
    _, serialization = _library()
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
        signature = key.sign(text.encode())
    except (OSError, ValueError, TypeError, AttributeError):
        raise InvalidInput(
            f"{KEY} names {path}, which is no key; make one with: softfair check --new-key FILE"
        ) from None
    name, number, _ = _verifier(Path(path), key).split("+", 2)
    line = base64.b64encode(bytes.fromhex(number) + signature).decode()
    return f"{text}\n{DASH} {name} {line}\n"


def is_signed_by(note: str, verifier: str) -> bool:
    """Whether a note carries a signature by the key of a verifier.

    Raises
    ------
    InvalidInput
        If the verifier cannot be read.
    """
    ed25519, _ = _library()
    try:
        name, number, encoded = verifier.strip().split("+", 2)
        content = base64.b64decode(encoded, validate=True)
        public = ed25519.Ed25519PublicKey.from_public_bytes(content[1:])
        if content[:1] != ED25519 or _number(name, content) != number:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidInput(
            "the verifier of the key cannot be read; give the line name+hash+base64 that "
            "softfair check --new-key printed"
        ) from None
    text, _, signatures = note.partition(f"\n\n{DASH} ")
    for line in f"{DASH} {signatures}".splitlines():
        match = re.fullmatch(rf"{DASH} (\S+) ([A-Za-z0-9+/=]+)", line)
        if match is None or match[1] != name:
            continue
        raw = base64.b64decode(match[2])
        if raw[:4].hex() == number:
            from cryptography.exceptions import InvalidSignature

            try:
                public.verify(raw[4:], f"{text}\n".encode())
            except InvalidSignature:
                return False
            return True
    return False


def _verifier(path: Path, key: Ed25519PrivateKey) -> str:
    name = re.sub(r"[^\w.-]", "-", path.stem)
    content = ED25519 + key.public_key().public_bytes_raw()
    return f"{name}+{_number(name, content)}+{base64.b64encode(content).decode()}"


def _number(name: str, content: bytes) -> str:
    """The first four bytes of the hash of a key's name, algorithm and content, hexadecimal."""
    return hashlib.sha256(f"{name}\n".encode() + content).hexdigest()[:8]


def _library() -> tuple[Any, Any]:
    """The two parts of the library that are used here."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InvalidInput(
            "signatures need the package cryptography; install softfair[signing]"
        ) from None
    return ed25519, serialization
