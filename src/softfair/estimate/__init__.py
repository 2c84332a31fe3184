r"""From a history of states and contacts to transition probabilities with intervals.

Person :math:`i` moves from state s to s2 after action a with the unknown probability
``P[i, a, s, s2]``. Probabilities are written as logits: ``u[s, j] = log P[0, s, j] / P[0, s, 0]``
without a contact, and ``u + d`` with a contact, so that ``d`` is the effect of a contact. The law
of a person's logits is a mixture of a few unknown classes (such as people who adhere and people who
do not)::

    z_i              ~  share                          the person's class
    (u, d)_i | z, x  ~  Normal(mean_z + B x, Cov_z)    x: the person's columns
    mean_z of d      =  effect + apart_z               a common effect, and that of the class

All parameters of the population have normal priors (:mod:`.population`), and so have the logarithms
of the spreads. So a spread, such as that of effects between people, may be practically zero.
Spreads are correlated in the prior, so that the data about one spread inform the others. With prior
probability one half, a contact has no effect on anybody.

The data of a person are all records between the first and the last round of the person:

- **moves** between two successive rounds;
- **gaps**, which the forward-backward recursion bridges. The chance that a state is seen may depend
  on the state, and is a parameter of each state. A contact that is not known is a contact with the
  probability of the share of contacts in the history;
- **the first state**. With a learnt probability it is drawn from the person's stationary law
  without contacts; otherwise from a law that is common to all people.

Transition probabilities may depend on more than the state, such as the state before
(:class:`Contexts`). Then there is a row for each context, and :func:`foresight_of` tests on rounds
that are held out whether the longer memory predicts better.

Given the population, the posterior of a person is computed at a few hundred atoms of the
population's law, weighted by the likelihood of the person's history (:mod:`.persons`,
kernels.chains). Averaging over the same atoms gives the likelihood of the population, with its
gradient. The posterior of the population is found for each number of classes, with and without
effects, as a mode and a normal law about it; these forms are averaged by their evidence
(:mod:`.fitting`). Intervals are the shortest intervals of the posterior over the atoms of a person
and draws of the population together.

Approximations and their size: 64 atoms a class instead of 1024 change the log likelihood of 300
people by less than .05. The error of the normal law about the mode shows in the coverage of the
intervals, which is measured (``python -m benchmarks estimation``).
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
