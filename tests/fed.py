"""The measures of an audit, given rounds from a list: first all they must know, then each round."""

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
    """A measure that was given some rounds: sequences of what it takes for each."""
    for one in zip(*rounds, strict=True):
        measure.add(*one)
    return measure


def sure_model(P, number=1):
    """A model [n, 2, S, S] that draws nothing, and so has no doubt."""
    n, S = len(P), P.shape[-1]
    return Model(number, "", 0, {}, P, P, P, np.zeros((n, 2, S), int), np.zeros(n, bool))


def tally_of(rounds, labels, J):
    """Of all draws of some rounds; labels [m] of each."""
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
    """``means`` [m, 2] of each round; empty: nothing is known of them."""
    means = means or [np.full((len(one.person), 2), np.nan) for one in rounds]
    by_list = fed(off_policy.ByList(S), rounds)
    return fed(off_policy.OffPolicy(policies, by_list, S), rounds, means).rows(z)


def several_rounds_of(rounds, policies, P, horizon, cooldown, z):
    """P [n, 2, S, S] of the model of every plan."""
    known, by_list = fed(Rounds(), rounds), fed(off_policy.ByList(P.shape[-1]), rounds)
    windows = windows_of(known.all, known.followed, horizon)
    found = several.Several(windows, policies, by_list.reached)
    return fed(found, rounds, [sure_model(P)] * len(rounds)).rows(horizon, cooldown, z)


def predictions(rounds, model_of, S):
    """What models said of each round, without those of which nothing is known."""
    told = [predicted(one, model_of(one.model), S) for one in rounds]
    return [said for said in told if len(said.person)]


def engagement_of(told, z):
    return tuple(outcomes.engagement_of(said, z) for said in told)


def calibration_of(told, z, S=2):
    return fed(Calibration(S), told).bins(z)


def cells_of(told, states, z):
    return fed(Calibration(len(states)), told).cells(states, z)


def drift_of(told, history, n, states, z):
    drift = fed(Drift([said.round for said in told], history, n, states), told)
    return drift.rows(z), drift.recent
