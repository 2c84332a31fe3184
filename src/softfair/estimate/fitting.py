"""The posterior of the population: its mode and curvature, averaged over several forms.

The forms differ in the number of classes, and in whether a contact has an effect at all. For each
form the mode is found. The curvature at the mode gives a normal law of the parameters and, by
Laplace's formula, the evidence of the form, which is its weight in the average.
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

#: Draws from the posterior of the population. With 39 draws, the second smallest and the second
#: largest are the ends of a 90 % interval: (40 - 4) / 40.
DRAWS = 39
# Points a class at which likelihoods are computed; 1024 would change them by less than .05. With
# memory there are more logits, and the number of points is multiplied by the contexts of a state.
ATOMS = 64
MOST_CLASSES = 4
LEAST_PEOPLE = 30  # people for each class; a smaller class could hardly be learnt
# The population is learnt from at most this many people, drawn at random. The uncertainty about the
# population is then smaller than that about a person by a factor of 40 or more.
MOST_FITTED = 1500
MOST_NUMBERS = 24  # numbers about people that are used at most: those with the largest slopes
WORSE = 3.0  # if one more class lowers the evidence by so much, no further class is tried
UNLIKELY = 0.02  # a form of smaller weight is left out
# The largest share of draws without an effect of contacts. The evidence prefers no effect also if
# there is a small one (Lindley's paradox); the interval of the effect would then have no width.
MOST_WITHOUT_EFFECT = 0.5
MOST_STEPS = 300
FLAT = 0.05  # largest slope at a mode: the error of z is some hundredths of its prior's sd
FLATTEST = 0.5  # least curvature that is used; the prior alone has 1
FIRST_SCALE, LEAST_SCALE, MOST_SCALE = 1.0, 0.01, 2.0  # prior sd of the effects of a number


@dataclass(frozen=True, eq=False)
class Population:
    """The averaged posterior of the population."""

    draws: list[tuple[Form, Floats]]  # [DRAWS] (form, phi)
    share: float  # share of rounds with a contact
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
        """Slopes of each number [DRAWS, 2, c]: of the logit without contact, and of the effect."""

        def mean_over_states(form: Form, phi: Floats) -> Floats:
            by_column = np.zeros((2 * form.plain, form.c))
            by_column[: len(form.common)] = form.of(phi, "by_column")
            # The logit of the best state against the worst is the last of each row.
            best = by_column.reshape(2, form.S, form.S - 1, form.c)[:, :, -1]
            return np.asarray(best.mean(axis=1))

        return self.over_draws(mean_over_states)


@dataclass(frozen=True, eq=False)
class _Mode:
    """The mode of a form, and the normal law of its parameters."""

    fit: Fit
    z: Floats  # parameters in units of their prior, see `population`
    second: Floats  # minus second derivatives of the log density
    curvature: Floats  # eigenvalues
    axes: Floats  # eigenvectors
    evidence: float

    def draw(self, rng: np.random.Generator) -> tuple[Form, Floats]:
        """The form, and a draw of its parameters phi."""
        mean, sd = self.fit.form.prior
        noise = rng.normal(size=len(self.z)) / np.sqrt(self.curvature)
        return self.fit.form, mean + sd * (self.z + self.axes @ noise)

    def scales(self, group: Ints) -> tuple[tuple[float, float], ...]:
        """The most likely prior sds of the slopes of each number: of chances, and of effects.

        Numbers of the same ``group`` [c] have the same sds. Near the mode the log likelihood is
        quadratic in z, with slope z (because the slope of the posterior is 0) and curvature
        L = second - 1. If z_j has the prior sd s_j instead of 1, the posterior has the precision
        A = L + diag(1 / s^2), and

            log evidence = b' A^-1 b / 2 - log |A| / 2 - sum_j log s_j,    b = z + L z.

        Columns without information get the least sd; a mean of squares would keep their noise.
        """
        form = self.fit.form
        width, axes = np.linalg.eigh(self.second - np.eye(len(self.z)))
        L = (axes * np.maximum(width, 0.0)) @ axes.T
        b = self.z + L @ self.z
        where = form.parts["by_column"][0]
        # The number of the sd of each parameter: first the sds of chances, then those of effects.
        part = np.repeat([0, 1], form.plain)[: len(form.common)]
        sd_of = (part[:, None] * (group.max() + 1) + group).ravel()
        old = form.prior[1][where]

        def minus_evidence(log_sd: Floats) -> tuple[float, Floats]:
            log_s = log_sd[sd_of] - np.log(old)
            precision = np.ones(len(b))
            precision[where] = np.exp(-2 * log_s)
            covariance = np.linalg.inv(L + np.diag(precision))
            mean = covariance @ b
            _, log_det = np.linalg.slogdet(covariance)
            evidence = (b @ mean + log_det) / 2 - log_s.sum()
            square = (mean**2 + np.diag(covariance))[where] * precision[where]
            slope: Floats = np.bincount(sd_of, 1 - square, len(log_sd)).astype(np.float64)
            return -float(evidence), slope

        sds = 2 * (group.max() + 1)
        bounds = [(math.log(LEAST_SCALE), math.log(MOST_SCALE))] * sds
        best = minimize(minus_evidence, np.zeros(sds), jac=True, method="L-BFGS-B", bounds=bounds)
        passive, effect = np.exp(best.x).reshape(2, -1)[:, group].tolist()
        return tuple(zip(passive, effect, strict=True))


def fit_population(
    histories: Histories, people: Floats, design: Design, number_of_classes: int | None
) -> Population:
    """The population of m kinds of people, given how many ``people`` [m] are of each kind.

    ``number_of_classes`` is None if it is to be averaged over.
    """
    contacts = people @ histories.contacts
    share = float(contacts[1] / contacts.sum()) if contacts.sum() else 0.0
    histories, people, X = _sample(histories, people, design.X)
    gaps = bool(people @ histories.missed > 0)
    no_numbers = np.zeros((histories.n, 0))
    with_data = int(people @ (histories.moves.any(axis=(1, 2, 3)) | (histories.first >= 0)))
    most = min(MOST_CLASSES, max(1, with_data // LEAST_PEOPLE))

    # A fit with several classes starts from the fit with one.
    fits = 2 * (most if number_of_classes is None else min(number_of_classes, 2))
    tries = track(range(fits), "comparing populations")

    def mode(form: Form, guess: Floats) -> _Mode:
        next(tries, None)  # there may be fewer fits
        points = normal_points(form.D, ATOMS * form.B, 0)
        return _mode(Fit(form, histories, people, no_numbers, share, points), guess)

    modes: list[_Mode] = []
    for effect in (True, False):
        single = Form(histories.S, 1, effect, gaps, B=histories.contexts.B)
        modes += _by_classes(single, most, number_of_classes, mode)
    modes = _likely(modes)
    if design.X.shape[1]:
        design, X = _with_largest_slopes(modes[0], design, X)
        second = [other for other in modes[1:] if other.fit.form.effect or modes[0].fit.form.effect]
        best = [modes[0], *second[:1]]
        modes = _likely([_with_numbers(plain, X, design.groups) for plain in best])
    evidence = np.array([found.evidence for found in modes])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    rng = np.random.default_rng(0)
    numbers = np.searchsorted(np.cumsum(_capped(weight, modes)), (np.arange(DRAWS) + 0.5) / DRAWS)
    draws = [modes[min(j, len(modes) - 1)].draw(rng) for j in numbers]
    forms = [found.fit.form for found in modes]
    classes = np.zeros(max(MOST_CLASSES, *(form.K for form in forms)))
    for form, w in zip(forms, weight, strict=True):
        classes[form.K - 1] += w
    no_effect = float(sum(w for form, w in zip(forms, weight, strict=True) if not form.effect))
    return Population(draws, share, classes, no_effect, design)


def _sample(histories: Histories, people: Floats, X: Floats) -> tuple[Histories, Floats, Floats]:
    """All kinds of people; if there are too many, the kinds of a random sample of people."""
    if histories.n <= MOST_FITTED:
        return histories, people, X
    everybody = np.repeat(np.arange(histories.n), people.astype(np.int64))
    chosen = np.random.default_rng(0).choice(everybody, MOST_FITTED, replace=False)
    kinds, number = np.unique(chosen, return_counts=True)
    return histories.take(kinds), number.astype(np.float64), X[kinds]


Maker = Callable[[Form, Floats], _Mode]


def _by_classes(single: Form, most: int, classes: int | None, mode: Maker) -> list[_Mode]:
    """A mode for each number of classes up to ``most``, until the evidence falls too far.

    If ``classes`` is given, only the mode with that number of classes.
    """
    first = mode(single, np.zeros(single.size))
    if classes is not None:
        form = replace(single, K=classes)
        return [first] if classes == 1 else [mode(form, _guess(form, first))]
    modes = [first]
    for K in range(2, most + 1):
        form = replace(single, K=K)
        modes.append(mode(form, _guess(form, first)))
        if modes[-1].evidence < max(tried.evidence for tried in modes) - WORSE:
            break
    return modes


def _likely(modes: Sequence[_Mode]) -> list[_Mode]:
    """The modes with enough weight, the likeliest first, and at least one with an effect."""
    ordered = sorted(modes, key=lambda mode: -mode.evidence)
    least = ordered[0].evidence + math.log(UNLIKELY)
    likely = [mode for mode in ordered if mode.evidence >= least]
    with_effect = [mode for mode in ordered if mode.fit.form.effect]
    if not any(mode.fit.form.effect for mode in likely):
        likely += with_effect[:1]
    return likely


def _capped(weight: Floats, modes: Sequence[_Mode]) -> Floats:
    """The weights of modes, with at most MOST_WITHOUT_EFFECT in all for modes without an effect."""
    effect = np.array([mode.fit.form.effect for mode in modes])
    without = weight[~effect].sum()
    if without <= MOST_WITHOUT_EFFECT or not effect.any():
        return weight
    share = np.where(
        effect, (1 - MOST_WITHOUT_EFFECT) / (1 - without), MOST_WITHOUT_EFFECT / without
    )
    return np.asarray(weight * share)


def _mode(fit: Fit, guess: Floats, second: Floats | None = None) -> _Mode:
    """The mode nearest to a guess, its curvature and the evidence by Laplace's formula.

    ``second`` is the curvature at the guess, by default that of the prior. The evidence includes a
    factor K!, because K classes can be numbered in K! equivalent ways.
    """

    def downhill(z: Floats) -> tuple[float, Floats]:
        value, gradient = fit(z)
        return -value, -gradient

    # L-BFGS-B took three times as long, because its threads wait for each other on small matrices.
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
    """A guess for K classes, placed along the direction in which people differ most."""
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


def _with_largest_slopes(mode: _Mode, design: Design, X: Floats) -> tuple[Design, Floats]:
    """The numbers about people that change the likelihood most, by its slope at the mode."""
    if X.shape[1] <= MOST_NUMBERS:
        return design, X
    form = replace(mode.fit.form, scales=((FIRST_SCALE, FIRST_SCALE),) * X.shape[1])
    _, gradient = mode.fit.under(form, X)(_extended(mode, form))
    slope = (form.of(gradient, "by_column") ** 2).sum(axis=0)
    kept: Ints = np.sort(np.argsort(-slope, kind="stable")[:MOST_NUMBERS])
    return design.keep(kept), np.ascontiguousarray(X[:, kept])


def _extended(mode: _Mode, form: Form) -> Floats:
    """The parameters of the mode, followed by zeros for the slopes of numbers about people."""
    return np.concatenate([mode.z, np.zeros(form.size - len(mode.z))])


def _with_numbers(mode: _Mode, X: Floats, group: Ints) -> _Mode:
    """The mode with numbers about people; the prior sds of their slopes are learnt by group."""
    scales: tuple[tuple[float, float], ...] = ((FIRST_SCALE, FIRST_SCALE),) * X.shape[1]
    form = replace(mode.fit.form, scales=scales)
    fit, guess = mode.fit.under(form, X), _extended(mode, form)
    rough = _mode(fit, guess, fit.curvature(guess))
    final = replace(form, scales=rough.scales(group))
    ratio = final.prior[1] / form.prior[1]
    unit = np.eye(form.size)
    second = unit + (rough.second - unit) * np.outer(ratio, ratio)
    return _mode(fit.under(final, X), rough.z, second)
