"""How a programme was run: its lists, contacts and outcomes, against what was stated and predicted.

Modules, each built on those before it: ``words`` (how a figure is written), ``statistics`` (what
chance explains), ``design`` (the law of a list), ``deeds`` (what was done that could bend a list),
``planned`` (one planned round), ``predicted`` (what its model predicted), ``evidence`` (what is
read from the database), the measures ``lists``, ``spread``, ``groups``, ``outcomes``, ``memory``,
``off_policy``, ``several`` and ``trial``, ``measures`` (all measures, fed round by round),
``result`` (every figure), ``logged`` (the planned rounds as rows, for other tools), ``findings``
(the figures in sentences), ``tables``, ``pictures`` and ``presentation`` (on a terminal and as a
page). The equations stand at the top of the module that computes them.

A measure of planned rounds gets one round after the other (``add``) and keeps sums, so that most of
an audit needs no more memory for many rounds than for few. Four things grow: the history (two bytes
a person and round); everybody's chances until the bins are known (eight bytes a person and round,
see `lists.Bins`); where a wait is promised, a byte a person and round (see `lists.RoundRows`); and
with a horizon, the rounds of one window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import InvalidInput, StoreError
from ..checks import check_in
from ..store import Store
from .evidence import Evidence, read
from .findings import findings_of
from .lists import RoundRow
from .measures import Measures
from .memory import memory_of
from .presentation import show, write_page
from .result import Audit
from .spread import spread_of
from .statistics import alarm_level, flag
from .tables import Section, sections
from .trial import Listed, TrialResult, trial_result

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
        How many people to name of those who wait longest, and of those whom changes shortly before
        a list put on it or took off it.
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
    with database.reading() as connection:
        check = check_in(connection)
        try:
            evidence = read(connection, check, round)
            measured = measure(evidence, cs, names, 1 if round is not None else horizon)
        except InvalidInput:
            raise
        except (ValueError, TypeError, KeyError, IndexError, OverflowError):
            if not check.wrong:
                raise
            raise StoreError(
                f"the database was altered so that it cannot be read: {check.wrong[0]}; "
                "see: softfair check"
            ) from None
    if round is None:
        return measured
    return replace(measured, findings=tuple(findings_of(measured, across=False)))


def measure(
    evidence: Evidence, cs: Sequence[float] = (), names: int = 0, horizon: int = 1
) -> Audit:
    """Compute an audit from evidence that was read.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    cs, names, horizon
        See `audit`.

    Returns
    -------
    Audit
        Every figure and what it means in words.

    Raises
    ------
    InvalidInput
        If fewer rounds than ``horizon`` can be looked at.
    """
    settings, people, history = evidence.settings, evidence.people, evidence.history
    measures = Measures(evidence, cs, horizon)
    z = measures.z
    lists, lists_test = measures.lists.result(z)
    spread, histograms = spread_of(measures.shares, people, history, z, names)
    groups, engagement, drift = measures.groups.rows(z), measures.engagement, measures.drift.rows(z)
    calibration = measures.calibration.bins(z)
    cells = measures.calibration.cells(settings.states, z)
    memory = memory_of(history, settings.states, settings.cooldown)
    trial = _trial(evidence, measures.listed)
    missing = () if trial is None else trial.missing
    compared = (groups, engagement, calibration, cells, drift, memory, missing)
    alarm = alarm_level(row.p for table in compared for row in table)
    recent = measures.drift.recent
    measured = Audit(
        people=people.n,
        round_name=settings.round,
        states=settings.states,
        level=settings.level,
        findings=(),
        rounds=tuple(measures.rounds.rows),
        lists=lists,
        lists_test=lists_test,
        spread=spread,
        groups=flag(groups, alarm),
        fairness=tuple(measures.fairness),
        engagement=flag(engagement, alarm),
        off_policy=measures.off_policy.rows(z),
        calibration=flag(calibration, alarm),
        cells=flag(cells, alarm),
        drift=flag(drift, alarm),
        recent=recent,
        histograms=histograms,
        deeds=tuple(deed.named(names) for deed in evidence.deeds),
        entries=evidence.check.entries,
        wrong=evidence.check.wrong,
        checkpoint=evidence.check.checkpoint,
        days=_days(evidence, measures.rounds.rows, [recent.first, recent.last, spread.first_round]),
        protected=settings.protected,
        memory=flag(memory, alarm),
        goes_by=evidence.goes_by,
        several=measures.several.rows(horizon, settings.cooldown, z),
        trial=None if trial is None else replace(trial, missing=flag(missing, alarm)),
    )
    return replace(measured, findings=tuple(findings_of(measured)))


def _trial(evidence: Evidence, listed: Listed | None) -> TrialResult | None:
    """The result of the trial, if there is one."""
    if evidence.trial is None or listed is None:
        return None
    people, history, S = evidence.people, evidence.history, evidence.settings.S
    result = trial_result(evidence.trial, people, history, listed, S)
    return replace(result, undrawn=evidence.undrawn)


def _days(
    evidence: Evidence, planned: Sequence[RoundRow], others: Sequence[int | None]
) -> dict[int, str]:
    """The first day of every planned round and of some others, if rounds have dates."""
    calendar = evidence.settings.calendar
    if calendar is None:
        return {}
    rounds = {row.round for row in planned} | {at for at in others if at is not None}
    return {at: str(calendar.start(at)) for at in sorted(rounds)}
