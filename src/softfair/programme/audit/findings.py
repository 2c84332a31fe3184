"""What an audit found, in sentences.

Each function yields the sentences about one subject, mostly one. A sentence that calls for action
begins with "Look:".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ..luck import SHORT
from ..words import ROUNDING, percent
from .deeds import Exchange
from .memory import AFTER_CONTACT
from .off_policy import LOTTERY
from .result import Audit
from .statistics import LISTS_SIGNIFICANT
from .trial import TrialResult
from .words import chance, count, points

__all__ = ["LOOK", "findings_of"]

LOOK = "Look:"
REPLAY = "see: softfair check"
MOST_NAMED = 5  # rounds in one sentence


def findings_of(audit: Audit, across: bool = True) -> Iterator[str]:
    """The findings of an audit, in plain words.

    Parameters
    ----------
    audit : Audit
        The figures; its own findings are not read.
    across : bool
        Whether to include the findings that need several rounds.

    Yields
    ------
    str
        A sentence.
    """
    if audit.wrong and not (audit.people and audit.rounds):
        yield from checked(audit)  # the people or plans may have been removed
    if not audit.people:
        yield "The programme has no people yet; import them with: softfair import people FILE."
    elif not audit.rounds:
        yield "No round has been planned yet; make a list with: softfair plan."
    else:
        for finding in FINDINGS:
            if across or finding not in ACROSS:
                yield from finding(audit)


def checked(audit: Audit) -> Iterator[str]:
    """Whether the database is what was committed, entry by entry."""
    if audit.wrong:
        things = count(len(audit.wrong), "thing")
        yield f"{LOOK} {things} not as committed, the first: {audit.wrong[0]}; {REPLAY}."
    elif audit.entries:
        entries = count(audit.entries, "entry", "entries")
        yield (
            f"Checked with this audit: every row is what the log says ({entries}), "
            "and every draw replays."
        )


def luck(audit: Audit) -> Iterator[str]:
    """Where the luck of the lists came from, and so who could have known it."""
    own = [row for row in audit.deeds if row.luck in ("programme", "position")]
    if own:
        which = _rounds([audit.at(row.round) for row in own])
        chosen = SHORT in audit.checkpoint.partition("\n")[0]
        seed = "the seed was given by hand, and others may have been tried; " * chosen
        yield (
            "Drawn with the programme's own luck, "
            "which whoever holds the database could have known: "
            f"round {which} ({len(own)} of {len(audit.deeds)}); {seed}"
            "to leave it to others: softfair plan --commit."
        )
    elif audit.deeds:
        yield "All lists were drawn with luck that came from outside, after a commitment."


def deeds(audit: Audit) -> Iterator[str]:
    """What was done between the last record and the plan, and how often a plan was made."""
    for row in audit.deeds:
        changes = [
            count(row.eligibility, "person", "people") + " with changed facts"
            if row.eligibility
            else "",
            f"{count(row.corrected, 'correction')} of what was recorded" if row.corrected else "",
        ]
        if any(changes):
            yield (
                f"{LOOK} round {audit.at(row.round)}: between the last record and the plan, "
                f"{' and '.join(filter(None, changes))} (by {_rounds(list(row.by))})"
                f"{_without(row.changed)}."
            )
        if row.back:
            people = count(row.back, "person", "people")
            yield (
                f"{LOOK} round {audit.at(row.round)}: {people} taken out of the programme before "
                "the plan and put back after it."
            )
        if row.exchanged:
            yield (
                f"{LOOK} round {audit.at(row.round)}: {count(row.exchanged, 'name')} of its first "
                f"list not on the list in force{_named(row.replanned)}."
            )
        if row.commitments:
            commitments = count(row.commitments, "commitment")
            yield f"{LOOK} round {audit.at(row.round)}: {commitments} never drawn."


def _without(changed: Exchange | None) -> str:
    """What the list would have been without changes, as the end of a sentence."""
    if changed is None:
        return ""
    if not changed.entered and not changed.left:
        return "; the list would have been the same without"
    on, off = count(changed.entered, "person", "people"), changed.left
    return f"; by that {on} came onto the list and {off} went off it{_named(changed)}"


def _named(exchange: Exchange | None) -> str:
    """The people who entered the list and who left it, in brackets, if they are to be named."""
    if exchange is None:
        return ""
    parts = [("on: ", exchange.entered_people), ("off: ", exchange.left_people)]
    text = "; ".join(label + ", ".join(people) for label, people in parts if people)
    return f" ({text})" if text else ""


def _rounds(names: list[str]) -> str:
    """Several names in one sentence, or the first of them."""
    return ", ".join([*names[:MOST_NAMED], "..."] if len(names) > MOST_NAMED else names)


def impossible_lists(audit: Audit) -> Iterator[str]:
    """Listings at probability 0, and people not listed at probability 1."""
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
    """Which rounds were planned more than once, without the reasons, which may name people."""
    anew = [row for row in audit.rounds if row.version > 1]
    if anew:
        which = _rounds([f"{audit.at(row.round)} ({row.version} versions)" for row in anew])
        yield f"{LOOK} planned more than once, each time for a reason that is kept: round {which}."


def contacts(audit: Audit) -> Iterator[str]:
    """How many of the listed were reached, and how many others were contacted."""
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
    untold = [row for row in audit.rounds if row.recorded and row.not_recorded]
    last = max(audit.rounds, key=lambda row: row.round)
    if last in untold:  # it may still be under way
        untold.remove(last)
        yield (
            f"Round {audit.at(last.round)} is open: nothing is told yet of {last.not_recorded} of "
            f"the {count(last.listed, 'person', 'people')} on its list."
        )
    if untold:
        many = sum(row.not_recorded for row in untold)
        rounds = ", ".join(audit.at(row.round) for row in untold[:MOST_NAMED])
        yield (
            f"{LOOK} nothing is told of {count(many, 'person', 'people')} on the lists of "
            f"recorded rounds ({rounds}{', ...' if len(untold) > MOST_NAMED else ''})."
        )
    if opted_out := sum(row.opted_out_contacted for row in audit.rounds):
        yield f"{LOOK} {count(opted_out, 'contact')} with people who had opted out."


def reserves(audit: Audit) -> Iterator[str]:
    """How many were called from the reserve, without the reasons, which may name people."""
    called = sum(row.called for row in audit.rounds)
    if called:
        reached = sum(row.called_reached for row in audit.rounds)
        yield (
            f"{count(called, 'person', 'people')} called from the reserve, {reached} of them "
            "reached; no stated chance was touched."
        )
    if overrides := [row for row in audit.rounds if row.overrides]:
        many = sum(row.overrides for row in overrides)
        which = _rounds([f"{audit.at(row.round)} ({row.overrides})" for row in overrides])
        yield (
            f"{LOOK} {count(many, 'person', 'people')} called by an officer's decision, each for a "
            f"reason that is kept (softfair log): round {which}."
        )


def never_listed(audit: Audit) -> Iterator[str]:
    """How many people were never listed, and how many were expected to be."""
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
    """How many people were never contacted, and how long the longest has waited."""
    spread = audit.spread
    if spread.waiting_longest is not None:
        yield (
            f"{spread.never_contacted_ever} of {spread.here_now} people here now were never "
            f"contacted since round {audit.at(spread.first_round)}; the longest has waited "
            f"{count(spread.waiting_longest, 'round')}."
        )


def promises(audit: Audit) -> Iterator[str]:
    """Whether promises were kept, measured from the lists and chances themselves."""
    waits = [row for row in audit.rounds if row.wait]
    broken = [row for row in waits if row.longest_off >= row.wait]
    for row in broken:
        yield (
            f"{LOOK} round {audit.at(row.round)}: everybody was promised a place on one of any "
            f"{row.wait} lists in a row, and somebody has been left off {row.longest_off}."
        )
    if waits and not broken:
        places = count(sum(row.by_promise for row in waits), "place")
        closest = max(waits, key=lambda row: row.longest_off - row.wait)
        yield (
            f"The promised wait was kept in all {len(waits)} of {len(audit.rounds)} rounds that "
            f"had one: nobody in the draw was left off more than {closest.longest_off} lists in a "
            f"row where one of any {closest.wait} was promised; {places} went to people whose last "
            "list it was."
        )
    floors = [row for row in audit.rounds if row.least]
    for row in floors:
        if row.lowest < row.least * (1 - ROUNDING):
            yield (
                f"{LOOK} round {audit.at(row.round)}: a chance of at least {percent(row.least)} "
                f"was promised, and somebody had {percent(row.lowest)}."
            )
    if floors and all(row.lowest >= row.least * (1 - ROUNDING) for row in floors):
        yield f"The promised least chance was kept in all {len(floors)} rounds that had one."
    grouped = [row for row in audit.rounds if row.shares]
    for row in grouped:
        if row.shares_broken:
            yield (
                f"{LOOK} round {audit.at(row.round)}: {row.shares_broken} of {row.shares} bounds "
                "on the places of groups that were promised are broken."
            )
    if grouped and not any(row.shares_broken for row in grouped):
        yield (
            "What was promised of the places of groups was kept on every list of all "
            f"{len(grouped)} rounds that had such a promise."
        )


def soft_fairness(audit: Audit) -> Iterator[str]:
    """Whether anybody was favoured over someone who would gain more."""
    evened = [row.for_evenness for row in audit.fairness if row.for_evenness is not None]
    if unfair := sum(row.unfair_pairs for row in audit.fairness):
        largest = max(row.largest_difference for row in audit.fairness)
        what = "for whom gain and evenness count less" if evened else "who would gain less"
        yield (
            f"{LOOK} in {unfair} pairs the person {what} had the higher probability, "
            f"by up to {largest:.2g}."
        )
    elif evened:
        yield (
            "Nobody had a lower probability than someone for whom gain and evenness together "
            f"count less. In {sum(evened)} pairs the person who would gain less had the higher "
            "probability, for evenness: EvenHanded is fair in that sense, and not in that of gain "
            "alone."
        )
    elif earlier := [row.for_promise for row in audit.fairness if row.for_promise is not None]:
        grouped = any(row.shares for row in audit.rounds)
        alike = "had as many lists left" + " and the same promised groups" * grouped
        other = "another number of lists left" + " or other promised groups" * grouped
        yield (
            f"Nobody had a lower probability than someone who would gain less and {alike}. "
            f"In {sum(earlier)} pairs the person who would gain less had the higher probability, "
            f"and {other}: a promise is fair in that sense."
        )
    elif any(row.pairs for row in audit.fairness):
        across = sum(row.unfair_across for row in audit.fairness)
        where = "site" if audit.trial is None else "arm of the trial and site"
        within = f" of the same {where}" if any(row.sites > 1 for row in audit.fairness) else ""
        yield (
            f"Soft fairness holds: nobody had a lower probability than someone{within} who would "
            "gain less."
        )
        if across:
            sites = "sites" if audit.trial is None else "arms of the trial and sites"
            yield (
                f"Across {sites} it does not: in {across:,} pairs the person who would gain less "
                "had the higher probability, because each has a draw of its own."
            )


def without_site(audit: Audit) -> Iterator[str]:
    """How many people had no chance because no capacity is set for their group."""
    if many := audit.rounds[-1].no_site:
        yield (
            f"{LOOK} {count(many, 'person', 'people')} had no chance in round "
            f"{audit.at(audit.rounds[-1].round)}: no capacity is set for their group."
        )


def protected(audit: Audit) -> Iterator[str]:
    """Which columns of people the estimates do not use."""
    if audit.protected:
        yield (
            f"Kept out of the estimates: {', '.join(audit.protected)}. How their groups fared is "
            "in the table of groups; other columns may still tell of them."
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
    for over in audit.several:
        if over.policy == LOTTERY.name and over.estimable:
            ends = f"{points(over.difference_low)} to {points(over.difference_high)}"
            yield (
                f"By lottery for {over.horizon} rounds in a row, engagement over them would have "
                f"differed by {points(over.difference)} points ({ends})."
            )
        elif over.policy == LOTTERY.name:
            yield (
                f"What a lottery would have brought over {over.horizon} rounds cannot be told: "
                f"{over.why_not}."
            )


def trial(audit: Audit) -> Iterator[str]:
    """The result of a trial, and who counts in it."""
    result = audit.trial
    if result is None:
        return
    units = "people" if not result.sites else f"whole values of {result.sites}"
    arms = ", ".join(f"{row.arm} {count(row.people, 'person', 'people')}" for row in result.arms)
    yield (
        f"Trial of rounds {audit.at(result.first)} to {audit.at(result.last)}, {units} assigned at "
        f"random ({arms}). All count in the arm they were assigned to, whatever they got; "
        f"{_uncounted(result)}. {result.luck}"
    )
    if result.undrawn:
        commitments = count(result.undrawn, "commitment")
        yield (
            f"{LOOK} {commitments} of a trial never drawn: luck that came after may have been seen "
            "and passed over."
        )
    if not result.over:
        done = max(result.seen_until - result.first + 1, 0)
        yield (
            f"The trial is not over ({done} of {result.last - result.first + 1} rounds are known), "
            "so no verdict is given yet: whoever looks until an effect shows finds one by chance."
        )
    for row in result.effects:
        if row.told is None or math.isnan(row.p):
            continue
        ends = f"{points(row.low)} to {points(row.high)}, 95 % interval"
        verdict = "beyond chance" if row.told else "which chance may explain"
        yield (
            f"Trial: the mean outcome with {row.arm} differs from that with {row.against} by "
            f"{points(row.effect)} points ({ends}), {verdict}."
        )
    for lost in result.missing:
        if lost.flagged:
            yield (
                f"{LOOK} of {lost.arm} {lost.missing:.0%} have no outcome, of {lost.against} "
                f"{lost.missing_against:.0%}: what the trial says is of those who were seen."
            )


def _uncounted(result: TrialResult) -> str:
    """How many are not counted in a trial, and how many only for the rounds before they left."""
    missing = [(row.arm, row.people - row.seen) for row in result.arms]
    unseen = sum(many for _, many in missing)
    by_arm = ", ".join(f"{arm} {many}" for arm, many in missing)
    left = sum(row.left for row in result.arms)
    return (
        f"{unseen} were not seen in it and are left out{f' ({by_arm})' if unseen else ''}, {left} "
        f"left and count with what was seen before, {result.later} came later and do not count"
    )


def drift(audit: Audit) -> Iterator[str]:
    """Whether people move between states with other chances than before."""
    moved = [row for row in audit.drift if row.flagged]
    for row in moved:
        action = "after a contact" if row.contacted else "without a contact"
        yield (
            f"{LOOK} drift. From {row.state} {action}, {row.observed:.0%} went to {row.next} "
            f"since round {audit.at(audit.recent.first)}; {row.expected:.0%} were expected."
        )
    if audit.drift and not moved:
        yield (
            f"No drift since round {audit.at(audit.recent.first)}: "
            "people move between states as they did before."
        )


def memory(audit: Audit) -> Iterator[str]:
    """Whether the state before, or a contact the round before, counts beside the state now."""
    for row in audit.memory:
        if row.flagged:
            who, memory = "people who were in it the round before", "2"
            if row.after == AFTER_CONTACT:
                who, memory = "people who had been contacted the round before", "contact"
            plans = "The last plan goes by that, too."
            if audit.goes_by != memory:
                plans = f"Whether plans gain by that: softfair fit --memory {memory}."
            yield (
                f"{LOOK} more than the state now tells what comes. In state {row.state}, {who} "
                f"stayed {row.observed} times; {row.expected:.0f} are expected of the same people "
                f"if only the state now counts and chances do not change with time. {plans}"
            )


FINDINGS: tuple[Callable[[Audit], Iterator[str]], ...] = (
    checked,
    luck,
    deeds,
    impossible_lists,
    honest_lists,
    plans_made_anew,
    contacts,
    reserves,
    never_listed,
    waits,
    promises,
    soft_fairness,
    without_site,
    protected,
    groups,
    engagement,
    lottery,
    trial,
    drift,
    memory,
)
# Findings that need several rounds.
ACROSS = (never_listed, waits, drift, memory)
