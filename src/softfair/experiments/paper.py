"""The figures that the paper prints, and references."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAPER_TABLE_2", "REFERENCES", "Reference"]

#: Table 2 of the paper by policy: (benefit, its sd), (entropy, its sd).
PAPER_TABLE_2 = {
    "Random": ((79.0, 13.0), (4.56, 0.0056)),
    "Myopic": ((98.0, 3.3), (2.67, 0.0)),
    "FairMyopic": ((83.0, 11.0), (4.5, 0.0089)),
    "SoftFair": ((93.0, 7.6), (4.27, 0.019)),
}


@dataclass(frozen=True)
class Reference:
    """A source.

    Parameters
    ----------
    authors, title : str
        Authors with the year, and the title.
    use : str
        What the source is used for here.
    link : str
        The address; "" if it is not known.
    """

    authors: str
    title: str
    use: str
    link: str = ""


REFERENCES = (
    Reference(
        "Dexun Li and Pradeep Varakantham (2022)",
        "Towards Soft Fairness in Restless Multi-Armed Bandits",
        "the paper: SoftFair, Algorithm 1, Figures 1 to 3, Table 2",
        "https://arxiv.org/abs/2207.13343",
    ),
    Reference(
        "Aditya Mate and others (2020)",
        "Collapsing Bandits and Their Application to Public Health Interventions",
        "Threshold Whittle, and the structure of the synthetic cohort",
        "https://arxiv.org/abs/2007.04432",
    ),
    Reference(
        "Aditya Mate, Arpita Biswas, Christoph Siebenbrunner, Susobhan Ghosh and Milind Tambe "
        "(2021)",
        "Efficient Algorithms for Finite Horizon and Streaming Restless Multi-Armed Bandit "
        "Problems",
        "the Oracle: a sigmoid between the myopic and the infinite-horizon index",
    ),
    Reference(
        "Christine Herlihy, Aviva Prins, Aravind Srinivasan and John P. Dickerson (2021, 2023)",
        "Planning to Fairly Allocate: Probabilistic Fairness in the Restless Bandit Setting",
        "CPAP adherence as a restless bandit, and ProbFair",
        "https://arxiv.org/abs/2106.07677",
    ),
    Reference(
        "Kang, Prabhu, Sawyer and Griffin (2013)",
        "Markov models for treatment adherence in obstructive sleep apnea",
        "the transition matrices of the CPAP cohort",
    ),
)
