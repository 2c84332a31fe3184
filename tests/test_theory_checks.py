"""Every check can give both verdicts: on one input its claim must hold, on another it must fail."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest

from softfair import indices, sampling, solvers, theory
from softfair.errors import InvalidInput
from softfair.theory import claim_of, recheck, set_law
from softfair.theory.chances import floor_joint
from softfair.theory.claim import Claim, Existence, Search
from softfair.theory.definitions import rising_law
from softfair.theory.gains import algorithm_1_values, priced_gains
from softfair.theory.instances import FLEETING, LASTING
from softfair.theory.loss_bounds import eta_lambert, eta_sharp
from softfair.theory.operator_loss import DOUBLINGS


def half(eta):
    return lambda n, k, c: 0.5 * eta(n, k, c)


def growing(cohort, gamma, horizon):
    """An index that grows with the decisions left."""
    return cohort.immediate_gain * np.arange(horizon + 1.0)[:, None, None]


def shrinking(cohort, gamma, horizon):
    table = indices.whittle(cohort, gamma, horizon).copy()
    table[1:] = table[:0:-1]
    return table


def lost_at_the_end(cohort, gamma, horizon):
    """An index that is right with one decision left and 0 before."""
    first = growing(cohort, gamma, 1)
    return np.concatenate([first, np.zeros((horizon - 1, cohort.n, 2))])


def log_sum_exp(Q, c):
    top = Q.max(axis=1)
    return np.log(np.exp(c * (Q - top[:, None])).sum(axis=1)) / c + top


def falling(Q, c):
    """A value that is lower at a larger c."""
    return theory.softmax_value(Q, 1 / c)


def exact_values(cohort, k, horizon, gamma, c, episodes, seed):
    """V of one arm that is always helped, which is V* of n = k = 1, with a little noise."""
    V = np.zeros((horizon + 1, 1, 2))
    p = cohort.p[0, 1]
    for t in reversed(range(horizon)):
        V[t, 0] = p * (1 + gamma * V[t + 1, 0, 1]) + (1 - p) * gamma * V[t + 1, 0, 0]
    return V + 1e-3 * np.random.default_rng(seed).normal()


def shifted(by):
    return lambda *given: exact_values(*given) + by


def faster(cohort, k, horizon, gamma, c, episodes, seed):
    """Values that come nearer to their limit in the same episodes at a larger horizon."""
    noise = 1e-3 * np.random.default_rng([seed, horizon, episodes]).normal()
    return np.full((horizon + 1, cohort.n, 2), 1 - 1 / (episodes * horizon) + noise)


ONE_ARM = [[[0.2, 0.6], [0.5, 0.9]]]
FEW = {"count": 8}
NO_RUNS = {"runs": 5, "p": ONE_ARM, "episodes": 5}

# claim -> (settings under which it must hold, settings under which it must fail)
MINDS = {
    "theorem-1": [
        ({"index": growing}, {"index": shrinking}),
        ({"index": growing}, {"p": ((0.6, 0.2), (0.9, 0.7))}),  # l_0 < 0
    ],
    "theorem-1-best-state": [({}, {"index": shrinking})],
    "theorem-1-end": [
        ({}, {"index": lambda *given: 1.01 * indices.whittle(*given)}),
        ({}, {"index": lost_at_the_end}),
    ],
    "lemma-3": [({"gammas": (0.5, 1.0)}, {"gammas": (0.5,), "p": np.zeros((2, 2))})],
    "lemma-3-positive": [({}, {"reward": -1.0})],
    "theorem-2": [({"horizon": 1, **FEW}, FEW), ({"n": 2, "k": 2, **FEW}, FEW)],
    "theorem-2-priced": [
        ({"horizon": 1, **FEW}, {"gains": lambda *given: -priced_gains(*given), **FEW})
    ],
    "theorem-2-any-index": [({"horizon": 1}, {})],
    "theorem-2-last": [(FEW, {"horizon": 6, **FEW})],
    "decomposition": [({"horizon": 1, **FEW}, FEW)],
    "decomposition-last": [(FEW, {"horizon": 2, **FEW})],
    "myopic-below-random": [({}, {"horizon": 1}), ({}, {"n": 1, "k": 1})],
    "certificate": [
        ({"count": 2}, {"bound": lambda *given: 0.95 * solvers.upper_bound(*given), "count": 2})
    ],
    **{
        f"theorem-3-arms-{design}": [
            ({}, {"inclusion": lambda z, k, design: sampling.inclusion(-z, k, design)})
        ]
        for design in ("successive", "joint")
    },
    "theorem-3-sets-successive": [({"n": 3}, {}), ({"k": 1}, {})],
    "theorem-3-sets-joint": [({}, {"law": partial(set_law, design="successive")})],
    "theorem-3-true-values": [({"horizon": 1, **FEW}, FEW)],
    "theorem-3-true-values-algorithm-1": [({"horizon": 1, "k": 1, **FEW}, FEW)],
    "theorem-3-last": [(FEW, {"horizon": 6, **FEW})],
    "definition-1-ends": [({"cs": (0.1, 1.0, 10.0)}, {"cs": (math.inf,)})],
    "definition-1-between": [({}, {"cs": (0.0,)})],
    "definition-2-sets-to-arms": [({}, {"law": lambda sums, rng: rising_law(-sums, rng)})],
    "definition-2-arms-to-sets": [({"k": 1}, {}), ({"k": 3}, {"n": 5, "k": 3})],
    "appendix-product": [({"sizes": ((5, 1), (4, 4))}, {})],
    "appendix-product-range": [({}, {"most": lambda n, k: 1.5})],
    "floor-joint": [({}, {"floor": lambda n, k, D: 1.01 * floor_joint(n, k, D)})],
    "floor-successive": [({}, {"floor": lambda n, k, D: k / n})],
    "lemma-1": [({}, {"reward": 1.1})],
    "lemma-1-finite": [({}, {"reward": -0.1}), ({}, {"bound": lambda n, steps: 0.99 * n * steps})],
    "corollary-1": [({}, {"bound": lambda n, k, steps: 0.2 * n * steps})],
    "corollary-1-finite": [({}, {"bound": lambda n, k, steps: 0.2 * n * steps})],
    "corollary-1-sharp": [({}, {"bound": lambda n, k, steps: 0.8 * k * steps})],
    "lemma-2": [
        ({"eta": eta_sharp}, {}),
        ({"largest_gap": 1.0}, {"largest_gap": 5.0}),
    ],
    "lemma-2-small-gaps": [({}, {"largest_gap": 3.0}), ({}, {"eta": half(eta_sharp)})],
    **{
        f"lemma-2-{form}": [({}, {"eta": half(eta_sharp)})]
        for form in ("large-c", "corrected", "joint", "sharp")
    },
    "lemma-2-lower": [({"own_gap": True}, {})],
    "lemma-2-lower-own": [({}, {"own_gap": False})],
    "lemma-2-gaps": [({"horizon": 1, **FEW}, FEW)],
    "appendix-fraction": [({}, {"least": -0.5})],
    "appendix-weights": [({"cs": (1.0,)}, {})],
    "appendix-weights-corrected": [({}, {"corrected": False})],
    "rate-uniform": [({"worst": lambda n, k, c: math.exp(-0.3 * c)}, {})],
    "rate-fixed-Q": [({}, {"bound": lambda others, d, c: 0.4 * others * d * math.exp(-c * d)})],
    **{
        claim: [
            ({"eta": eta_sharp, **FEW}, {"eta": lambda n, k, c: 0.02 / c, **FEW}),
        ]
        for claim in (
            "theorem-4-small-gaps",
            "theorem-4-large-c",
            "theorem-4-corrected",
            "conjecture-large-c",
            "conjecture-corrected",
        )
    },
    "theorem-4": [({"eta": eta_lambert, **FEW}, FEW)],
    "theorem-4-finite": [({"eta": eta_lambert, **FEW}, FEW)],
    "conjecture": [({"eta": eta_sharp, **FEW}, FEW)],
    "conjecture-small-gaps": [({"eta": eta_sharp, **FEW}, FEW)],
    "theorem-4-above-operator": [(FEW, {"soft": log_sum_exp, **FEW})],
    "larger-c-operator": [(FEW, {"soft": falling, **FEW}), (FEW, {"cs": DOUBLINGS[::-1], **FEW})],
    "larger-c-regularised": [(FEW, {"cs": DOUBLINGS[::-1], **FEW})],
    "theorem-4-above-algorithm-1": [
        ({"values": exact_values, **NO_RUNS}, {"values": shifted(0.1), **NO_RUNS})
    ],
    "theorem-4-algorithm-1": [
        ({"values": exact_values, **NO_RUNS}, {"values": shifted(-0.1), **NO_RUNS})
    ],
    "infinite-c-algorithm-1": [
        ({"values": exact_values, **NO_RUNS}, {"values": shifted(0.1), **NO_RUNS}),
        ({"values": algorithm_1_values, **NO_RUNS, "episodes": 100}, {"runs": 20}),
    ],
    "larger-c-algorithm-1": [
        (
            {
                "gains": lambda cohort, k, T, *_: np.repeat(cohort.immediate_gain[None], T, axis=0),
                "horizon": 1,
                **FEW,
            },
            {"cs": (4.0, 1.0), "count": 4},
        ),
    ],
    "larger-T-slower": [({"count": 2}, {"values": faster}), ({"count": 2}, {"horizons": (8, 4)})],
    "fair-myopic-unfair": [({"count": 3}, {"horizon": 1, "k": 1, "count": 3})],
    "asymptotically-optimal": [
        ({"horizon": 1}, {"gains": lambda cohort, k, T, *_: np.zeros((T, cohort.n, 2))})
    ],
    "asymptotically-optimal-priced": [
        ({"count": 2}, {"most": lambda n, c, steps: 0.01 * n * steps / c, "count": 2})
    ],
    "entropy-kn": [({"printed": 3.8}, {})],
    "entropy-kT": [({}, {"printed": 4.7})],
    "table-2-random": [({"setting": (100, 10, 100)}, {})],
    "table-2-random-T100": [({}, {"setting": (100, 10, 80)})],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "sound", "broken"),
    [(claim, *pair) for claim, pairs in MINDS.items() for pair in pairs],
)
def test_every_check_can_hold_and_can_fail(claim, sound, broken):
    holds, fails = claim_of(claim).check(**sound), claim_of(claim).check(**broken)
    assert holds.verdict in {"holds", "holds under"}
    assert fails.verdict == "fails"
    if claim_of(claim).kind is Search:
        assert fails.margin > 0
        assert fails.witness["left"] > fails.witness["right"]
    json.dumps([holds.witness, fails.witness], allow_nan=False)


def test_no_claim_is_left_out():
    assert set(MINDS) == {claim.id for claim in theory.CLAIMS}


def test_an_unfair_draw_is_seen_with_a_witness():
    """1 - (1 - softmax)^k keeps the order of arms; a draw that spares the best does not."""

    def authors(z, k, design):
        q = np.exp(z - z.max())
        return 1 - (1 - q / q.sum()) ** k

    def sparing(z, k, design):
        return np.where(z == z.max(), 0.0, sampling.inclusion(z, k, design))

    claim = claim_of("theorem-3-arms-successive")
    assert claim.check(inclusion=authors).verdict == "holds"
    v = claim.check(inclusion=sparing)
    z, i = v.witness["log_weights"], v.witness["i"]
    assert (v.verdict, z[i]) == ("fails", max(z))
    assert not recheck(v)  # the design itself is fair


def test_nothing_tried_and_not_a_number_are_refused():
    best_state = claim_of("theorem-1-best-state")
    with pytest.raises(InvalidInput, match="no instance meets"):
        best_state.check(gamma=0.0)
    with pytest.raises(InvalidInput, match="no instance meets"):
        best_state.check(p=((0.6, 0.2), (0.9, 0.7)))
    with pytest.raises(InvalidInput, match="not a number"):
        claim_of("lemma-2").check(eta=lambda n, k, c: math.nan)


def numbers(found, left, right):
    """A claim that left <= right on a list."""
    found.add(np.array(left), np.array(right), len(left), lambda at: {"at": at})


def sides(w):
    return (0.0, 1.0) if w["at"] == 1 else (0.0, -1.0)


def test_a_universal_claim_is_judged_by_its_worst_instance_an_existential_one_by_its_best():
    left, right = [0.0, 0.0, 0.0], [0.5, 1.0, -1.0]
    search = partial(numbers, left=left, right=right)
    every = Claim("every", "All.", "units", search, sides).check()
    some = Claim("some", "One.", "units", search, sides, kind=Existence).check()
    assert (every.verdict, every.margin, every.witness["at"]) == ("fails", 1.0, 2)
    assert (some.verdict, some.margin, some.witness["at"]) == ("holds", 1.0, 1)
    none = Claim("none", "One.", "units", partial(numbers, left=[0.0], right=[0.0]), sides)
    assert none.check().verdict == "holds"  # 0 <= 0
    strict = Claim(
        "none", "One.", "units", partial(numbers, left=[0.0], right=[0.0]), sides, kind=Existence
    )
    assert strict.check().verdict == "fails"  # an example must stand clear of rounding


def test_a_claim_confirms_its_own_witness_alone():
    search = partial(numbers, left=[0.0, 0.0], right=[1.0, -1.0])
    some = Claim("some", "One.", "units", search, lambda w: (0.0, [1.0, -1.0][w["at"]]))
    v = some.check()
    assert some.confirms(v)
    v.witness["at"] = 0
    assert not some.confirms(v)
    v.witness["at"] = 7
    with pytest.raises(InvalidInput, match="some: a set or state of the witness does not fit"):
        some.confirms(v)
    del v.witness["at"]
    with pytest.raises(InvalidInput, match="some: the witness has no 'at'"):
        some.confirms(v)


def test_myopic_helps_the_fleeting_arm_alone():
    """By hand: its gain, .49, is above that of the lasting arms in either state."""
    gains = [[arm[1][s] - arm[0][s] for s in (0, 1)] for arm in (FLEETING, LASTING)]
    assert min(gains[0]) > max(gains[1])
    v = claim_of("myopic-below-random").check(count=2)
    assert v.witness["p"][0] == [list(row) for row in FLEETING]
