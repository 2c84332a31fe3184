r"""From a history of states and contacts to transition probabilities with intervals.

Person :math:`i` has unknown chances ``P[i, a, s, s2]`` to move from state s to s2 after action a.
They are written as logits: ``u[s, j] = log P[0, s, j] / P[0, s, 0]`` without a contact, and
``u + d`` with one, so that ``d`` is the effect of a contact. The law of a person's logits is a
mixture of a few classes (such as people who adhere and people who do not), which nobody tells us::

    z_i              ~  share                          the person's class
    (u, d)_i | z, x  ~  Normal(mean_z + B x, Cov_z)    x: what is known of the person (columns)
    mean_z of d      =  effect + apart_z               a common effect, and that of the class

Everything about the population has a normal prior (:mod:`.population`), the logs of spreads too;
so a spread, such as that of effects between people, may be as good as nothing. Spreads go together,
so that what is learnt of one tells of the others. In half of the prior a contact does nothing at
all, for anybody.

A person's data are all that was recorded between their first round and their last:

- moves between two rounds that follow each other;
- **gaps**, bridged by the forward-backward recursion. Whether a state is seen may depend on it: its
  chance of being seen is a parameter of each state. A contact that is not known is a contact with
  the probability of the share of contacts in the history;
- **the first state**. With a probability that is learnt it is settled, that is drawn from the law
  that the person reaches if left alone; else it comes from a law common to all.

Chances may go by more than the state, such as the one before it (:class:`Contexts`); then rows are
by context, and whether that foretells better is tried on rounds held out (:func:`foresight_of`).

Given the population, a person's posterior is taken at a few hundred atoms of the population's law,
weighted by the likelihood of the person's history (:mod:`.persons`, kernels.chains). Averaging over
the same atoms gives the likelihood of the population, with its gradient. Its posterior is found for
each number of classes, with and without effects, as a mode and a normal law about it; the forms are
averaged by their evidence (:mod:`.fitting`). Intervals are quantiles over persons' atoms and draws
of the population together.

Approximations and their size: 64 atoms a class against 1024 change the log likelihood of 300 people
by less than .05; the normal law about the mode is measured by the coverage of the intervals
(``python -m benchmarks estimation``).
"""

from __future__ import annotations

from .constraint import CONSTRAINTS
from .contexts import Contexts, Memory
from .estimation import estimate
from .foresight import Foresight, foresight_of
from .histories import Histories
from .result import COHORT, GROUP, OWN, PRIOR, ColumnEffect, Estimate, Interval
from .transitions import count_transitions, read_histories

__all__ = [
    "COHORT",
    "CONSTRAINTS",
    "GROUP",
    "OWN",
    "PRIOR",
    "ColumnEffect",
    "Contexts",
    "Estimate",
    "Foresight",
    "Histories",
    "Interval",
    "Memory",
    "count_transitions",
    "estimate",
    "foresight_of",
    "read_histories",
]
