"""The claims of the paper, each tested, with a verdict and a witness::

    from softfair import theory
    for verdict in theory.verdicts():
        print(verdict)

Each claim is an inequality ``left <= right``. A check searches for the instance with the least
``right - left``. The witness holds that instance and both sides, and the margin is
``|right - left|``. :func:`recheck` evaluates a witness again, by plain recursion and enumeration
that share no code with the search. If the paper's claim fails, the verdict has a corrected
statement, which is itself a claim with a check.

Claims are judged by exact values from :class:`Joint`: the dynamic programme over all joint states
and all sets of k arms, for small n. Numbers of lemmas are those of the paper: Lemma 1 bounds Q,
Lemma 2 bounds max - softmax, and Lemma 3 (in the appendix) says that values fall with t.
Definition 2 is in the appendix.
"""

from .catalogue import CLAIMS, Row, claim_of, recheck, table, verdicts
from .claim import Claim, Verdict
from .joint import Joint, highest, set_law, softmax_value

__all__ = [
    "CLAIMS",
    "Claim",
    "Joint",
    "Row",
    "Verdict",
    "claim_of",
    "highest",
    "recheck",
    "set_law",
    "softmax_value",
    "table",
    "verdicts",
]
