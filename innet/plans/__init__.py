"""Plans: which node adds what. Read :mod:`innet.plans.plan` first.

    plan = make_plan("inc", topology)
    plan.rules_for("leaf0")      # what to install there
    plan.root_for(segment)       # the node that serves the result of a segment

``expression`` names intervals of ranks, ``algorithms/`` places their sums, ``routes`` and
``bounds`` say what that costs the links, ``processor`` what it costs the nodes, ``cost`` compares
plans, ``load`` is what others use of the network, ``host_choice`` finds hosts for a job,
``replacement`` moves sums away from lost nodes, ``reference`` computes the expected result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.plans.aggregation_tree import rank_order
    from innet.plans.algorithms.auto import Choice, PlanChooser
    from innet.plans.bounds import bound_s, bytes_per_link, textbook_bound_s
    from innet.plans.explanation import Explanation, explain
    from innet.plans.expression import Interval
    from innet.plans.host_choice import HostChoice, choose_hosts
    from innet.plans.load import NO_LOAD, Load
    from innet.plans.plan import Placed, Plan, Rule
    from innet.plans.processor_costs import ProcessorCosts
    from innet.plans.reference import evaluate, evaluate_allreduce
    from innet.plans.registry import ALGORITHMS, make_plan
    from innet.plans.replacement import place_without
    from innet.plans.segment_room import SegmentRoom

__all__ = [
    "ALGORITHMS",
    "NO_LOAD",
    "Choice",
    "Explanation",
    "HostChoice",
    "Interval",
    "Load",
    "Placed",
    "Plan",
    "PlanChooser",
    "ProcessorCosts",
    "Rule",
    "SegmentRoom",
    "bound_s",
    "bytes_per_link",
    "choose_hosts",
    "evaluate",
    "evaluate_allreduce",
    "explain",
    "make_plan",
    "place_without",
    "rank_order",
    "textbook_bound_s",
]

__getattr__ = lazy_names(
    __name__,
    {
        "rank_order": "aggregation_tree",
        "Choice": "algorithms.auto",
        "PlanChooser": "algorithms.auto",
        "bound_s": "bounds",
        "bytes_per_link": "bounds",
        "textbook_bound_s": "bounds",
        "Explanation": "explanation",
        "explain": "explanation",
        "Interval": "expression",
        "HostChoice": "host_choice",
        "choose_hosts": "host_choice",
        "NO_LOAD": "load",
        "Load": "load",
        "Placed": "plan",
        "Plan": "plan",
        "Rule": "plan",
        "ProcessorCosts": "processor_costs",
        "SegmentRoom": "segment_room",
        "evaluate": "reference",
        "evaluate_allreduce": "reference",
        "ALGORITHMS": "registry",
        "make_plan": "registry",
        "place_without": "replacement",
    },
)
