"""Where a programme stands: its round, what is due, who waits longest, how the last round went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from .assignment import Trial, draft_of
from .bulk import UNKNOWN
from .commitments import Commitment
from .plans.commitments import waiting_trial_in
from .settings import Settings
from .snapshot import Snapshot, take_snapshot
from .store import Store, plan_in_force
from .tracks import FOREVER

__all__ = ["LastRound", "OpenRound", "Standing", "standing"]

Ints = NDArray[np.int64]

NAMED = 5  # people who wait longest that are named


@dataclass(frozen=True)
class OpenRound:
    """A planned round that is not over."""

    round: int
    listed: int
    told: int  # how many of these have a recorded contact


@dataclass(frozen=True)
class LastRound:
    """The last planned round that is over."""

    round: int
    listed: int
    reached: int  # of these
    off_list: int  # contacted and not listed
    seen: int  # people whose state after it is known
    good: int  # of these, in the best state


@dataclass(frozen=True)
class Standing:
    """Where a programme stands."""

    settings: Settings
    people: int  # in the programme now
    here: int  # of these, enrolled, and neither opted out nor left
    rounds: tuple[int, int] | None  # the first and last round of the history
    next_round: int
    planned: bool  # whether the next round has a plan
    open: tuple[OpenRound, ...]
    due: tuple[str, ...]  # what to do, in the order to do it
    waiting: tuple[tuple[str, int | None], ...]  # who waits longest: name, rounds (None: always)
    last: LastRound | None
    trial: str | None = None  # its rounds, arms and luck, in a sentence; None: there is none
    waits: str | None = None  # the same for a trial that is committed and not assigned yet

    def today(self, day: date) -> int | None:
        """The round that a day is in; None without a calendar."""
        calendar = self.settings.calendar
        return None if calendar is None else calendar.round_of(day)


def standing(database: Store, named: int = NAMED) -> Standing:
    """Where a programme stands; nothing is written.

    Parameters
    ----------
    database
        The programme.
    named
        How many of the people who wait longest to name.
    """
    with database.reading() as connection:
        now = take_snapshot(connection)
        number = plan_in_force(connection, now.next_round())
        committed = waiting_trial_in(connection, now)
        over = [at for at in now.over() if at in now.rounds.lists]
        last = None
        if over:
            last = _last(now, over[-1], now.rounds.lists[over[-1]])
    history, people = now.history, now.people
    at = now.next_round()
    gone = np.isin(np.arange(people.n), people.gone(at))
    opened = tuple(_open(now, r) for r in now.open_rounds())
    rounds = history.rounds
    return Standing(
        settings=now.settings,
        people=people.n - len(people.unnamed),
        here=int(np.count_nonzero(~gone & (people.enrolled <= at))),
        rounds=(int(rounds[0]), int(rounds[-1])) if len(rounds) else None,
        next_round=at,
        planned=number is not None,
        open=opened,
        due=tuple(_due(now, at, number is not None, opened, committed is not None)),
        waiting=_waiting(now, at, ~gone & (people.enrolled <= at), named),
        last=last,
        trial=None if now.trial is None else _said(now.trial, at),
        waits=None if committed is None else _waiting_said(committed),
    )


def _said(trial: Trial, at: int) -> str:
    """A trial in a sentence."""
    many = np.bincount(trial.arm, minlength=len(trial.design.arms))
    arms = ", ".join(f"{arm} {n}" for arm, n in zip(trial.design.arms, many, strict=True))
    by = "" if trial.design.sites is None else f", by {trial.design.sites}"
    over = ", over" * (at > trial.last)
    return (
        f"Trial: rounds {trial.first} to {trial.last}{over}; people: {arms}{by}. "
        f"{trial.luck.sentence('Assigned')}"
    )


def _waiting_said(committed: Commitment) -> str:
    """A trial that waits for its luck, in a sentence."""
    draft = draft_of(committed)
    return (
        f"Trial: rounds {draft.first} to {draft.last}, of {', '.join(draft.design.arms)}; it is "
        f"committed, with the code {committed.code}, and waits for its luck."
    )


def _open(now: Snapshot, at: int) -> OpenRound:
    listed = np.setdiff1d(now.rounds.lists[at], now.people.gone(at))
    _, contacted = now.history.of(at, now.people.n)
    return OpenRound(at, len(listed), int(np.count_nonzero(contacted[listed] >= 0)))


def _last(now: Snapshot, at: int, listed: Ints) -> LastRound:
    _, contacted = now.history.of(at, now.people.n)
    after, _ = now.history.of(at + 1, now.people.n)
    off_list = np.setdiff1d(np.flatnonzero(contacted == 1), listed)
    return LastRound(
        round=at,
        listed=len(listed),
        reached=int(np.count_nonzero(contacted[listed] == 1)),
        off_list=len(off_list),
        seen=int(np.count_nonzero(after >= 0)),
        good=int(np.count_nonzero(after == now.settings.S - 1)),
    )


def _due(
    now: Snapshot, at: int, planned: bool, opened: tuple[OpenRound, ...], waits: bool
) -> list[str]:
    """What to do next, as commands with the reason."""
    due = []
    for one in opened:
        due.append(
            f"softfair record FILE --round {one.round}: {one.listed - one.told} of {one.listed} "
            f"on the list of round {one.round} are not told of (all of it: add --close)"
        )
    if len(now.people.unnamed) == now.people.n:
        due.append("softfair import people FILE: nobody is in the programme")
    elif (reason := now.nothing_learnt()) is not None:
        due.append(f"softfair import history FILE: {reason}")
    elif waits:
        due.append("softfair trial --luck TEXT: the trial that is committed waits for its luck")
    elif not planned:
        due.append(f"softfair plan: {now.settings.called(at)} has no list yet")
    return due


def _waiting(
    now: Snapshot, at: int, here: NDArray[np.bool_], named: int
) -> tuple[tuple[str, int | None], ...]:
    """The people here whose last contact is longest ago, with the rounds since then."""
    last = now.history.last_contact(FOREVER, now.people.n)
    who = np.flatnonzero(here)
    order = who[np.argsort(last[who], kind="stable")][:named]
    return tuple(
        (now.people.names[i], None if last[i] == UNKNOWN else int(at - 1 - last[i])) for i in order
    )
