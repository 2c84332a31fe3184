"""All measures of planned rounds: each round is read twice, and given to every measure.

The first reading collects what some measures must know of all rounds before the second.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InvalidInput
from .evidence import Evidence
from .groups import Groups
from .lists import Bins, FairnessRow, Lists, RoundRows, fairness_of
from .off_policy import ByList, OffPolicy, policies_for
from .outcomes import Calibration, Drift, EngagementRow, engagement_of
from .planned import Planned, Rounds, windows_of
from .predicted import predicted
from .several import Several
from .spread import Shares
from .statistics import quantile
from .trial import Listed

__all__ = ["Measures"]


class Measures:
    """All measures, after every planned round was counted.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    cs : sequence of float
        Multipliers c of other policies to estimate, instead of half and twice the programme's own.
    horizon : int
        Rounds over which other policies are estimated, beside one round ahead.

    Raises
    ------
    InvalidInput
        If fewer rounds than ``horizon`` can be looked at.
    """

    def __init__(self, evidence: Evidence, cs: Sequence[float], horizon: int) -> None:
        settings, n, S = evidence.settings, evidence.people.n, evidence.settings.S
        self._evidence, self.z = evidence, quantile(settings.level)
        known, bins, by_list = Rounds(), Bins(), ByList(S)
        for one in evidence.planned:
            known.add(one)
            bins.add(one)
            by_list.add(one)
        windows = windows_of(known.all, known.followed, horizon) if horizon > 1 else []
        policies = policies_for(known.between, cs)
        self.rounds, self.lists = RoundRows(known.since), Lists(bins.cuts())
        self.shares, self.groups = Shares(n), Groups(evidence.people, S)
        self.fairness: list[FairnessRow] = []
        self.engagement: list[EngagementRow] = []
        self.calibration = Calibration(S)
        self.drift = Drift(known.told, evidence.history, n, settings.states)
        self.off_policy = OffPolicy(policies, by_list, S)
        self.several = Several(windows, policies, by_list.reached)
        self.listed = None if evidence.trial is None else Listed(evidence.trial, n)
        if windows or horizon == 1:
            for one in evidence.planned:
                self._add(one)
        if horizon > 1 and not self.several.windows:
            raise InvalidInput(
                f"no {horizon} planned rounds in a row have known outcomes (of "
                f"{len(known.all)} planned in all): take fewer, or record more rounds"
            )

    def _add(self, one: Planned) -> None:
        """Give a round to every measure."""
        for measure in (self.rounds, self.lists, self.shares, self.groups):
            measure.add(one)
        if self.listed is not None:
            self.listed.add(one)
        self.fairness.append(fairness_of(one))
        model = self._evidence.model_of(one.model) if (one.after >= 0).any() else None
        said = predicted(one, model, self._evidence.settings.S)
        if len(said.person):
            self.engagement.append(engagement_of(said, self.z))
            self.calibration.add(said)
            self.drift.add(said)
        self.off_policy.add(one, said.means)
        self.several.add(one, model)
