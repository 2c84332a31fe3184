"""SoftFair and every baseline behind one protocol, see `base`."""

from .acting import FittedSoftFair
from .base import Fitted, Policy
from .evenhanded import EvenHanded, FittedEvenHanded
from .fawt import FaWT
from .indexed import Oracle, ThresholdWhittle, Whittle
from .loading import load
from .probfair import FittedProbFair, ProbFair
from .promised import FittedPromise
from .rules import Rule
from .shared import FittedShares
from .simple import FairMyopic, Myopic, NoIntervention, Random, RoundRobin
from .softfair import SoftFair

__all__ = [
    "EvenHanded",
    "FaWT",
    "FairMyopic",
    "Fitted",
    "FittedEvenHanded",
    "FittedProbFair",
    "FittedPromise",
    "FittedShares",
    "FittedSoftFair",
    "Myopic",
    "NoIntervention",
    "Oracle",
    "Policy",
    "ProbFair",
    "Random",
    "RoundRobin",
    "Rule",
    "SoftFair",
    "ThresholdWhittle",
    "Whittle",
    "load",
]
