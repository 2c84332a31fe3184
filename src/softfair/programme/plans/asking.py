"""What is asked of the plan of a round, and whether the round can be planned now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...errors import InvalidInput, Unsure
from ..aims import SOFTFAIR, Evenness, Target
from ..promises import Promise
from ..snapshot import Snapshot, take_snapshot
from ..store import Connection, plan_in_force
from .commitments import open_commitment_in, waiting_trial_in
from .stored import Plan, load_plan

__all__ = ["NOTHING_ASKED", "PlanWish", "asked_for", "planned_before"]


@dataclass(frozen=True)
class PlanWish:
    """What is asked of the plan of a round.

    Attributes
    ----------
    round : int, optional
        Which round. Default: the first whose contacts are not known yet.
    replan : str, optional
        The reason to make another version of a plan; the earlier ones are kept.
    target : Target, optional
        What c is chosen for, instead of the target or c in the settings.
    evenness : Evenness, optional
        The policy of this plan, instead of that in the settings.
    sure : bool
        Whether to plan even if nothing can be learnt from the history, if the round is not the next
        one, or if a committed trial waits for its luck.
    promise : Promise, optional
        What the draws of this plan keep, instead of the promise in the settings.
    """

    round: int | None = None
    replan: str | None = None
    target: Target | None = None
    evenness: Evenness | None = None
    sure: bool = False
    promise: Promise | None = None

    @classmethod
    def parse(
        cls,
        target: str | None,
        policy: str | None,
        promise: str | None,
        round: int | None = None,
        replan: str | None = None,
        sure: bool = False,
    ) -> PlanWish:
        """What is asked in the words of ``softfair plan``; None: not asked.

        Raises
        ------
        InvalidInput
            If one of them cannot be read.
        """
        return cls(
            round,
            replan,
            None if target is None else Target.parse(target),
            None if policy is None else Evenness.parse(policy),
            sure,
            None if promise is None else Promise.parse(promise),
        )


NOTHING_ASKED = PlanWish()


def planned_before(connection: Connection, wish: PlanWish) -> Plan | None:
    """The plan of a round that is asked for by number, read without the history."""
    if wish.round is None or wish.replan is not None:
        return None
    number = plan_in_force(connection, wish.round)
    return None if number is None else _as_planned(load_plan(connection, number), wish)


def asked_for(connection: Connection, wish: PlanWish) -> tuple[Snapshot | Plan, int]:
    """The snapshot for a round that is to be planned, or its plan if it has one; the round."""
    now = take_snapshot(connection)
    at = now.next_round() if wish.round is None else wish.round
    number = plan_in_force(connection, at)
    if number is not None and wish.replan is None:
        return _as_planned(load_plan(connection, number), wish), at
    committed = open_commitment_in(connection, at) is not None
    _check_replan(wish.replan, at, exists=number is not None or committed)
    _check_round(now, at, wish.sure)
    if not wish.sure:
        _doubt_trial(connection, now, at)
    if wish.target is not None or wish.evenness is not None:
        # What is asked for takes the place of the programme's own target and policy.
        even = SOFTFAIR if wish.evenness is None else wish.evenness
        now = replace(now, settings=replace(now.settings, target=wish.target, evenness=even))
    if wish.promise is not None:
        now = replace(now, settings=replace(now.settings, promise=wish.promise))
    return now, at


def _check_round(now: Snapshot, at: int, sure: bool) -> None:
    """Raise if a round cannot be planned now, or (unless sure) if it is doubtful."""
    following, settings = now.next_round(), now.settings
    if at in now.over():
        raise InvalidInput(
            f"{settings.called(at)} is over, its contacts are recorded; "
            f"plan {settings.called(following)}"
        )
    if at < following and at not in now.rounds.lists:
        raise InvalidInput(
            f"{settings.called(at)} is past: the next round is {settings.called(following)}"
        )
    if sure:
        return
    if at > following:
        raise Unsure(
            f"{settings.called(at)} is {at - following} rounds after round {following}, the next"
        )
    if (reason := now.nothing_learnt()) is not None:
        raise Unsure(
            f"nothing can be learnt yet ({reason}), so the list would be drawn by lottery; "
            "import a history first (softfair import history FILE)"
        )


def _doubt_trial(connection: Connection, now: Snapshot, at: int) -> None:
    """Raise if a list would end a trial that waits for its luck before it begins."""
    committed = waiting_trial_in(connection, now)
    if committed is not None and at >= committed.round:
        raise Unsure(
            f"a trial of this round is committed, with the code {committed.code}, and a list now "
            "would end it before it begins; assign people first: softfair trial --luck TEXT"
        )


def _as_planned(plan: Plan, wish: PlanWish) -> Plan:
    """The plan; raise if another target, policy or promise than its own is asked for."""
    if wish.evenness is not None and plan.outlook.evenness != wish.evenness:
        raise InvalidInput(
            f"round {plan.round} is planned already, by {plan.outlook.evenness}; "
            "make it anew with --replan REASON"
        )
    if wish.target is not None and plan.outlook.target != wish.target:
        raise InvalidInput(
            f"round {plan.round} is planned already, not for that target; "
            "make it anew with --replan REASON"
        )
    if wish.promise is not None and plan.outlook.promise != wish.promise:
        raise InvalidInput(
            f"round {plan.round} is planned already, with the promise: {plan.outlook.promise}; "
            "make it anew with --replan REASON"
        )
    return plan


def _check_replan(reason: str | None, at: int, exists: bool) -> None:
    if reason is None:
        return
    if not exists:
        raise InvalidInput(f"round {at} has no plan to replace; leave --replan out")
    if not reason.strip():
        raise InvalidInput(
            "a plan is replaced for a reason; say it, such as --replan 'capacity fell to 8'"
        )
