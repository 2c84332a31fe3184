"""How a programme was run: its lists, contacts and outcomes, against what was stated and predicted.

Rooms, each on those before it: ``words`` (how a figure is written), ``plain`` (typed rows as JSON),
``statistics`` (what chance explains), ``deeds`` (what was done that could bend a list),
``evidence`` (what is read from the database), ``single`` (the part of it that is about one
round), the measures ``lists``, ``spread``, ``groups``,
``outcomes``, ``memory``, ``off_policy``, ``several`` and ``trial``, ``result`` (all of it),
``logged`` (all of it as rows), ``findings`` (in sentences), ``tables``, ``pictures`` and
``presentation`` (on a terminal and as a page). The equations stand at the top of the room that
computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import InvalidInput
from .evidence import Evidence, Store, read
from .findings import findings_of
from .groups import groups_of
from .lists import fairness_of, lists_of, rounds_of
from .memory import memory_of
from .off_policy import off_policy_of, policies_for
from .outcomes import calibration_of, cells_of, drift_of, engagement_of
from .presentation import show, write_page
from .result import Audit
from .several import several_rounds_of
from .single import of_round
from .spread import spread_of
from .statistics import alarm_level, flag, quantile
from .tables import Section, sections
from .trial import TrialResult, trial_result

__all__ = ["Audit", "Section", "audit", "measure", "sections", "show", "write_page"]


def audit(
    database: Store,
    cs: Sequence[float] = (),
    names: int = 0,
    round: int | None = None,
    horizon: int = 1,
) -> Audit:
    """Audit what is recorded of the programme at one moment; nothing is written.

    Parameters
    ----------
    database : Store
        The programme.
    cs : sequence of float, optional
        Multipliers c of other policies to estimate, instead of half and twice the programme's own.
    names : int, optional
        How many to name of those who wait longest, and of those who are on a list, or not, by what
        was done shortly before it.
    round : int, optional
        Audit this round alone, instead of all rounds.
    horizon : int
        Rounds over which other policies are estimated, beside one round ahead.

    Returns
    -------
    Audit
        Every figure and what it means in words.

    Raises
    ------
    InvalidInput
        If that round has no plan, or fewer rounds than ``horizon`` can be looked at.
    """
    evidence = read(database, 1 if round is not None else horizon)
    if round is None and horizon > 1 and not evidence.models:
        raise InvalidInput(
            f"no {horizon} planned rounds in a row have known outcomes (of "
            f"{len(evidence.planned)} planned in all): take fewer, or record more rounds"
        )
    if round is None:
        return measure(evidence, cs, names)
    measured = measure(of_round(evidence, round), cs, names)
    return replace(measured, findings=tuple(findings_of(measured, across=False)))


def measure(evidence: Evidence, cs: Sequence[float] = (), names: int = 0) -> Audit:
    """Compute an audit from evidence that was read.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    cs, names
        See `audit`.

    Returns
    -------
    Audit
        Every figure and what it means in words.
    """
    settings, people, history = evidence.settings, evidence.people, evidence.history
    planned, predictions = evidence.planned, evidence.predictions
    z, S = quantile(settings.level), settings.S
    lists, lists_test = lists_of(planned, z)
    spread, histograms = spread_of(planned, people, history, z, names)
    drift, recent = drift_of(predictions, history, people.n, settings.states, z)
    groups, engagement = groups_of(planned, people, S, z), engagement_of(predictions, z)
    calibration = calibration_of(predictions, z)
    cells = cells_of(predictions, settings.states, z)
    memory, trial = memory_of(history, settings.states, settings.cooldown), _trial(evidence)
    missing = () if trial is None else trial.missing
    compared = (groups, engagement, calibration, cells, drift, memory, missing)
    alarm = alarm_level(row.p for table in compared for row in table)
    measured = Audit(
        people=people.n,
        round_name=settings.round,
        states=settings.states,
        level=settings.level,
        findings=(),
        rounds=rounds_of(planned),
        lists=lists,
        lists_test=lists_test,
        spread=spread,
        groups=flag(groups, alarm),
        fairness=fairness_of(planned),
        engagement=flag(engagement, alarm),
        off_policy=off_policy_of(planned, policies_for(planned, cs), predictions.means, S, z),
        calibration=flag(calibration, alarm),
        cells=flag(cells, alarm),
        drift=flag(drift, alarm),
        recent=recent,
        histograms=histograms,
        deeds=tuple(one.named(names) for one in evidence.deeds),
        entries=evidence.check.entries,
        wrong=evidence.check.wrong,
        checkpoint=evidence.check.checkpoint,
        days=_days(evidence, [recent.first, recent.last, spread.first_round]),
        protected=settings.protected,
        memory=flag(memory, alarm),
        goes_by=evidence.goes_by,
        several=several_rounds_of(
            planned,
            policies_for(planned, cs),
            evidence.models,
            evidence.horizon,
            settings.cooldown,
            z,
        ),
        trial=None if trial is None else replace(trial, missing=flag(missing, alarm)),
    )
    return replace(measured, findings=tuple(findings_of(measured)))


def _trial(evidence: Evidence) -> TrialResult | None:
    """What the trial found, if there is one."""
    if evidence.trial is None:
        return None
    people, history, S = evidence.people, evidence.history, evidence.settings.S
    found = trial_result(evidence.trial, people, history, evidence.planned, S)
    return replace(found, undrawn=evidence.undrawn)


def _days(evidence: Evidence, others: Sequence[int | None]) -> dict[int, str]:
    """The first day of every planned round and of some others, if rounds have dates."""
    calendar = evidence.settings.calendar
    if calendar is None:
        return {}
    rounds = {one.round for one in evidence.planned} | {at for at in others if at is not None}
    return {at: str(calendar.start(at)) for at in sorted(rounds)}
