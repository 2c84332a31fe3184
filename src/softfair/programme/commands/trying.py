"""The command that assigns people to the arms of a trial: trial."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .planning import commitment_json, how_to_draw
from .shared import Database, Json, commands, examples, open_store, software

if TYPE_CHECKING:
    from ..assignment import Draft, Trial
    from ..plans import Commitment
    from ..store import Store

MEANING = {
    "softfair": "the programme's plan",
    "lottery": "everybody in the draw has the same chance",
    "usual": "the list names nobody; what they get otherwise they go on getting",
}
WHAT = "what its people get"
ARMS = "such as --arms softfair,lottery,usual"
# Options.
Arms = Annotated[
    str | None,
    typer.Option(
        help="Two or three of softfair (the plan), lottery (equal chances), usual (no list).",
        show_default="show the trial there is",
    ),
]
Share = Annotated[
    str | None,
    typer.Option(help="Of each arm: 0.4,0.3,0.3 or 40%,30%,30%.", show_default="all alike"),
]
Sites = Annotated[
    str | None,
    typer.Option(
        help="Assign whole values of this column, such as village.", show_default="people"
    ),
]
Balance = Annotated[
    str | None,
    typer.Option(
        help="Columns in which arms are to be alike, such as region,age.",
        show_default="what was seen before, in any case",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(help="How many rounds it lasts.", show_default="the programme's horizon"),
]
PowerOnly = Annotated[
    bool, typer.Option("--power", help="Tell what it could tell, and assign nobody.")
]
Commit = Annotated[
    bool,
    typer.Option(
        "--commit", help="Freeze the trial all but its luck, and print a code to give away."
    ),
]
Anew = Annotated[
    str | None,
    typer.Option(help="With --commit: why another trial than the one that waits for luck."),
]
LuckText = Annotated[
    str | None,
    typer.Option(
        "--luck", help="Assign what is committed with this: dice, tonight's lottery numbers."
    ),
]
BeaconFile = Annotated[
    Path | None,
    typer.Option(help="Assign what is committed with the drand round in this file."),
]


@commands.command(
    epilog=examples(
        "softfair trial --arms softfair,lottery,usual --power",
        "softfair trial --arms softfair,lottery,usual --share 40%,30%,30% --balance region,age",
        "softfair trial --arms softfair,usual --sites village --rounds 20",
        "softfair trial --arms softfair,usual --commit",
        "softfair trial --luck 'dice: 4 2 6 1 3'",
        "softfair trial",
    )
)
def trial(
    db: Database = "softfair.db",
    arms: Arms = None,
    share: Share = None,
    sites: Sites = None,
    balance: Balance = None,
    rounds: Rounds = None,
    power: PowerOnly = False,
    commit: Commit = False,
    anew: Anew = None,
    luck: LuckText = None,
    beacon: BeaconFile = None,
    as_json: Json = False,
) -> None:
    """Assign people, or whole sites, to the arms of a trial: at random, balanced, once. The plans
    of its rounds then draw within the arms, and the audit tells the effect."""
    from ..trials import Wish, assign, commit_trial, draft_trial, shares_said

    if (luck is not None) + (beacon is not None) + commit + power > 1:
        raise InvalidInput(
            "--power comes first, then --commit, then --luck or --beacon, each in a command of its "
            "own; give one of them"
        )
    if anew is not None and not commit:
        raise InvalidInput("--anew is why a trial is committed anew; give it with --commit")
    database = open_store(db)
    if arms is None:
        if any((share, sites, balance, rounds, power, commit)):
            raise InvalidInput(f"which arms? give at least two, {ARMS}")
        _go_on(database, luck, beacon, as_json)
        return
    if luck is not None or beacon is not None:
        raise InvalidInput(
            "a committed trial is assigned as it is; leave out all but --luck or --beacon, or "
            "freeze what you want first, with --commit"
        )
    names = _listed(arms.lower())
    wish = Wish(names, shares_said(share, len(names)), sites, _listed(balance or ""), rounds)
    if power:
        _show(
            draft_trial(database, software(), wish), as_json, "Nobody is assigned yet. It would be"
        )
    elif commit:
        committed, new = commit_trial(database, software(), wish, anew)
        _show_committed(committed, as_json, "Committed:" if new else "Committed before:")
    else:
        _show_assigned(database, assign(database, software(), wish), as_json, "Assigned now:")


def _go_on(database: Store, luck: str | None, beacon: Path | None, as_json: bool) -> None:
    """Assign the committed trial, or show the trial as it stands."""
    from ..luck import QUICKNET, Source, read_beacon
    from ..trials import draw_trial, trial_of, waiting_trial

    given = luck if beacon is None else read_beacon(beacon, QUICKNET)
    if given is not None:
        _show_assigned(database, draw_trial(database, given), as_json, "Assigned now:")
        return
    if (there_is := trial_of(database)) is not None:
        _show_assigned(database, there_is, as_json, "Assigned:")
        return
    committed = waiting_trial(database)
    if committed is None:
        raise InvalidInput(f"there is no trial; to make one give its arms, {ARMS}")
    _show_committed(committed, as_json, "Committed:")
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    word = typer.prompt(
        "A second person's word, that nobody could foresee (Enter: not yet)",
        default="",
        show_default=False,
        err=True,
    )
    if word.strip():
        made = draw_trial(database, word, Source.WORD)
        _show_assigned(database, made, as_json, "Assigned now:")


def _listed(text: str) -> list[str]:
    """The names between commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def _show_committed(committed: Commitment, as_json: bool, how: str) -> None:
    from ..assignment import draft_of

    lines = how_to_draw(committed, "the trial", "assign: softfair trial")
    about = {"commitment": commitment_json(committed)}
    _show(draft_of(committed), as_json, how, [f"Code: {committed.code}", *lines], about)


def _show_assigned(database: Store, made: Trial, as_json: bool, how: str) -> None:
    from ..commitments import code_before

    code, luck = code_before(database, made.luck), made.luck.sentence("Assigned")
    after = [] if code is None else [f"It was committed before, with the code {code}."]
    about = {"luck": luck, "code": code, "created": made.created}
    _show(made, as_json, how, [luck, *after], about)


def _show(
    draft: Draft,
    as_json: bool,
    how: str,
    more: Sequence[str] = (),
    about: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print a trial: its arms, its balance, its power, and ``more`` sentences."""
    from ...terminal import Table, say, show
    from ..power import Power

    rows, by_site = _rows(draft), draft.design.sites
    if as_json:
        parts = {
            "first": draft.first,
            "last": draft.last,
            "sites": by_site,
            "balanced": list(draft.design.columns),
            "arms": rows,
            "power": draft.power,
            **about,
        }
        print(json.dumps(parts, indent=1))
        return
    by = "people" if by_site is None else f"whole values of {by_site}"
    say(f"{how} a trial of rounds {draft.first} to {draft.last}, {by} at random.")
    told = ["arm", "people"] if by_site is None else ["arm", "assigned", "people"]
    cells = [
        [*("" if row[one] is None else str(row[one]) for one in told), MEANING[row["arm"]]]
        for row in rows
    ]
    headings = [*("sites" if one == "assigned" else one for one in told), WHAT]
    show(Table(headings, cells, words={"arm", WHAT}))
    say(f"Balanced in {', '.join(draft.design.columns)} (best of {draft.design.tries} draws).")
    for sentence in [*Power.from_json(draft.power).sentences(draft), *more]:
        say(sentence)


def _rows(draft: Draft) -> list[dict[str, Any]]:
    """A row for each arm; with whole sites, numbers of people are not known before the draw."""
    from ..assignment import Trial

    people: list[int] | None = None
    if isinstance(draft, Trial):
        people = [int((draft.arm == a).sum()) for a in range(len(draft.design.arms))]
    elif draft.design.sites is None:
        people = draft.counts.tolist()
    return [
        {
            "arm": str(arm),
            "share": draft.design.shares[a],
            "assigned": int(draft.counts[a]),
            "people": None if people is None else people[a],
        }
        for a, arm in enumerate(draft.design.arms)
    ]
