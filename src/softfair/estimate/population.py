"""The law of people's logits: its parameters, and their posterior density given histories.

The parameters are written as phi = mean + sd z, so that the prior of every z is standard normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit, log_softmax, softmax
from scipy.stats import norm, qmc

from ..kernels.chains import person_likelihoods
from ..kernels.threads import map_parts
from .border import Floats, Ints
from .histories import Histories

__all__ = ["Fit", "Form", "Law", "law_at", "normal_points"]

# The work is cut into so many parts on any number of threads, so that sums do not depend on the
# number. Handing over a smaller part to a thread would take longer than the part: with 64 people in
# a part, 300 people took twice as long.
PARTS, LEAST_PART = 8, 512
# Correlation of the logits of a class in the prior. With 0, 90 % intervals of the chance to recover
# covered .79 of CPAP patients after four weeks (36 cohorts); with .7 they covered .90. After ten
# weeks, and for synthetic people, nothing changed by more than .02.
TOGETHER = 0.7
# Standard deviations of the log spreads in the prior: of the part that is common to all spreads,
# and of the part of each spread alone. A history has little information about a single spread, and
# hardly any about the spread of effects; with a common part, spreads inform each other. Without a
# common part, 90 % intervals of the chances after a contact were wider by a tenth to a third in
# CPAP patients, and errors larger by a tenth. With .9 and .5, intervals of chances after few
# contacts covered less often in populations whose effects differ more than their people do.
COMMON_SPREAD, OWN_SPREAD = 0.7, 0.7
STEP = 0.02  # in standard deviations of the prior, and in logits, for second derivatives
WIDEST, NARROWEST = 4.0, -12.0  # bounds of log spreads; beyond them no chance would change


@lru_cache(maxsize=256)
def normal_points(D: int, M: int, seed: int) -> Floats:
    """M points [D, M] that cover a standard normal law evenly (scrambled Sobol points)."""
    points = qmc.Sobol(D, scramble=True, seed=seed).random(M)
    return np.ascontiguousarray(norm.ppf(np.clip(points, 1e-6, 1 - 1e-6)).T)


@dataclass(frozen=True)
class Form:
    """The parameters of a population: S states, K classes, c numbers about each person.

    With memory, the logits of a state with b = 1, 2, ... are written as the logits with b = 0 plus
    a difference, and so are effects. So contexts of a state are alike unless the data say
    otherwise. Numbers about people have the same effect in all contexts of a state.
    """

    S: int
    K: int
    effect: bool  # whether a contact may have an effect
    gaps: bool  # whether there are gaps, so that each state has a chance of being seen
    scales: tuple[tuple[float, float], ...] = ()  # [c] prior sds of slopes: of chances, of effects
    B: int = 1  # number of values of b, see `contexts`

    @property
    def c(self) -> int:
        """Numbers about each person."""
        return len(self.scales)

    @property
    def half(self) -> int:
        """Logits of people who are not contacted."""
        return self.B * self.plain

    @property
    def plain(self) -> int:
        """Logits of people who are not contacted, without the differences between contexts."""
        return self.S * (self.S - 1)

    @property
    def D(self) -> int:
        """All logits; the second half are the effects of a contact."""
        return 2 * self.half

    @property
    def free(self) -> int:
        """Logits that are not 0 by assumption."""
        return self.D if self.effect else self.half

    @cached_property
    def common(self) -> Ints:
        """Free logits without the differences between contexts [2 plain, or plain]."""
        halves = range(0, self.free, self.half)
        return np.concatenate([np.arange(h, h + self.plain) for h in halves])

    def summed(self, values: Floats) -> Floats:
        """Logits [D, ...] of all contexts from logits of b = 0 and differences; in place."""
        rows = values.reshape(2, self.B, self.plain, *values.shape[1:])
        rows[:, 1:] += rows[:, :1]
        return values

    def parted(self, by_logit: Floats) -> Floats:
        """Derivatives [D, ...] by logits of b = 0 and differences, from those by logits; in place.

        This is the transpose of `summed`.
        """
        rows = by_logit.reshape(2, self.B, self.plain, *by_logit.shape[1:])
        rows[:, 0] += rows[:, 1:].sum(axis=1)
        return by_logit

    @cached_property
    def root(self) -> Floats:
        """The matrix [h, h] that turns the parameters ``passive`` of a class into its logits.

        It makes the logits of a class correlated in the prior: a class that mostly stays well is
        likely to recover soon, too. Data about recovery are rare in a class that is seldom ill.
        """
        together = np.full((self.plain, self.plain), TOGETHER)
        np.fill_diagonal(together, 1.0)
        root = np.eye(self.half)
        root[: self.plain, : self.plain] = np.linalg.cholesky(together)
        return root

    @cached_property
    def couples(self) -> list[tuple[int, int]]:
        """The pairs (j, l), j > l, of logits that may be correlated within a class.

        With two states these are all pairs. With more states they are the pairs of an effect and
        its logit, because the number of all pairs grows with the fourth power of S; other logits
        are correlated through the classes. Differences between contexts are not in pairs.
        """
        if self.S == 2:
            return [(int(j), int(other)) for j in self.common for other in self.common if other < j]
        return [(self.half + j, j) for j in range(self.plain if self.effect else 0)]

    @cached_property
    def parts(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """The place and the shape of the parameters of each name."""
        K, h, d = self.K, self.half, self.free - self.half
        shapes: dict[str, tuple[int, ...]] = {
            "share": (K,),  # of the classes, as logits
            "passive": (K, h),
            "effect": (d,),  # common to all classes
            "apart": (K, d),  # the deviation of each class from it
            "common_spread": (1,),  # log of standard deviations within classes: the common part
            "spread": (K, h),  # log of each standard deviation less the common part
            "effect_spread": (K, d),
            "couple": (K, len(self.couples)),
            "settled": (1,),
            "coin": (self.B * self.S - 1,),
            "seen": (self.S if self.gaps else 0,),
            "by_column": (len(self.common), self.c),
        }
        parts, at = {}, 0
        for name, shape in shapes.items():
            parts[name] = slice(at, at + math.prod(shape)), shape
            at += math.prod(shape)
        return parts

    @cached_property
    def size(self) -> int:
        """The number of parameters."""
        return sum(math.prod(shape) for _, shape in self.parts.values())

    @cached_property
    def prior(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each parameter, in logits.

        A class with chances between .01 and .99 is within two standard deviations of the prior.
        People of a class differ by half a logit, within a factor of about e. Effects of a contact
        are mostly below one logit, and vary between people less than the logits without contact
        do. Half of the variance of the log of a spread is common to all spreads: if people differ
        little in one chance, they probably differ little in the others, and in effects. The context
        of a state changes logits by about one, and that change varies less between people.
        """
        mean, sd = np.zeros(self.size), np.empty(self.size)
        widths = {
            "share": 1.0,
            "passive": 2.5,
            "effect": 0.8,
            "apart": 1.0,
            "common_spread": COMMON_SPREAD,
            "spread": OWN_SPREAD,
            "effect_spread": OWN_SPREAD,
            "couple": 1.0,
            "settled": 2.0,
            "coin": 1.5,
            "seen": 1.5,
        }
        for name, width in widths.items():
            sd[self.parts[name][0]] = width
        self.of(sd, "passive")[:, self.plain :] = 1.0
        by_column = np.empty((len(self.common), self.c))
        by_column[: self.plain] = [scale for scale, _ in self.scales]
        by_column[self.plain :] = [scale for _, scale in self.scales]
        sd[self.parts["by_column"][0]] = by_column.ravel()
        mean[self.parts["spread"][0]] = math.log(0.5)
        self.of(mean, "spread")[:, self.plain :] = math.log(0.3)
        mean[self.parts["effect_spread"][0]] = math.log(0.3)
        mean[self.parts["seen"][0]] = 1.0
        return mean, sd

    def of(self, phi: Floats, name: str) -> Floats:
        """A view of the parameters of a name, in their shape."""
        where, shape = self.parts[name]
        return phi[where].reshape(shape)

    def scale(self, phi: Floats) -> Floats:
        """Standard deviations within each class [K, D], before logits are correlated."""
        logs = np.full((self.K, self.D), float(self.of(phi, "common_spread")[0]))
        logs[:, : self.half] += self.of(phi, "spread")
        logs[:, self.half : self.free] += self.of(phi, "effect_spread")
        scale: Floats = np.exp(np.clip(logs, NARROWEST, WIDEST))
        return scale

    def mixed(self, phi: Floats, k: int, points: Floats) -> Floats:
        """The points [D, M] with the logits of class k correlated."""
        mixed = points.copy()
        for value, (j, other) in zip(self.of(phi, "couple")[k], self.couples, strict=True):
            mixed[j] += value * points[other]
        return mixed


@dataclass(frozen=True, eq=False)
class Law:
    """The law of logits at given parameters, as the kernels take it."""

    atoms: Floats  # [D, K M]
    log_weight: Floats  # [K M]
    settled: float  # chance that the first context is drawn from the stationary law
    coin: Floats  # [C] law of the first context otherwise
    unseen: Floats  # [S] chance that a state is not seen
    by_column: Floats  # [D, c]


def law_at(form: Form, phi: Floats, points: Floats) -> Law:
    """The law with parameters phi on the points [D, M] of a standard normal law."""
    M, h = points.shape[1], form.half
    atoms = np.zeros((form.D, form.K, M))
    scale = form.scale(phi)
    for k in range(form.K):
        spread = scale[k][:, None] * form.mixed(phi, k, points)
        atoms[: form.free, k] = spread[: form.free]
        atoms[:h, k] += (form.root @ form.of(phi, "passive")[k])[:, None]
        atoms[h : form.free, k] += (form.of(phi, "effect") + form.of(phi, "apart")[k])[:, None]
    by_column = np.zeros((form.D, form.c))
    by_column[form.common] = form.of(phi, "by_column")
    return Law(
        atoms=form.summed(atoms.reshape(form.D, -1)),
        log_weight=np.repeat(log_softmax(form.of(phi, "share")) - math.log(M), M),
        settled=float(expit(form.of(phi, "settled")[0])),
        coin=softmax(np.append(0.0, form.of(phi, "coin"))),
        unseen=1 - expit(form.of(phi, "seen")) if form.gaps else np.ones(form.S),
        by_column=form.summed(by_column),
    )


class Fit:
    """The log posterior density of z given histories, with its gradient.

    Parameters
    ----------
    form
        The parameters that there are.
    histories
        The histories of m kinds of people, sorted by X.
    people
        The number of people of each kind [m].
    X
        Numbers about each kind [m, c].
    share
        Share of rounds with a contact, used for rounds whose contact is not known.
    points
        Points of a standard normal law [D, M].
    """

    def __init__(
        self,
        form: Form,
        histories: Histories,
        people: Floats,
        X: Floats,
        share: float,
        points: Floats,
    ) -> None:
        self.form, self.people, self.X, self.share, self.points = form, people, X, share, points
        self._histories, self._n = histories, histories.n
        self._data, self._longest = histories.kernel_data(), histories.longest
        self._seen = people @ histories.seen  # [S]
        changes = (X[1:] != X[:-1]).any(axis=1)
        self._block_of = np.concatenate([[0], np.cumsum(changes)])  # [m] by equal rows of X

    def under(self, form: Form, X: Floats) -> Fit:
        """The fit of another form to the same histories."""
        return Fit(form, self._histories, self.people, X, self.share, self.points)

    def __call__(self, z: Floats) -> tuple[float, Floats]:
        """log p(z, histories) and its gradient."""
        value, gradient, _ = self._slopes(z)
        return value, gradient

    def curvature(self, z: Floats) -> Floats:
        """Minus the second derivatives of log p(z, histories), by differences of the gradient.

        The slopes of numbers about people act only through people's shifts. So their block takes
        one difference for each logit instead of one for each parameter: with H_i the second
        derivatives by the shift of person i, the block is the sum of H_i times X_i X_i'.
        """
        form = self.form
        _, level, by_shift = self._slopes(z)
        by_column, others = form.parts["by_column"][0], form.size - len(form.common) * form.c
        second = np.zeros((form.size, form.size))
        for j in range(others):
            moved = z.copy()
            moved[j] += STEP
            second[j] = (level - self(moved)[1]) / STEP
        second[:others, :others] = (second[:others, :others] + second[:others, :others].T) / 2
        second[by_column, :others] = second[:others, by_column].T
        if form.c:
            common = len(form.common)
            block = np.empty((common, form.c, common, form.c))
            for d, logit in enumerate(form.common):
                move = np.zeros(form.D)
                move[logit] = STEP
                moved_by_shift = self._slopes(z, form.summed(move))[2]
                H = (by_shift - moved_by_shift)[:, form.common] / STEP  # [m, common]
                for e in range(common):
                    block[d, :, e] = (self.X * H[:, e, None]).T @ self.X
            flat = block.reshape(common * form.c, -1)
            sd = form.prior[1][by_column]
            second[by_column, by_column] = np.eye(len(sd)) + (flat + flat.T) / 2 * np.outer(sd, sd)
        return second

    def _slopes(self, z: Floats, move: Floats | None = None) -> tuple[float, Floats, Floats]:
        """The log density, its gradient, and its derivatives by shifts [m, D] after `parted`.

        ``move`` [D] is added to the shift of every person.
        """
        form = self.form
        mean, sd = form.prior
        phi = mean + sd * z
        law = law_at(form, phi, self.points)
        logs, by_shift = np.empty(self._n), np.empty((self._n, form.D))
        shift = self.X @ law.by_column.T
        parts = map_parts(
            person_likelihoods,
            self._n,
            max(LEAST_PART, -(-self._n // PARTS)),
            self._data,
            self._longest,
            law.atoms,
            law.log_weight,
            shift if move is None else shift + move,
            self._block_of,
            law.settled,
            law.coin,
            law.unseen,
            self.share,
            self.people,
            logs,
            by_shift,
        )
        by_atom, by_weight, by_start, hidden = (
            np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True)
        )
        gradient, by_shift = np.zeros(form.size), form.parted(by_shift.T).T
        self._by_atoms(phi, form.parted(by_atom), gradient)
        members = by_weight.reshape(form.K, -1).sum(axis=1)
        form.of(gradient, "share")[:] = members - members.sum() * softmax(form.of(phi, "share"))
        form.of(gradient, "settled")[:] = by_start[0] - by_start.sum() * law.settled
        coins = by_start[1:]
        form.of(gradient, "coin")[:] = (coins - coins.sum() * law.coin)[1:]
        form.of(gradient, "by_column")[:] = (by_shift.T @ self.X)[form.common]
        value = float(self.people @ logs)
        if form.gaps:
            form.of(gradient, "seen")[:] = self._seen * law.unseen - hidden * (1 - law.unseen)
            value += float(self._seen @ np.log1p(-law.unseen))
        value -= float(z @ z) / 2 + form.size / 2 * math.log(2 * math.pi)
        return value, gradient * sd - z, by_shift

    def _by_atoms(self, phi: Floats, by_atom: Floats, gradient: Floats) -> None:
        """Fill the gradient by the parameters of the atoms, from derivatives by atoms [D, K M]."""
        form, h = self.form, self.form.half
        by_class = by_atom.reshape(form.D, form.K, -1)
        total = by_class.sum(axis=2)  # [D, K]
        form.of(gradient, "passive")[:] = total[:h].T @ form.root
        form.of(gradient, "apart")[:] = total[h : form.free].T
        form.of(gradient, "effect")[:] = total[h : form.free].sum(axis=1)
        scale = form.scale(phi)
        for k in range(form.K):
            of_class = by_class[:, k]  # [D, M]
            spread = (of_class * form.mixed(phi, k, self.points)).sum(axis=1) * scale[k]
            form.of(gradient, "spread")[k] = spread[:h]
            form.of(gradient, "effect_spread")[k] = spread[h : form.free]
            form.of(gradient, "common_spread")[:] += spread[: form.free].sum()
            form.of(gradient, "couple")[k] = [
                scale[k, j] * (of_class[j] @ self.points[other]) for j, other in form.couples
            ]
