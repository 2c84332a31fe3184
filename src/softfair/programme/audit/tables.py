"""The tables of an audit, as text: the same on a terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .groups import Rate
from .memory import AFTER_CONTACT
from .off_policy import OffPolicyRow
from .outcomes import CalibrationRow, ChanceBin
from .result import Audit
from .several import SeveralRow
from .words import NONE, interval, number, p_value, percent, points

__all__ = ["Section", "outcome_name", "sections"]


@dataclass(frozen=True)
class Section:
    """A table, and a sentence or two on what it shows.

    Attributes
    ----------
    key : str
        Which table it is.
    title, lead : str
        Its heading and what it shows.
    headings : list of str
        Of the columns.
    rows : list of list of str
        The cells.
    """

    key: str
    title: str
    lead: str
    headings: list[str]
    rows: list[list[str]]


def sections(audit: Audit, across: bool = True) -> list[Section]:
    """Every table that has something in it.

    Parameters
    ----------
    audit : Audit
        What was found.
    across : bool
        Whether to show the tables that need several rounds.

    Returns
    -------
    list of Section
        In the order in which they are shown.
    """
    tables = (
        *(_effects, _arms) * (audit.trial is not None),
        *(_lists, _rounds, _spread, _groups, _off_policy, _several),
        *(_calibration, _drift, _memory),
    )
    return [
        section
        for table in tables
        if (across or table not in (_spread, _drift, _memory)) and (section := table(audit)).rows
    ]


def outcome_name(audit: Audit) -> str:
    """What an outcome is, by the number of states.

    Parameters
    ----------
    audit : Audit
        What was found.

    Returns
    -------
    str
        Such as: share in state good.
    """
    if len(audit.states) == 2:
        return f"share in state {audit.states[-1]}"
    return "mean reward (0 worst state, 100 % best)"


def _effects(audit: Audit) -> Section:
    assert audit.trial is not None
    return Section(
        "effects",
        "Effects of the trial",
        f"Difference in {outcome_name(audit)} over the rounds of the trial, by intention to treat, "
        f"in points of a hundred, with 95 % intervals; adjusted for {audit.trial.numbers} numbers "
        "that were known before, beside the plain difference of means. (!) is beyond chance, all "
        "comparisons of the trial taken together; there is no verdict before the trial is over.",
        ["arms", "effect", "p", "difference of means"],
        [
            [
                f"{row.arm} against {row.against}",
                points(row.effect) + interval(row.low, row.high, points),
                p_value(row.p, bool(row.told)),
                points(row.plain) + interval(row.plain_low, row.plain_high, points),
            ]
            for row in audit.trial.effects
            if not math.isnan(row.p)
        ],
    )


def _arms(audit: Audit) -> Section:
    assert audit.trial is not None
    return Section(
        "arms",
        "Arms of the trial",
        "As they were assigned. Rates are of the rounds that people were in the programme; the "
        f"outcome is the {outcome_name(audit)} after the rounds of the trial, a mean over people, "
        "and adjusted what it would be had all people been in this arm.",
        ["arm", "assigned", "people", "left", "seen", "listed", "contacted", "outcome", "adjusted"],
        [
            [
                row.arm,
                str(row.units),
                str(row.people),
                str(row.left),
                str(row.seen),
                percent(row.listed),
                percent(row.contacted),
                percent(row.outcome),
                percent(row.adjusted),
            ]
            for row in audit.trial.arms
        ],
    )


def _lists(audit: Audit) -> Section:
    return Section(
        "lists",
        "Lists against stated probabilities",
        f"How many should be listed, with the range that {audit.level:.0%} of honest draws keep to "
        "(a list has a fixed number of places, which narrows it), and how many were. Reached: of "
        "those listed whose contact is recorded.",
        [
            "stated chance",
            "in the draw",
            "expected",
            "listed",
            "p",
            "reached",
            "contacted off the list",
        ],
        [
            [
                f"{percent(row.from_)} to {percent(row.to)}",
                str(row.in_draw),
                number(row.expected) + interval(row.low, row.high, number),
                str(row.listed),
                p_value(row.p),
                percent(row.reached_share, 0)
                + interval(row.reached_low, row.reached_high, lambda share: percent(share, 0)),
                str(row.off_list),
            ]
            for row in audit.lists
        ],
    )


def _rounds(audit: Audit) -> Section:
    engagement = {row.round: row for row in audit.engagement}
    rows = []
    for row, fairness in zip(audit.rounds, audit.fairness, strict=True):
        after = engagement.get(row.round)
        outcome = [NONE, NONE, NONE]
        if after is not None:
            outcome = [
                percent(after.predicted) + interval(after.low, after.high, percent),
                percent(after.realised) + (" (!)" if after.flagged else ""),
                f"{after.brier:.3f} / {after.brier_of_share:.3f}",
            ]
        rows.append(
            [
                str(row.round),
                *([audit.days.get(row.round, NONE)] if audit.days else []),
                f"{row.c:.3g}",
                str(row.in_draw),
                str(row.listed),
                str(row.reached) if row.recorded else NONE,
                str(row.off_list) if row.recorded else NONE,
                *outcome,
                str(fairness.unfair_pairs),
            ]
        )
    return Section(
        "rounds",
        "Round by round",
        f"Predicted and realised: {outcome_name(audit)} after the round, of everybody whose "
        "contact and states before and after are known; in brackets where "
        f"{audit.level:.0%} of outcomes should lie if the model is right. Brier's score is 0 for "
        "perfect predictions; beside it that of giving everybody the same, realised share. Unfair "
        "pairs: the person who would gain less had the higher probability.",
        [
            "round",
            *(["from"] if audit.days else []),
            "c",
            "in the draw",
            "listed",
            "reached",
            "off the list",
            "predicted",
            "realised",
            "Brier",
            "unfair pairs",
        ],
        rows,
    )


def _spread(audit: Audit) -> Section:
    return Section(
        "spread",
        "Who is reached, and who waits",
        "Entropy and Gini's coefficient say how evenly lists and contacts fell on those in the "
        "draw: entropy is highest, Gini's 0, if all had as many. A wait is a run of rounds without "
        "a contact; all recorded rounds count, also those before the first plan.",
        ["", "lists", "contacts"],
        list(_spread_rows(audit)) if audit.rounds else [],
    )


def _spread_rows(audit: Audit) -> Iterator[list[str]]:
    spread = audit.spread
    yield ["in all", str(spread.lists), str(spread.contacts)]
    yield ["people in the draw", str(spread.in_draw), str(spread.in_recorded_draw)]
    yield ["of these never", str(spread.never_listed), str(spread.never_contacted)]
    ends = interval(spread.never_listed_low, spread.never_listed_high, number)
    expected = number(spread.never_listed_expected) + ends
    yield ["never, by the stated probabilities", expected, NONE]
    most = f"entropy (at most {spread.entropy_most:.2f})"
    yield [most, number(spread.entropy_listed, 2), number(spread.entropy_contacted, 2)]
    yield ["Gini", number(spread.gini_listed, 2), number(spread.gini_contacted, 2)]
    yield ["longest wait of anybody, rounds", NONE, number(spread.longest_wait, 0)]
    waiting = f"{number(spread.waiting_median)}, {number(spread.waiting_longest, 0)}"
    yield ["waiting now: median, longest", NONE, waiting]
    never = f"never since round {audit.at(spread.first_round)}, of {spread.here_now} here now"
    yield [never, NONE, str(spread.never_contacted_ever)]
    for person in spread.waiting_people or ():
        yield [person.id, NONE, f"waiting {person.rounds}"]


def _groups(audit: Audit) -> Section:
    return Section(
        "groups",
        "Groups",
        f"Rates a person and round, with {audit.level:.0%} intervals that take the rounds of a "
        "person together; in brackets the ratio to everybody's. Stated: what the probabilities "
        "say, p whether the lists agree with it. Values that only one person has are put together.",
        [
            "group",
            "people",
            "listed",
            "stated",
            "p",
            "contacted",
            f"outcome: {outcome_name(audit)}",
        ],
        [
            [
                f"{row.column} {row.value}".strip(),
                str(row.people),
                _rate(row.selection, bool(row.column)),
                percent(row.stated_rate),
                p_value(row.p, row.flagged),
                _rate(row.contact, bool(row.column)),
                _rate(row.outcome, bool(row.column)),
            ]
            for row in audit.groups
        ],
    )


def _rate(rate: Rate, with_ratio: bool) -> str:
    shown = percent(rate.rate) + interval(rate.low, rate.high, percent)
    return (
        f"{shown} [{rate.relative:.2f}]" if with_ratio and not math.isnan(rate.relative) else shown
    )


def _brought(row: OffPolicyRow | SeveralRow) -> list[str]:
    """A policy, the mean reward that it would have brought, and the difference."""
    if not row.estimable:
        return [row.policy, f"cannot be told: {row.why_not}", NONE]
    estimate = percent(row.estimate) + interval(row.low, row.high, percent)
    ends = interval(row.difference_low, row.difference_high, points)
    return [row.policy, estimate, points(row.difference) + ends]


def _off_policy(audit: Audit) -> Section:
    rows = [
        [*_brought(row), number(row.effective_listed, 0), number(row.effective_not_listed, 0)]
        for row in audit.off_policy
    ]
    return Section(
        "off_policy",
        "What another policy would have brought",
        f"{outcome_name(audit).capitalize()} in the round after, had each planned round's list "
        "been drawn by the other policy from the same people in the same states: one round ahead, "
        "by being listed (whose chance is known), not by being contacted. Inverse probability "
        f"weights, made to average 1; {audit.level:.0%} intervals say what other draws and other "
        "luck of the same people would have given. The last columns are how many rounds of "
        "people, listed and not, the estimate is worth.",
        ["policy", "estimate", "difference, points", "worth: listed", "not listed"],
        rows,
    )


def _several(audit: Audit) -> Section:
    first = audit.several[0] if audit.several else None
    windows = "" if first is None else f"{first.windows} times {first.horizon} rounds in a row"
    guessed = 0.0 if first is None else first.guessed
    return Section(
        "several",
        "What another policy would have brought over several rounds",
        f"{outcome_name(audit).capitalize()} over {windows}, had all their lists been drawn by the "
        "other policy: people would have come to be in other states. Doubly robust: right on "
        "average because the chances of the lists are known, with the model's guesses to lessen "
        f"the luck in it; {audit.level:.0%} intervals. {percent(guessed)} of the rounds of people "
        "are not known and rest on the model alone. Others are taken to be as they were. The last "
        "column is how many people of equal weight the estimate is worth.",
        ["policy", "estimate", "difference, points", "worth"],
        [[*_brought(row), number(row.effective, 0)] for row in audit.several],
    )


def _calibration(audit: Audit) -> Section:
    return Section(
        "calibration",
        "Predicted and observed",
        f"The chance of the best state next ({audit.states[-1]}), as the model of each plan gave "
        f"it, against what came. In brackets: where {audit.level:.0%} of observed shares should "
        "lie if the model is right.",
        ["predicted chance", "moves", "predicted", "observed", "p"],
        [
            [
                _moves(row),
                str(row.moves),
                percent(row.predicted) + interval(row.low, row.high, percent),
                percent(row.observed),
                p_value(row.p, row.flagged),
            ]
            for row in (*audit.calibration, *audit.cells)
        ],
    )


def _moves(row: CalibrationRow) -> str:
    if isinstance(row.moves_of, ChanceBin):
        return f"{percent(row.moves_of.from_, 0)} to {percent(row.moves_of.to, 0)}"
    return f"from {row.moves_of.state}, {_action(row.moves_of.contacted)}"


def _action(contacted: bool) -> str:
    return "contacted" if contacted else "not contacted"


def _drift(audit: Audit) -> Section:
    return Section(
        "drift",
        "Drift",
        f"Moves in rounds {audit.at(audit.recent.first)} to {audit.at(audit.recent.last)}, each "
        "against what the history before it led to expect of the same person; earlier: the plain "
        "share before, of whoever was in that state then. (!) is beyond chance, all tables taken "
        "together.",
        ["move", "earlier", "expected", "observed", "moves", "p"],
        [
            [
                f"{row.state} to {row.next}, {_action(row.contacted)}",
                percent(row.earlier),
                percent(row.expected) + interval(row.low, row.high, percent),
                percent(row.observed),
                str(row.moves),
                p_value(row.p, row.flagged),
            ]
            for row in audit.drift
        ],
    )


TAKES = {  # by the memory of the last plan, see `estimate.Memory`
    "none": "Plans take the state now for all that counts.",
    "2": "The last plan takes the state now and the one before for all that counts.",
    "contact": "The last plan takes the state now and a contact in the round before for all that "
    "counts.",
}


def _memory(audit: Audit) -> Section:
    return Section(
        "memory",
        "Does more than the state now tell?",
        f"{TAKES.get(audit.goes_by, TAKES['none'])} Here is how often people who were left "
        "alone stayed in a state, of those who were in it the round before, and of those who had "
        "been contacted the round before; against what is expected of the same people if that "
        "does not count. Chances that change with time look like memory, too.",
        ["state", "the round before", "moves", "expected", "stayed", "p"],
        [
            [
                row.state,
                "contacted" if row.after == AFTER_CONTACT else "in the same state",
                str(row.moves),
                number(row.expected),
                str(row.observed),
                p_value(row.p, row.flagged),
            ]
            for row in audit.memory
        ],
    )
