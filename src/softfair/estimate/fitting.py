"""The posterior of the population: its mode and curvature, averaged over several forms.

The forms differ in the number of classes, and in whether a contact changes anything at all. Each is
fitted by its mode. The curvature there gives a normal law of the parameters and, by Laplace's
formula, the form's evidence, which is its weight in the average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from ..progress import track
from .border import Floats, Ints
from .columns import Design
from .histories import Histories
from .population import Fit, Form, normal_points

__all__ = ["DRAWS", "Population", "fit_population"]

#: Draws from the posterior of the population. With 39, the second least and the second largest
#: are the ends of a 90 % interval: (40 - 4) / 40.
DRAWS = 39
# Points a class, at which likelihoods are taken; 1024 change them by less than .05. With memory
# there are more logits, and as many times the points as there are contexts of a state.
ATOMS = 64
MOST_CLASSES = 4
LEAST_PEOPLE = 30  # a class; a smaller one would hardly be learnt
# The population is learnt from at most this many people, drawn at random: with more, what is known
# of it would be narrower than what is known of a person by a factor of 40 and more.
MOST_FITTED = 1500
MOST_NUMBERS = 24  # numbers about people that are used, those that tell most
WORSE = 3.0  # another class is not tried after one that lowers the evidence by so much
UNLIKELY = 0.02  # weight of a form below which it is left out
# Share of the draws, at most, in which contacts change nothing. The evidence prefers that also to a
# small effect (Lindley's paradox), and would state an interval of no width.
MOST_WITHOUT_EFFECT = 0.5
MOST_STEPS = 300
FLAT = 0.05  # largest slope at a mode: the error of z is some hundredths of its prior's sd
FLATTEST = 0.5  # least curvature: the prior alone has 1
FIRST_SCALE, LEAST_SCALE, MOST_SCALE = 1.0, 0.01, 2.0  # of what a number about people does


@dataclass(frozen=True, eq=False)
class Population:
    """The averaged posterior of the population."""

    draws: list[tuple[Form, Floats]]  # [DRAWS] (form, phi)
    share: float  # of rounds with a contact
    classes: Floats  # [MOST_CLASSES] probability of each number of classes
    no_effect: float  # probability that contacts change nothing, by the evidence
    design: Design  # the numbers about people that are used

    def over_draws(self, value: Callable[[Form, Floats], Floats]) -> Floats:
        """A figure of each draw [DRAWS, ...]."""
        return np.stack([value(form, phi) for form, phi in self.draws])

    def seen(self) -> Floats:
        """Chance that a state is seen, for each draw [DRAWS, S]; nan without gaps."""
        return self.over_draws(
            lambda form, phi: (
                expit(form.of(phi, "seen")) if form.gaps else np.full(form.S, math.nan)
            )
        )

    def by_column(self) -> Floats:
        """What each number does: [DRAWS, 2, c], to the logit without contact and to the effect."""

        def mean_over_states(form: Form, phi: Floats) -> Floats:
            by_column = np.zeros((2 * form.plain, form.c))
            by_column[: len(form.common)] = form.of(phi, "by_column")
            # To the logit of the best state against the worst: the last of each row.
            best = by_column.reshape(2, form.S, form.S - 1, form.c)[:, :, -1]
            return np.asarray(best.mean(axis=1))

        return self.over_draws(mean_over_states)


@dataclass(frozen=True, eq=False)
class _Mode:
    """A form with the normal law of its parameters."""

    fit: Fit
    z: Floats
    second: Floats  # minus second derivatives of the log density
    curvature: Floats  # eigenvalues
    axes: Floats  # eigenvectors
    evidence: float

    def draw(self, rng: np.random.Generator) -> tuple[Form, Floats]:
        """The form, and parameters phi."""
        mean, sd = self.fit.form.prior
        noise = rng.normal(size=len(self.z)) / np.sqrt(self.curvature)
        return self.fit.form, mean + sd * (self.z + self.axes @ noise)

    def scales(self, group: Ints) -> tuple[tuple[float, float], ...]:
        """The prior sd of what each number does, to chances and to effects, that is likeliest.

        Numbers of a ``group`` [c] have the same. Near the mode the log likelihood is quadratic in
        z, with slope z (as the posterior's is 0) and curvature L = second - 1. Where z_j has the
        prior sd s_j instead of 1, the posterior has the precision A = L + diag(1 / s^2), and

            log evidence = b' A^-1 b / 2 - log |A| / 2 - sum_j log s_j,    b = z + L z.

        Columns that tell nothing get the least sd; a mean of squares would keep their noise.
        """
        form = self.fit.form
        width, axes = np.linalg.eigh(self.second - np.eye(len(self.z)))
        L = (axes * np.maximum(width, 0.0)) @ axes.T
        b = self.z + L @ self.z
        where = form.parts["by_column"][0]
        # Which of the sds each parameter has: first those of chances, then those of effects.
        part = np.repeat([0, 1], form.plain)[: len(form.common)]
        which = (part[:, None] * (group.max() + 1) + group).ravel()
        old = form.prior[1][where]

        def minus_evidence(log_sd: Floats) -> tuple[float, Floats]:
            log_s = log_sd[which] - np.log(old)
            precision = np.ones(len(b))
            precision[where] = np.exp(-2 * log_s)
            covariance = np.linalg.inv(L + np.diag(precision))
            mean = covariance @ b
            _, log_det = np.linalg.slogdet(covariance)
            evidence = (b @ mean + log_det) / 2 - log_s.sum()
            square = (mean**2 + np.diag(covariance))[where] * precision[where]
            slope: Floats = np.bincount(which, 1 - square, len(log_sd)).astype(np.float64)
            return -float(evidence), slope

        sds = 2 * (group.max() + 1)
        bounds = [(math.log(LEAST_SCALE), math.log(MOST_SCALE))] * sds
        best = minimize(minus_evidence, np.zeros(sds), jac=True, method="L-BFGS-B", bounds=bounds)
        passive, effect = np.exp(best.x).reshape(2, -1)[:, group].tolist()
        return tuple(zip(passive, effect, strict=True))


def fit_population(
    histories: Histories, people: Floats, design: Design, wanted: int | None
) -> Population:
    """The population of kinds of people, ``people`` [m] of each, with ``wanted`` classes or any."""
    contacts = people @ histories.contacts
    share = float(contacts[1] / contacts.sum()) if contacts.sum() else 0.0
    histories, people, X = _sample(histories, people, design.X)
    gaps = bool(people @ histories.missed > 0)
    alone = np.zeros((histories.n, 0))
    told = int(people @ (histories.moves.any(axis=(1, 2, 3)) | (histories.first >= 0)))
    most = min(MOST_CLASSES, max(1, told // LEAST_PEOPLE))

    # Several classes start from one.
    tries = track(range(2 * (most if wanted is None else min(wanted, 2))), "comparing populations")

    def mode(form: Form, guess: Floats) -> _Mode:
        next(tries, None)  # fewer may do
        points = normal_points(form.D, ATOMS * form.B, 0)
        return _mode(Fit(form, histories, people, alone, share, points), guess)

    modes: list[_Mode] = []
    for effect in (True, False):
        single = Form(histories.S, 1, effect, gaps, B=histories.contexts.B)
        modes += _by_classes(single, most, wanted, mode)
    modes = _likely(modes)
    if design.X.shape[1]:
        design, X = _telling(modes[0], design, X)
        second = [one for one in modes[1:] if one.fit.form.effect or modes[0].fit.form.effect]
        best = [modes[0], *second[:1]]
        modes = _likely([_with_numbers(one, X, design.groups) for one in best])
    evidence = np.array([one.evidence for one in modes])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    rng = np.random.default_rng(0)
    which = np.searchsorted(np.cumsum(_capped(weight, modes)), (np.arange(DRAWS) + 0.5) / DRAWS)
    draws = [modes[min(j, len(modes) - 1)].draw(rng) for j in which]
    forms = [one.fit.form for one in modes]
    classes = np.zeros(max(MOST_CLASSES, *(form.K for form in forms)))
    for form, w in zip(forms, weight, strict=True):
        classes[form.K - 1] += w
    no_effect = float(sum(w for form, w in zip(forms, weight, strict=True) if not form.effect))
    return Population(draws, share, classes, no_effect, design)


def _sample(histories: Histories, people: Floats, X: Floats) -> tuple[Histories, Floats, Floats]:
    """All kinds, or those of some people drawn at random if there are too many kinds."""
    if histories.n <= MOST_FITTED:
        return histories, people, X
    everybody = np.repeat(np.arange(histories.n), people.astype(np.int64))
    chosen = np.random.default_rng(0).choice(everybody, MOST_FITTED, replace=False)
    kinds, number = np.unique(chosen, return_counts=True)
    return histories.take(kinds), number.astype(np.float64), X[kinds]


Maker = Callable[[Form, Floats], _Mode]


def _by_classes(single: Form, most: int, wanted: int | None, mode: Maker) -> list[_Mode]:
    """A mode for each number of classes up to ``most``, while more of them are worth a try."""
    first = mode(single, np.zeros(single.size))
    if wanted is not None:
        form = replace(single, K=wanted)
        return [first] if wanted == 1 else [mode(form, _guess(form, first))]
    modes = [first]
    for K in range(2, most + 1):
        form = replace(single, K=K)
        modes.append(mode(form, _guess(form, first)))
        if modes[-1].evidence < max(one.evidence for one in modes) - WORSE:
            break
    return modes


def _likely(modes: Sequence[_Mode]) -> list[_Mode]:
    """Those that matter to the average, the likeliest first, one with an effect among them."""
    ordered = sorted(modes, key=lambda one: -one.evidence)
    least = ordered[0].evidence + math.log(UNLIKELY)
    likely = [one for one in ordered if one.evidence >= least]
    with_effect = [one for one in ordered if one.fit.form.effect]
    if not any(one.fit.form.effect for one in likely):
        likely += with_effect[:1]
    return likely


def _capped(weight: Floats, modes: Sequence[_Mode]) -> Floats:
    """The weights of modes, those without an effect together at most MOST_WITHOUT_EFFECT."""
    effect = np.array([one.fit.form.effect for one in modes])
    without = weight[~effect].sum()
    if without <= MOST_WITHOUT_EFFECT or not effect.any():
        return weight
    share = np.where(
        effect, (1 - MOST_WITHOUT_EFFECT) / (1 - without), MOST_WITHOUT_EFFECT / without
    )
    return np.asarray(weight * share)


def _mode(fit: Fit, guess: Floats, second: Floats | None = None) -> _Mode:
    """The mode from a guess on, its curvature and Laplace's evidence.

    ``second`` is the curvature to begin with; by default that of the prior. K classes can be
    numbered in K! ways, all equally good.
    """

    def downhill(z: Floats) -> tuple[float, Floats]:
        value, gradient = fit(z)
        return -value, -gradient

    # L-BFGS-B took three times as long: its threads wait for each other on small matrices.
    options: dict[str, Any] = {"maxiter": MOST_STEPS, "gtol": FLAT}
    if second is not None:
        curvature, axes = np.linalg.eigh(second)
        inverse = (axes / np.maximum(curvature, FLATTEST)) @ axes.T
        options["hess_inv0"] = (inverse + inverse.T) / 2
    top = minimize(downhill, guess, jac=True, method="BFGS", options=options)
    z = np.asarray(top.x)
    second = fit.curvature(z)
    curvature, axes = np.linalg.eigh(second)
    curvature = np.maximum(curvature, FLATTEST)
    evidence = (
        -float(top.fun)
        + len(z) / 2 * math.log(2 * math.pi)
        - float(np.log(curvature).sum()) / 2
        + math.lgamma(fit.form.K + 1)
    )
    return _Mode(fit, z, second, curvature, axes, evidence)


def _guess(form: Form, single: _Mode) -> Floats:
    """K classes along the direction in which people of the single class differ most."""
    before = single.fit.form
    mean, sd = before.prior
    phi_before = mean + sd * single.z
    phi = form.prior[0].copy()
    for name in form.parts:
        if name != "share":
            form.of(phi, name)[:] = before.of(phi_before, name)
    root = before.scale(phi_before)[0][:, None] * before.mixed(phi_before, 0, np.eye(form.D))
    h = form.half
    values, axes = np.linalg.eigh((root @ root.T)[:h, :h])
    step = axes[:, -1] * math.sqrt(max(values[-1], 0.0))
    places = norm.ppf((np.arange(form.K) + 0.5) / form.K)  # [K]
    form.of(phi, "passive")[:] += places[:, None] * np.linalg.solve(form.root, step)
    form.of(phi, "spread")[:] -= 0.5
    return np.asarray((phi - form.prior[0]) / form.prior[1])


def _telling(mode: _Mode, design: Design, X: Floats) -> tuple[Design, Floats]:
    """The numbers about people that tell most, judged by the slope of the likelihood."""
    if X.shape[1] <= MOST_NUMBERS:
        return design, X
    form = replace(mode.fit.form, scales=((FIRST_SCALE, FIRST_SCALE),) * X.shape[1])
    _, gradient = mode.fit.under(form, X)(_extended(mode, form))
    slope = (form.of(gradient, "by_column") ** 2).sum(axis=0)
    which: Ints = np.sort(np.argsort(-slope, kind="stable")[:MOST_NUMBERS])
    return design.keep(which), np.ascontiguousarray(X[:, which])


def _extended(mode: _Mode, form: Form) -> Floats:
    """The mode's parameters with zeros for what numbers about people do."""
    return np.concatenate([mode.z, np.zeros(form.size - len(mode.z))])


def _with_numbers(mode: _Mode, X: Floats, group: Ints) -> _Mode:
    """The mode with numbers about people; how much each group of them does is learnt on the way."""
    scales: tuple[tuple[float, float], ...] = ((FIRST_SCALE, FIRST_SCALE),) * X.shape[1]
    form = replace(mode.fit.form, scales=scales)
    fit, guess = mode.fit.under(form, X), _extended(mode, form)
    rough = _mode(fit, guess, fit.curvature(guess))
    final = replace(form, scales=rough.scales(group))
    by = final.prior[1] / form.prior[1]
    one = np.eye(form.size)
    second = one + (rough.second - one) * np.outer(by, by)
    return _mode(fit.under(final, X), rough.z, second)
