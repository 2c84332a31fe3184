"""The entropies of Table 2: the range of the paper's definition, and the entropy of a lottery."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from . import plain
from .claim import NOT_SO, Claim, Search, Sides, Witness

__all__ = ["CLAIMS", "lottery_entropy"]

TABLE_2 = (100, 10, 80)  # n, k, T
TABLE_2_RANDOM = 4.56  # action entropy of the Random policy
ROUNDED = 0.005  # half a unit of the last printed digit


def search_entropy(
    tightest: Search,
    divisor: Literal["kn", "kT"] = "kn",
    printed: float = TABLE_2_RANDOM,
    setting: tuple[int, int, int] = TABLE_2,
) -> None:
    """Action entropy with selections divided by k n, as the paper prints it, or by k T.

    The k T selections of a run, divided by k n, sum to T / n (.8 in Table 2). Then -sum P log P is
    at most (T/n) log(n^2/T) = 3.86, if all arms are equal, so that the 4.56 of Table 2 cannot be
    reached. Divided by k T, the selections sum to 1, and the most is log n = 4.605.
    """
    n, k, T = setting
    total = T / n if divisor == "kn" else 1.0
    tightest.add(
        printed,
        total * math.log(n / total),
        1,
        lambda _: dict(n=n, k=k, T=T, printed=printed, sum_of_P=total),
    )


def entropy_sides(w: Witness, divisor: str) -> Sides:
    """The printed entropy, and that of all arms selected equally often."""
    n, k, T = w["n"], w["k"], w["T"]
    share = k * T / n / (k * w[divisor[1]])  # P(i) if all arms are selected equally often
    if not plain.close(n * share, w["sum_of_P"]):
        return NOT_SO
    return w["printed"], -sum(share * math.log(share) for _ in range(n))


def lottery_entropy(n: int, k: int, T: int) -> float:
    """Expected action entropy of Random: -n E[P log P] with P = X / (k T), X ~ Binomial(T, k/n).

    Parameters
    ----------
    n, k, T : int
        Arms, arms selected at each decision, decisions.

    Returns
    -------
    float
        In nats.

    Examples
    --------
    >>> from softfair.theory.entropy import lottery_entropy
    >>> round(lottery_entropy(100, 10, 80), 3)
    4.547
    """
    q = k / n
    return -n * sum(
        math.comb(T, x) * q**x * (1 - q) ** (T - x) * x / (k * T) * math.log(x / (k * T))
        for x in range(1, T + 1)
    )


def search_lottery(
    tightest: Search,
    printed: float = TABLE_2_RANDOM,
    setting: tuple[int, int, int] = TABLE_2,
) -> None:
    """Table 2: the entropy of Random is 4.56 at T = 80. The entropy of a lottery is 4.547.

    Each count is Binomial(T, k/n), so the expectation is exact. At T = 100 it is 4.559. The
    standard deviation of one run is .0082 (.0065 at T = 100; the paper prints .0056), and that of a
    mean of 50 runs is .0012. So Table 2 was perhaps made with T = 100, as was Figure 1.
    """
    n, k, T = setting
    entropy = lottery_entropy(n, k, T)
    tightest.add(
        abs(entropy - printed),
        ROUNDED,
        1,
        lambda _: dict(n=n, k=k, T=T, printed=printed, lottery=entropy),
    )


def lottery_sides(w: Witness) -> Sides:
    """The difference between the entropy of a lottery and the printed one, and the rounding."""
    n, k, T = w["n"], w["k"], w["T"]
    chance, mean = (1 - k / n) ** T, 0.0  # of being selected 0 times; then 1, 2, ...
    for x in range(1, T + 1):
        chance *= (T - x + 1) / x * k / (n - k)
        mean -= n * chance * x / (k * T) * math.log(x / (k * T))
    if not plain.close(mean, w["lottery"]):
        return NOT_SO
    return abs(mean - w["printed"]), ROUNDED


ENTROPY_KT = Claim(
    "entropy-kT",
    "With P(i) = selections / (k T) an entropy of 4.56 is possible at n = 100, k = 10, T = 80.",
    "nats",
    partial(search_entropy, divisor="kT"),
    partial(entropy_sides, divisor="kT"),
)
ENTROPY_KN = Claim(
    "entropy-kn",
    "With P(i) = selections / (k n) an entropy of 4.56 is possible at n = 100, k = 10, T = 80.",
    "nats",
    partial(search_entropy, divisor="kn"),
    partial(entropy_sides, divisor="kn"),
    instead=ENTROPY_KT,
)
LOTTERY_100 = Claim(
    "table-2-random-T100",
    "A lottery's expected action entropy at n = 100, k = 10, T = 100 rounds to 4.56.",
    "nats, of a rounding of .005",
    partial(search_lottery, setting=(100, 10, 100)),
    lottery_sides,
)
LOTTERY_80 = Claim(
    "table-2-random",
    "A lottery's expected action entropy at n = 100, k = 10, T = 80 rounds to 4.56.",
    "nats, of a rounding of .005",
    search_lottery,
    lottery_sides,
    instead=LOTTERY_100,
)

CLAIMS = (ENTROPY_KN, ENTROPY_KT, LOTTERY_80, LOTTERY_100)
