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

from .errors import SoftFairError
from .programme.commands.shared import altered
from .terminal import survive_any_encoding, visible

__all__ = ["errors_in_one_line"]


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Run a command; an error leads to one line on stderr and exit code 2 (130 if interrupted)."""
    survive_any_encoding(sys.stdout, sys.stderr)
    try:
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
    except MemoryError:
        print("softfair: there is not enough memory for that; nothing was changed", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _fail()
        print(f"softfair: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        # Errors of click about arguments carry a message and an exit code.
        if hasattr(error, "format_message"):
            print(f"softfair: {_without_passwords(error.format_message())}", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        _fail()


def _without_passwords(text: str) -> str:
    """The error message with passwords removed, which a database address may contain."""
    text = re.sub(r"(?i)(pass\w*|pw)\s*=\s*[^\s()]+", r"\1=...", text)
    return re.sub(r"[^\s()'\"]*@", "...@", text)


def _fail() -> NoReturn:
    """End on an unforeseen error: print one line if a database was altered, else raise it."""
    message = altered()
    if message is None:
        raise
    print(f"softfair: {message}", file=sys.stderr)
    sys.exit(2)
