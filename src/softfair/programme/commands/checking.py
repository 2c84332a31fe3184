"""The command that checks what is stored: check."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InvalidInput
from .shared import Database, Json, commands, examples, open_store

if TYPE_CHECKING:
    from ..chain import Checkpoint
    from ..checks import Check

SHOWN = 20  # faults that are printed


@commands.command(
    epilog=examples(
        "softfair check", "softfair check --against list.csv", "softfair check --out head.txt"
    )
)
def check(
    db: Database = "softfair.db",
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="File with an earlier checkpoint: a text of it, or an export; - for standard "
            "input.",
        ),
    ] = None,
    signed_by: Annotated[
        str | None,
        typer.Option("--signed-by", help="Verifier of the key that must have signed --against."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the checkpoint of now to this file.")
    ] = None,
    new_key: Annotated[
        Path | None,
        typer.Option(
            "--new-key",
            help="Make a key that checkpoints are signed with if SOFTFAIR_KEY names it, and check "
            "nothing.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every table against the log, replay every draw, and compare with an earlier
    checkpoint."""
    if new_key is not None:
        from ..notes import new_key as make

        print(make(new_key))
        return
    from ..checks import check as examine

    earlier = _earlier(against, signed_by)
    result = examine(open_store(db), earlier)
    if out is not None:
        from ...files import write_whole

        write_whole(out, result.checkpoint.encode())
        print(out, file=sys.stderr)
    if as_json:
        print(json.dumps(_as_json(result), indent=1))
    else:
        _show(result, against)
    if result.wrong:
        raise InvalidInput(
            f"{len(result.wrong)} things are not as they were committed; the first: "
            f"{result.wrong[0]}"
        )


def _earlier(against: str | None, signed_by: str | None) -> Checkpoint | None:
    """The checkpoint in a file; its signature is checked if a verifier is given."""
    from ...files import refuse_address, refuse_device
    from ..chain import Checkpoint
    from ..notes import is_signed_by

    if against is None:
        if signed_by is not None:
            raise InvalidInput("--signed-by is about a checkpoint; name its file with --against")
        return None
    refuse_address(against)
    refuse_device(against)
    try:
        raw = sys.stdin.buffer.read() if against == "-" else Path(against).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"cannot read {against}: {error.strerror}; give a file with a checkpoint"
        ) from None
    text = raw.decode("utf-8", "replace")
    if signed_by is not None and not is_signed_by(text, signed_by):
        raise InvalidInput(f"{against} is not signed by that key; do not trust it")
    return Checkpoint.find(text)


def _as_json(result: Check) -> dict[str, object]:
    return {
        "entries": result.entries,
        "checkpoint": result.checkpoint,
        "began": result.began,
        "wrong": list(result.wrong),
        "plans": [verdict._asdict() for verdict in result.verdicts],
        "trial": None if result.trial is None else not result.trial,
    }


def _show(result: Check, against: str | None) -> None:
    for sentence in result.wrong[:SHOWN]:
        print(sentence)
    if len(result.wrong) > SHOWN:
        print(f"... and {len(result.wrong) - SHOWN} more; all of them with --json")
    if not result.faults:
        print(f"Every row of every table is what {result.entries:,} entries of the log say.")
    if result.began is not None:
        print(f"The log began on {result.began}; of changes before that it cannot tell.")
    good = sum(not verdict.wrong for verdict in result.verdicts)
    if not result.verdicts:
        print("There is no plan yet.")
    else:
        print(
            f"{good} of {len(result.verdicts)} plans: "
            "the same list and probabilities from the stored luck and scores."
        )
    if result.trial == ():
        print("The trial: the same arms from the stored luck and what was known before.")
    if against is not None and not result.wrong:
        print("Everything that stood at the earlier checkpoint still stands.")
    print(f"\n{result.checkpoint}", end="")
