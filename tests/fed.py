"""Measures of an audit, computed for a list of rounds that a test gives."""

from __future__ import annotations

import numpy as np

from softfair.programme.audit import lists, off_policy, outcomes, several, spread
from softfair.programme.audit.design import Tally
from softfair.programme.audit.groups import Groups
from softfair.programme.audit.outcomes import Calibration, Drift
from softfair.programme.audit.planned import Rounds, windows_of
from softfair.programme.audit.predicted import predicted
from softfair.programme.models import Model


def fed(measure, *rounds):
    """The measure after ``add`` for each round; ``rounds`` has a sequence for each argument."""
    for arguments in zip(*rounds, strict=True):
        measure.add(*arguments)
    return measure


def sure_model(P, number=1):
    """A model [n, 2, S, S] without draws, and so without uncertainty."""
    n, S = len(P), P.shape[-1]
    return Model(number, "", 0, {}, P, P, P, np.zeros((n, 2, S), int), np.zeros(n, bool))


def tally_of(rounds, labels, J):
    """The tally of all draws of some rounds, with labels [m] for each round."""
    tally = Tally(J)
    for one, label in zip(rounds, labels, strict=True):
        for draw in one.draws(label):
            tally.add(draw)
    return tally


def rounds_of(rounds):
    return tuple(fed(lists.RoundRows(fed(Rounds(), rounds).since), rounds).rows)


def lists_of(rounds, z):
    return fed(lists.Lists(fed(lists.Bins(), rounds).cuts()), rounds).result(z)


def spread_of(rounds, people, history, z, names):
    return spread.spread_of(fed(spread.Shares(people.n), rounds), people, history, z, names)


def groups_of(rounds, people, S, z):
    return fed(Groups(people, S), rounds).rows(z)


def policies_for(rounds, cs):
    return off_policy.policies_for(fed(Rounds(), rounds).between, cs)


def off_policy_of(rounds, policies, means, S, z):
    """Off-policy estimates; ``means`` [m, 2] of each round, or empty if they are not known."""
    means = means or [np.full((len(one.person), 2), np.nan) for one in rounds]
    by_list = fed(off_policy.ByList(S), rounds)
    return fed(off_policy.OffPolicy(policies, by_list, S), rounds, means).rows(z)


def several_rounds_of(rounds, policies, P, horizon, cooldown, z):
    """Estimates over several rounds; every plan has a model with P [n, 2, S, S]."""
    known, by_list = fed(Rounds(), rounds), fed(off_policy.ByList(P.shape[-1]), rounds)
    windows = windows_of(known.all, known.followed, horizon)
    found = several.Several(windows, policies, by_list.reached)
    return fed(found, rounds, [sure_model(P)] * len(rounds)).rows(horizon, cooldown, z)


def predictions(rounds, model_of, S):
    """The predictions for each round, without rounds that have no predictions."""
    by_round = [predicted(round_, model_of(round_.model), S) for round_ in rounds]
    return [prediction for prediction in by_round if len(prediction.person)]


def engagement_of(told, z):
    return tuple(outcomes.engagement_of(said, z) for said in told)


def calibration_of(told, z, S=2):
    return fed(Calibration(S), told).bins(z)


def cells_of(told, states, z):
    return fed(Calibration(len(states)), told).cells(states, z)


def drift_of(told, history, n, states, z):
    drift = fed(Drift([said.round for said in told], history, n, states), told)
    return drift.rows(z), drift.recent
