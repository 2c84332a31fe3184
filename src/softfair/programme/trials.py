"""Making a trial: who is in it and in which arm, in one step or in two with a commitment.

What is asked becomes a `Draft`, a trial without its luck. Either it is assigned at once, with the
programme's own luck; or it is frozen in a commitment (`commitments`) and assigned when luck has
come from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import NoReturn

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from . import schema, store
from .assignment import (
    Arm,
    Design,
    Draft,
    Trial,
    assigned,
    draft_of,
    frozen,
    is_frozen_in,
    load_trial,
    store_trial,
    tries_of,
    units_of_arms,
)
from .commitments import (
    OF_TRIAL,
    Commitment,
    last_trial_committed,
    luck_after,
    store_commitment,
)
from .luck import QUICKNET, TRIAL, Beacon, Chain, Luck, Source
from .plans.commitments import open_commitment_in, waiting_trial_in
from .power import Units, known_of, power_of
from .settings import Settings, current_settings
from .snapshot import People, Snapshot, load_details, take_snapshot
from .store import Connection, Store, names_of

__all__ = [
    "Wish",
    "assign",
    "commit_trial",
    "draft_trial",
    "draw_trial",
    "shares_said",
    "trial_of",
    "waiting_trial",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_UNITS = 2  # of an arm: the variance of one is not known
SUMS = 1e-9  # how far from 1 the sum of shares may be


def shares_said(text: str | None, arms: int) -> tuple[float, ...]:
    """The shares that ``0.5,0.3,0.2`` or ``50%,30%,20%`` stands for; None: equal shares.

    Raises
    ------
    InvalidInput
        If it is not one positive share for each arm, or they do not sum to 1.
    """
    if text is None:
        return (1 / max(arms, 1),) * arms  # that there are no arms is refused elsewhere
    example = "40%,30%,30%" if arms == 3 else "60%,40%"
    try:
        shares = tuple(
            float(part.strip().removesuffix("%")) / (100 if part.strip().endswith("%") else 1)
            for part in text.split(",")
        )
    except ValueError:
        shares = ()
    if len(shares) != arms or not all(0 < share < 1 for share in shares):
        raise InvalidInput(
            f"the shares are {text!r}; give a share above 0 for each of the {arms} arms, such as "
            f"{example}"
        )
    if abs(sum(shares) - 1) > SUMS:
        raise InvalidInput(
            f"the shares {text!r} sum to {100 * sum(shares):g}%; make it 100%, such as {example}"
        )
    return shares


@dataclass(frozen=True)
class Wish:
    """What is asked of a trial.

    Attributes
    ----------
    arms : sequence of str
        Names of `Arm`.
    shares : sequence of float
        The share of the people or sites in each arm; positive, and 1 in total.
    sites : str, optional
        A group column whose values are assigned as a whole. Default: people are assigned.
    balance : sequence of str
        Columns in which the arms are to be alike, besides what was seen of people before.
    rounds : int, optional
        How many rounds it lasts. Default: the rounds that a plan looks ahead.
    """

    arms: Sequence[str]
    shares: Sequence[float]
    sites: str | None = None
    balance: Sequence[str] = ()
    rounds: int | None = None


def draft_trial(database: Store, software: str, wish: Wish) -> Draft:
    """A trial as it would be assigned now, without its luck; nothing is written.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the trial is stamped with.
    wish
        What is asked of it.

    Raises
    ------
    InvalidInput
        If there is a trial already, if it could not begin, if the history is too short to tell its
        power, or if arms, shares or columns are wrong.
    """
    with database.reading() as connection:
        return _drafted(connection, take_snapshot(connection), software, wish)


def assign(database: Store, software: str, wish: Wish) -> Trial:
    """Assign everybody who is in the programme to the arms of a trial, once.

    The luck is the programme's own; luck from outside comes after a commitment (`commit_trial`).

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the trial is stamped with.
    wish
        What is asked of it.

    Returns
    -------
    Trial
        Who is in which arm.

    Raises
    ------
    InvalidInput
        As `draft_trial`, and if a trial is committed.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        committed = waiting_trial_in(connection, now)
        if committed is not None:
            raise InvalidInput(
                f"a trial is committed, with the code {committed.code}; assign people with luck "
                "from outside: softfair trial --luck TEXT, or --beacon FILE"
            )
        draft = _drafted(connection, now, software, wish)
        return _assigned(connection, draft, now.settings, Luck(Source.PROGRAMME))


def commit_trial(
    database: Store, software: str, wish: Wish, anew: str | None = None, chain: Chain = QUICKNET
) -> tuple[Commitment, bool]:
    """Freeze a trial, without its luck.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the commitment is stamped with.
    wish
        What is asked of the trial.
    anew
        The reason to commit another trial than the one that waits for its luck.
    chain
        The chain of beacons of which one round may be the luck.

    Returns
    -------
    tuple of Commitment and bool
        The commitment, and whether it was made now.

    Raises
    ------
    InvalidInput
        As `draft_trial`, and if another trial is committed and no reason is given.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        earlier = waiting_trial_in(connection, now)
        draft, names = _drafted(connection, now, software, wish), names_of(connection)
        if anew is None and earlier is not None:
            same = replace(draft, software=draft_of(earlier).software)
            if is_frozen_in(earlier, same, names):
                return earlier, False
            raise InvalidInput(
                f"another trial is committed, with the code {earlier.code}: its arms, rounds, "
                "columns or settings differ, or its people, or what is known of them; assign that "
                "one with --luck TEXT or --beacon FILE, or commit this one: --commit --anew REASON"
            )
        _check_anew(anew, earlier)
        parts, arrays = frozen(draft, names)
        header = {OF_TRIAL: {**parts, "anew": anew}}
        return store_commitment(connection, draft.first, header, arrays, chain), True


def draw_trial(
    database: Store, luck: str | Beacon, source: Source = Source.TEXT, chain: Chain = QUICKNET
) -> Trial:
    """Assign people to the arms of a committed trial with luck from outside.

    Parameters
    ----------
    database
        The programme.
    luck
        What was seen or said after the commitment, or a round of the chain of beacons.
    source
        Whether a text was seen in public or is a second person's word.
    chain
        The chain of beacons that is trusted.

    Returns
    -------
    Trial
        Who is in which arm.

    Raises
    ------
    InvalidInput
        If no trial is committed, if its first round is planned or over by now, or if the luck
        cannot be used: a beacon that is forged or of another round than the commitment's, or luck
        that was used before.
    """
    with database.writing() as connection:
        _refuse_another(load_trial(connection))
        last = last_trial_committed(connection)
        committed = (
            None if last is None else waiting_trial_in(connection, take_snapshot(connection))
        )
        if committed is None:
            _refuse_luck(last)
        given = luck_after(connection, committed, luck, source, chain)
        _, settings = current_settings(connection)
        return _assigned(connection, draft_of(committed), settings, given)


def _refuse_luck(last: Commitment | None) -> NoReturn:
    """Refuse luck that no trial waits for; the last trial that was committed may have lapsed."""
    wanted = "luck comes after a commitment: softfair trial --arms softfair,lottery,usual --commit"
    if last is None:
        raise InvalidInput(f"no trial is committed; {wanted}")
    raise InvalidInput(
        f"the trial with the code {last.code} can begin no more: its first round, {last.round}, is "
        f"over, planned or committed; commit another, {wanted}"
    )


def _check_anew(reason: str | None, earlier: Commitment | None) -> None:
    if reason is None:
        return
    if earlier is None:
        raise InvalidInput("no trial waits for its luck; leave --anew out")
    if not reason.strip():
        raise InvalidInput(
            "a trial is committed anew for a reason; say it, such as --anew 'shares were mistyped'"
        )


def _drafted(connection: Connection, now: Snapshot, software: str, wish: Wish) -> Draft:
    """A trial without its luck."""
    arms, sites, balance = _arms_said(wish.arms), wish.sites, wish.balance
    _refuse_another(now.trial)
    first = now.next_round()
    last = _last(now.settings, first, wish.rounds)
    _refuse_planned(connection, first)
    _refuse_personal(connection, now.people, [*balance, *([] if sites is None else [sites])])
    units = _units(now, first, sites)
    counts = _counts(units, arms, wish.shares)
    X, columns = known_of(now, first, units, balance)
    design = Design(
        arms=arms,
        shares=tuple(wish.shares),
        sites=sites,
        values=() if sites is None else tuple(units.names),
        columns=columns,
        tries=tries_of(counts),
    )
    return Draft(
        software=software,
        setting=now.setting,
        first=first,
        last=last,
        design=design,
        power=asdict(power_of(now, first, last, units, arms, counts, balance)),
        X=X,
        person=units.person,
        unit=units.unit,
    )


def _assigned(connection: Connection, draft: Draft, settings: Settings, luck: Luck) -> Trial:
    """Assign people by luck, and store the trial."""
    key = luck.key(settings.seed, draft.first, TRIAL)
    arm, chosen = assigned(key, draft.unit_names(names_of(connection)), draft.X, draft.counts)
    trial = Trial(
        **vars(draft),
        id=0,
        created=store.now(),
        luck=luck,
        key=key,
        chosen=chosen,
        arm=arm[draft.unit],
    )
    return replace(trial, id=store_trial(connection, trial))


def trial_of(database: Store) -> Trial | None:
    """The trial of a programme, if it has one."""
    with database.reading() as connection:
        return load_trial(connection)


def waiting_trial(database: Store) -> Commitment | None:
    """The commitment of a trial that waits for its luck, if there is one."""
    with database.reading() as connection:
        if last_trial_committed(connection) is None:  # then there may be no people either
            return None
        return waiting_trial_in(connection, take_snapshot(connection))


def _arms_said(names: Sequence[str]) -> tuple[Arm, ...]:
    known = ", ".join(Arm)
    if unknown := [name for name in names if name not in list(Arm)]:
        raise InvalidInput(f"there is no arm {unknown[0]!r}; known: {known}")
    if len(set(names)) < max(len(names), 2):
        raise InvalidInput(
            f"the arms are {', '.join(names) or 'none'}; give at least two of {known}, each once"
        )
    return tuple(Arm(name) for name in names)


def _refuse_another(before: Trial | None) -> None:
    if before is not None:
        raise InvalidInput(
            f"the programme has a trial already, assigned {before.created[:10]} for rounds "
            f"{before.first} to {before.last}; people are assigned once, so nothing was changed"
        )


def _refuse_planned(connection: Connection, first: int) -> None:
    p = schema.plan
    planned = connection.execute(sa.select(p.c.round).where(p.c.round >= first)).scalars().first()
    if planned is None and open_commitment_in(connection, first) is not None:
        planned = first
    if planned is not None:
        raise InvalidInput(
            f"round {planned} is planned or committed already; assign people after it is over "
            "(softfair record), before the next list is drawn"
        )


def _refuse_personal(connection: Connection, people: People, names: Sequence[str]) -> None:
    """Refuse columns that are kept for worksheets, because each person has a value of their own."""
    known = people.columns()
    missing = [name for name in names if name not in known]
    if not missing:
        return
    kept = {name for details in load_details(connection).values() for name in details}
    if personal := [name for name in missing if name in kept]:
        raise InvalidInput(
            f"{personal[0]} names each person, it is kept for worksheets alone; leave it out"
        )


def _last(settings: Settings, first: int, rounds: int | None) -> int:
    """The last round of a trial."""
    if rounds is not None and rounds < 1:
        raise InvalidInput(f"the trial has {rounds} rounds; give at least 1")
    last = first + (settings.horizon if rounds is None else rounds) - 1
    if last + 1 >= schema.BEYOND:  # a state after the last round can be recorded
        raise InvalidInput(f"the trial would end with round {last}; give fewer --rounds")
    if settings.ends is None:
        return last
    if first > settings.ends or (rounds is not None and last > settings.ends):
        raise InvalidInput(
            f"the trial would end with round {last}, the programme ends with round "
            f"{settings.ends}; give fewer --rounds, or let it go on with: softfair init --ends none"
        )
    return min(last, settings.ends)


def _units(now: Snapshot, first: int, sites: str | None) -> Units:
    """The people in the programme when the trial begins, as units or in units by site."""
    people = now.people
    here = ~np.isin(np.arange(people.n), people.gone(first)) & (people.enrolled <= first)
    person = np.flatnonzero(here)
    if sites is None:
        names = [people.names[i] for i in person]
        return Units(person, np.arange(len(person)), names, None)
    values, code = people.group(sites)
    blank = [place for place, value in enumerate(values) if not value]
    if many := int(np.isin(code[person], blank).sum()):
        raise InvalidInput(
            f"{many} of {len(person)} people have no {sites}; import it for them, or leave --sites "
            "out to assign people"
        )
    there, unit = np.unique(code[person], return_inverse=True)
    if len(there) > len(person) / 2:
        raise InvalidInput(
            f"{sites} has {len(there)} values for {len(person)} people, it names nearly each of "
            "them; leave --sites out to assign people"
        )
    return Units(person, unit, [values[place] for place in there], sites)


def _counts(units: Units, arms: Sequence[Arm], shares: Sequence[float]) -> Ints:
    """How many units each arm has."""
    if len(shares) != len(arms) or min(shares) <= 0 or abs(sum(shares) - 1) > SUMS:
        raise InvalidInput(
            f"the shares are {', '.join(f'{share:g}' for share in shares)}; give a share above 0 "
            f"for each of the {len(arms)} arms, that sum to 1"
        )
    m, what = len(units.names), units.sites or "people"
    counts = units_of_arms(m, shares)
    if counts.min() < LEAST_UNITS:
        few = arms[int(counts.argmin())]
        raise InvalidInput(
            f"of {m} {what if units.sites is None else f'values of {what}'} the arm {few} would "
            f"have {counts.min()}, and each needs at least {LEAST_UNITS}; give fewer arms or other "
            "shares"
        )
    return counts
