"""How a command ends: an error is one line and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from .errors import InvalidInput, SoftFairError
from .programme.commands.shared import altered
from .terminal import survive_any_encoding, visible

__all__ = ["errors_in_one_line"]

# Such as postgresql://user:password@host/name, with any number of slashes or without an @, and
# password=...
SECRET = re.compile(
    r"(?i)\bpostgres[a-z0-9+]*:|\b[a-z][a-z0-9+.-]*:/\S*:\S*@|\S:\S*@\S*/"
    r"|\bpass(word|wd)?\s*=\s*\S"
)
NO_MEMORY = "there is not enough memory for that; nothing was changed"
TAKE_ADDRESSES = ("--db", "--on")  # options whose value is an address


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Run a command; an error leads to one line on stderr and exit code 2 (130 if interrupted)."""
    _open_what_is_closed()
    survive_any_encoding(sys.stdout, sys.stderr)
    try:
        _refuse_passwords(sys.argv[1:])
        yield
    except SoftFairError as error:
        print(f"softfair: {visible(str(error))}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("softfair: interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    except SystemExit:
        # If a pipe closes while a command prints, click has wrapped the output and exits with 1.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            sys.exit(0)
        raise
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the interpreter's last flush does not complain
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _fail(error)
        print(f"softfair: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        # Errors of click about arguments carry a message and an exit code.
        if hasattr(error, "format_message"):
            print(f"softfair: {_without_passwords(error.format_message())}", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        _fail(error)


def _without_passwords(text: str) -> str:
    """The error message with passwords removed, which a database address may contain."""
    text = re.sub(r"(?i)(pass\w*|pw)\s*=\s*[^\s()]+", r"\1=...", text)
    return re.sub(r"[^\s()'\"]*@", "...@", text)


def _refuse_passwords(words: list[str]) -> None:
    """Raise if an address with a password stands where none belongs, without repeating it.

    A message would repeat it, and the log keeps reasons, lucks and the names of rounds for good.
    """
    for before, word in zip(["", *words], words, strict=False):
        takes = before in TAKE_ADDRESSES or word.partition("=")[0] in TAKE_ADDRESSES
        if not takes and SECRET.search(word):
            raise InvalidInput(
                "an argument is the address of a database, which belongs to --db, between quotes "
                "if it has spaces; the password is better left to PGPASSWORD; nothing was done"
            )


def _open_what_is_closed() -> None:
    """Give a process without input or output one that holds nothing, as `>/dev/null` does.

    Otherwise the next file that is opened, such as the database, would take the output's place.
    """
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))  # noqa: SIM115


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is for want of memory, also to load a library."""
    signs = ("failed to map segment", "cannot allocate memory")
    while error is not None:
        if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in signs):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(error: Exception) -> NoReturn:
    """End on an unforeseen error: print one line if the reason is known, else raise it."""
    message = NO_MEMORY if _lacks_memory(error) else altered()
    if message is None:
        raise
    print(f"softfair: {message}", file=sys.stderr)
    sys.exit(2)
