"""What an audit found, in sentences.

Each function looks at one thing and says what there is to say about it, mostly one sentence. What
calls for action begins with "Look:".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from .off_policy import LOTTERY
from .result import Audit
from .statistics import SIGNIFICANT
from .words import chance, count, points

__all__ = ["LOOK", "findings_of"]

LOOK = "Look:"
REPLAY = "replay the draws with: softfair plan --verify"
LISTS_SIGNIFICANT = SIGNIFICANT / 5  # one in a hundred honest programmes would be accused
MOST_NAMED = 5  # rounds in one sentence


def findings_of(audit: Audit) -> Iterator[str]:
    """What to take away.

    Parameters
    ----------
    audit : Audit
        The figures; its findings are not looked at.

    Yields
    ------
    str
        A sentence.
    """
    if not audit.people:
        yield "The programme has no people yet; import them with: softfair import people FILE."
    elif not audit.rounds:
        yield "No round has been planned yet; make a list with: softfair plan."
    else:
        for finding in FINDINGS:
            yield from finding(audit)


def impossible_lists(audit: Audit) -> Iterator[str]:
    """Places that contradict a certain or an impossible listing."""
    if audit.lists_test.impossible:
        places = count(audit.lists_test.impossible, "place")
        yield f"{LOOK} {places} on lists that a probability of 0 or 1 rules out; {REPLAY}."


def honest_lists(audit: Audit) -> Iterator[str]:
    """Whether the lists agree with the stated probabilities."""
    places = count(sum(row.listed for row in audit.rounds), "place")
    size = f"{places} on {count(len(audit.rounds), 'list')}"
    p = audit.lists_test.p
    if math.isnan(p):
        yield f"{size}: nothing was left to chance that could be checked."
    elif p < LISTS_SIGNIFICANT:
        yield (
            f"{LOOK} the lists do not agree with the stated probabilities ({chance(p)}); {REPLAY}."
        )
    else:
        yield f"The lists agree with the stated probabilities ({size}, {chance(p)})."


def plans_made_anew(audit: Audit) -> Iterator[str]:
    """Which rounds were planned more than once. The reasons are not told: they may name people."""
    anew = [row for row in audit.rounds if row.version > 1]
    if anew:
        rounds = [f"{row.round} ({row.version} versions)" for row in anew[:MOST_NAMED]]
        which = ", ".join([*rounds, "..."] if len(anew) > MOST_NAMED else rounds)
        yield f"{LOOK} planned more than once, each time for a reason that is kept: round {which}."


def contacts(audit: Audit) -> Iterator[str]:
    """How many of the listed were reached, who else was contacted."""
    if not any(row.recorded for row in audit.rounds):
        yield (
            "Nothing has been recorded of the planned rounds yet; tell what happened with: "
            "softfair record FILE."
        )
        return
    reached = sum(row.reached for row in audit.rounds)
    known = reached + sum(row.not_reached for row in audit.rounds)
    share = f" ({reached / known:.0%})" if known else ""
    off_list = count(sum(row.off_list for row in audit.rounds), "contact")
    yield f"Of {known} listed and recorded, {reached} were reached{share}; {off_list} off the list."
    if opted_out := sum(row.opted_out_contacted for row in audit.rounds):
        yield f"{LOOK} {count(opted_out, 'contact')} with people who had opted out."


def never_listed(audit: Audit) -> Iterator[str]:
    """How many were never listed, and how many that should be."""
    spread = audit.spread
    if spread.in_draw:
        expected = (
            f"{spread.never_listed_expected:.1f} "
            f"({spread.never_listed_low:.1f} to {spread.never_listed_high:.1f})"
        )
        yield (
            f"{spread.never_listed} of {spread.in_draw} people in the draw were never listed; "
            f"the probabilities say {expected}."
        )
    else:
        yield "Nobody was in the draw."


def waits(audit: Audit) -> Iterator[str]:
    """Who was never contacted, and who has waited longest."""
    spread = audit.spread
    if spread.waiting_longest is not None:
        yield (
            f"{spread.never_contacted_ever} of {spread.here_now} people here now were never "
            f"contacted since round {spread.first_round}; the longest has waited "
            f"{count(spread.waiting_longest, 'round')}."
        )


def soft_fairness(audit: Audit) -> Iterator[str]:
    """Whether anybody was favoured over someone who would gain more."""
    if unfair := sum(row.unfair_pairs for row in audit.fairness):
        largest = max(row.largest_difference for row in audit.fairness)
        yield (
            f"{LOOK} in {unfair} pairs who would gain less had the higher probability, "
            f"by up to {largest:.2g}."
        )
    elif any(row.pairs for row in audit.fairness):
        yield (
            "Soft fairness holds: nobody had a lower probability than someone who would gain less."
        )


def groups(audit: Audit) -> Iterator[str]:
    """Groups that were listed more or less often than the probabilities say."""
    for row in audit.groups:
        if row.flagged:
            yield (
                f"{LOOK} {row.column} {row.value} was listed at {row.selection.rate:.1%} a round, "
                f"the probabilities say {row.stated_rate:.1%}."
            )


def engagement(audit: Audit) -> Iterator[str]:
    """Outcomes against predictions, all rounds together."""
    rows = audit.engagement
    if rows:
        people = [row.people for row in rows]
        predicted = np.average([row.predicted for row in rows], weights=people)
        realised = np.average([row.realised for row in rows], weights=people)
        beyond = sum(row.flagged for row in rows)
        verdict = f"beyond chance in {count(beyond, 'round')}" if beyond else "within chance"
        yield (
            f"{f'{LOOK} ' if beyond else ''}Predicted engagement {predicted:.1%}, "
            f"realised {realised:.1%}: {verdict}."
        )
    elif any(row.recorded for row in audit.rounds):
        yield (
            "No states after a planned round are known yet, so nothing can be said about outcomes."
        )


def lottery(audit: Audit) -> Iterator[str]:
    """What a lottery would have brought instead."""
    for row in audit.off_policy:
        if row.policy == LOTTERY.name and row.estimable:
            ends = f"{points(row.difference_low)} to {points(row.difference_high)}"
            yield (
                "By lottery, the next round's engagement would have differed by "
                f"{points(row.difference)} points ({ends})."
            )
        elif row.policy == LOTTERY.name:
            yield f"What a lottery would have brought cannot be told: {row.why_not}."


def drift(audit: Audit) -> Iterator[str]:
    """Whether people move between states otherwise than they did before."""
    moved = [row for row in audit.drift if row.flagged]
    for row in moved:
        action = "after a contact" if row.contacted else "without a contact"
        yield (
            f"{LOOK} drift. From {row.state} {action}, {row.observed:.0%} went to {row.next} "
            f"since round {audit.recent.first}; {row.expected:.0%} were expected."
        )
    if audit.drift and not moved:
        yield (
            f"No drift since round {audit.recent.first}: "
            "people move between states as they did before."
        )


FINDINGS: tuple[Callable[[Audit], Iterator[str]], ...] = (
    impossible_lists,
    honest_lists,
    plans_made_anew,
    contacts,
    never_listed,
    waits,
    soft_fairness,
    groups,
    engagement,
    lottery,
    drift,
)
