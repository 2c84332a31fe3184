"""The plan of a round: who is in the draw, with which probability, who is on the list, and why.

The people still in the programme are a cohort, with transition probabilities from the model, the
state observed now (or, if it was not seen, the distribution that follows from the last state seen)
and the rounds that are left. `SoftFair` by prices gives each person's gain lambda from a contact
now. The list is a set of k of the people in the draw; its probability is proportional to the
product of exp(c lambda) over them (design `joint`), so nobody has a lower chance than somebody who
would gain less. With `EvenHanded` everybody's bonus for evenness is added to lambda, and the same
holds for the sum. If capacity goes by site, each site has a cohort and a draw of its own.

The key of a draw follows from the programme's seed and the round, and after a commitment also from
luck that came from outside (`softfair.programme.luck`). So a command that is repeated gives the
same list, a plan that is made anew draws with the same luck, and nobody can draw until a list
pleases. Scores are stored as they were used, so that every draw can be replayed from the database
alone.

    stored       the columns of a plan, its digest, reading and writing
    weighing     what contacts are worth to each person, and how it is stored
    drawing      from scores and a key to chances and a list
    kept         what a plan keeps of a promise, as it is stored
    counting     how many lists in a row each person was left off
    sharing      whether a wait can be kept beside shares of groups
    together     whether a wait can be kept beside at most one of each household
    keeping      whether a promise can be kept, and what the plan keeps of it
    commitments  what is frozen of a plan, and which commitments wait for their luck
    asking       what is asked of a plan, and whether its round can be planned now
    preparing    a plan without its luck
    making       a plan in one step: its draw, and the order of its reserve
    committing   a plan in two steps: a commitment, then the draw
    replaying    every draw again, from what is stored
    explaining   a sentence for each person
    counterfactual   the list without some changes shortly before it
"""

from ..commitments import Commitment
from .asking import PlanWish
from .commitments import open_commitment
from .committing import commit_plan, draw_plan
from .explaining import explain, place_in_reserve
from .making import make_plan
from .preparing import promising, to_be_planned
from .replaying import Verdict, verify
from .stored import Header, Plan, Rows, load_plan, plan_of, plan_rows

__all__ = [
    "Commitment",
    "Header",
    "Plan",
    "PlanWish",
    "Rows",
    "Verdict",
    "commit_plan",
    "draw_plan",
    "explain",
    "load_plan",
    "make_plan",
    "open_commitment",
    "place_in_reserve",
    "plan_of",
    "plan_rows",
    "promising",
    "to_be_planned",
    "verify",
]
