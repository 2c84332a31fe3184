r"""From a history of states and contacts to transition probabilities with intervals.

For each action :math:`a` and state :math:`s`, person :math:`i` of group :math:`g` has an unknown
row :math:`\theta_i` of :math:`S` probabilities, ``P[i, a, s]``. The data are :math:`y_i`, the
counts of the person's moves out of :math:`s` under :math:`a`, and :math:`N_i`, their sum (``seen``
in the code). Each person belongs to one of a few classes :math:`z` (such as people who adhere and
people who do not). Nobody tells us the class, and its share differs between groups::

    y_i     | theta_i   ~  Multinomial(N_i, theta_i)
    theta_i | z, m_zg   ~  Dirichlet(alpha_z m_zg)     a person resembles their class and group
    m_zg    | m_z       ~  Dirichlet(kappa_z m_z)      a group resembles the cohort
    m_z                 ~  Dirichlet(1, ..., 1)
    z_i     | g         ~  share_g                     shares of groups resemble the cohort's

With two states these are Beta laws. ``strength`` is alpha, the number of pseudo-counts that the
group adds to a person's own counts. ``group_strength`` is kappa, the number of pseudo-counts that
the cohort adds to a group's counts.

Given z, alpha and m, theta_i is Dirichlet(alpha m + y_i). Its mean is the person's own frequency
with weight N / (alpha + N), and the group's mean with the remaining weight. Hence a short history
is never taken for certain. A person without history gets the estimate of the group, or of the
cohort if nobody of the group was seen in that state under that action; ``source`` says which. The
class connects the rows of a person: the behaviour of somebody who was never contacted tells how
they would probably respond to a contact.

Strengths are learnt from all persons by marginal likelihood, for each class, action and state.
Integrating theta out leaves the Dirichlet-multinomial likelihood::

    log p(y | alpha, m) = sum_i [ sum_s2 R(alpha m_s2, y_s2) - R(alpha, N) ],
    R(x, y) = log Gamma(x + y) - log Gamma(x).

The prior of a strength is Lomax's law with density proportional to (u + strength)^-3, which is
proper and has mean u. It matters only where few moves were seen, such as contacts in a short
history. There u is the posterior mean of one strength common to the other rows of the class
(itself learnt with u = 1): persons are supposed to differ as much as they differ elsewhere.

The mean of a group has no closed posterior. A person's frequencies vary about it with variance
m (1 - m) (alpha + N) / (N (alpha + 1)), so N moves of one person are worth
N (alpha + 1) / (alpha + N) independent moves (:mod:`.rows` calls them effective moves). With
effective moves as counts the posterior of m_g is a Dirichlet law, and groups are to the cohort
what persons are to the group (:mod:`.groups`). The uncertainty of m_g enters log p(alpha) by
Laplace's term -(S - 1)/2 sum_g log(1 + effective_g / kappa).

Classes are found by expectation-maximisation, and their number is chosen by Schwarz's criterion
(BIC), starting from one class (:mod:`.classes`).

Intervals include the uncertainty of z, alpha, kappa and m. They are quantiles of a mixture of Beta
laws, each with the mean and variance that the law of total variance gives for one class and one
range of alpha (:mod:`.persons`, :mod:`.intervals`).
"""

from __future__ import annotations

from .constraint import CONSTRAINTS
from .estimation import estimate
from .result import COHORT, GROUP, OWN, PRIOR, Estimate
from .transitions import count_transitions

__all__ = [
    "COHORT",
    "CONSTRAINTS",
    "GROUP",
    "OWN",
    "PRIOR",
    "Estimate",
    "count_transitions",
    "estimate",
]
