"""SoftFair and every baseline behind one protocol, see `base`."""

from .base import Fitted, Policy
from .evenhanded import EvenHanded, FittedEvenHanded
from .fawt import FaWT
from .indexed import Oracle, ThresholdWhittle, Whittle
from .probfair import FittedProbFair, ProbFair
from .simple import FairMyopic, Myopic, NoIntervention, Random, RoundRobin
from .softfair import FittedSoftFair, SoftFair

__all__ = [
    "EvenHanded",
    "FaWT",
    "FairMyopic",
    "Fitted",
    "FittedEvenHanded",
    "FittedProbFair",
    "FittedSoftFair",
    "Myopic",
    "NoIntervention",
    "Oracle",
    "Policy",
    "ProbFair",
    "Random",
    "RoundRobin",
    "SoftFair",
    "ThresholdWhittle",
    "Whittle",
]
