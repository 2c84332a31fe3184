"""What an audit found: every figure in its typed row, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...for_json import for_json
from .deeds import DeedRow
from .groups import GroupRow
from .lists import FairnessRow, ListsRow, ListsTest, RoundRow
from .memory import MemoryRow
from .off_policy import OffPolicyRow
from .outcomes import CalibrationRow, DriftRow, EngagementRow
from .several import SeveralRow
from .spread import Histograms, Span, Spread
from .trial import TrialResult

__all__ = ["Audit"]


@dataclass(frozen=True)
class Audit:
    """Everything that was found, as numbers and tables.

    Identifiers of people are in it only if they were asked for.

    Attributes
    ----------
    people : int
        How many people the programme has.
    round_name : str
        What the programme calls a round.
    states : tuple of str
        From worst to best.
    level : float
        Probability of intervals.
    findings : tuple of str
        The findings in plain words; a sentence that calls for action begins with "Look:".
    rounds, lists, groups, fairness, engagement, off_policy, calibration, cells, drift : tuple
        The rows of each table.
    lists_test : ListsTest
        All bins of ``lists`` together.
    spread : Spread
        How evenly lists and contacts fell.
    recent : Span
        The rounds that ``drift`` is about.
    histograms : Histograms
        People by times listed, times contacted and rounds waited.
    deeds : tuple of DeedRow
        What was done around each plan that could bend a list.
    entries : int
        Entries of the log that everything was checked against.
    wrong : tuple of str
        What the check found: rows that are not what was committed, draws that do not replay.
    checkpoint : str
        The head of the log.
    days : dict
        The first day of each round that the audit names, if rounds have dates.
    protected : tuple of str
        Columns of people that estimates do not use.
    memory : tuple of MemoryRow
        Whether the state before, or a contact the round before, counts beside the state now.
    several : tuple of SeveralRow
        What other policies would have brought over several rounds; empty: not asked for.
    trial : TrialResult, optional
        The result of a trial in the programme; None if there is no trial.
    goes_by : str
        What the last plan's chances depend on beside the state now, see `estimate.Memory`.
    """

    people: int
    round_name: str
    states: tuple[str, ...]
    level: float
    findings: tuple[str, ...]
    rounds: tuple[RoundRow, ...]
    lists: tuple[ListsRow, ...]
    lists_test: ListsTest
    spread: Spread
    groups: tuple[GroupRow, ...]
    fairness: tuple[FairnessRow, ...]
    engagement: tuple[EngagementRow, ...]
    off_policy: tuple[OffPolicyRow, ...]
    calibration: tuple[CalibrationRow, ...]
    cells: tuple[CalibrationRow, ...]
    drift: tuple[DriftRow, ...]
    recent: Span
    histograms: Histograms
    deeds: tuple[DeedRow, ...] = ()
    entries: int = 0
    wrong: tuple[str, ...] = ()
    checkpoint: str = ""
    days: Mapping[int, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    several: tuple[SeveralRow, ...] = ()
    trial: TrialResult | None = None
    goes_by: str = "none"

    def at(self, round: int | None) -> str:
        """A round as sentences and tables name it.

        Parameters
        ----------
        round : int
            Its number.

        Returns
        -------
        str
            Its number, with its first day if that is known: 21 (2027-05-24).
        """
        day = None if round is None else self.days.get(round)
        return f"{round}" if day is None else f"{round} ({day})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON.

        Returns
        -------
        dict
            A table is a list of rows, a row is a dict; not known is None, infinity is "inf".
        """
        parts = {part.name: for_json(getattr(self, part.name)) for part in fields(self)}
        return {**parts, "days": {str(at): day for at, day in self.days.items()}}
