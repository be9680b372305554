"""Plans: which node adds what. Read :mod:`innet.plans.plan` first.

    plan = make_plan("inc", topology)
    plan.rules_for("leaf0")      # what to install there
    plan.root_for(segment)       # whom to ask for the result of a segment

``expression`` names intervals of ranks, ``algorithms/`` places their sums, ``routes`` and
``bounds`` say what that costs the links, ``cost`` compares plans, ``replacement`` moves sums away
from nodes that are gone, ``reference`` says what must come out.
"""

from innet.plans.aggregation_tree import rank_order
from innet.plans.algorithms.auto import Choice, PlanChooser
from innet.plans.bounds import bound_s, bytes_per_link, textbook_bound_s
from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.plans.reference import evaluate, evaluate_allreduce
from innet.plans.registry import ALGORITHMS, make_plan
from innet.plans.replacement import place_without

__all__ = [
    "ALGORITHMS",
    "Choice",
    "Interval",
    "Placed",
    "Plan",
    "PlanChooser",
    "Rule",
    "bound_s",
    "bytes_per_link",
    "evaluate",
    "evaluate_allreduce",
    "make_plan",
    "place_without",
    "rank_order",
    "textbook_bound_s",
]
