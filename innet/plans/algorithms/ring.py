"""Ring: each shard's sum walks once round the hosts and picks up one contribution at each.

The bandwidth-optimal ring of P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", J. Parallel Distrib. Comput. 69 (2009), said in names: what they push to
the right neighbour, we ask of the left one.
"""

from __future__ import annotations

from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Topology


def plan_ring(topology: Topology, ranks: tuple[str, ...]) -> Plan:
    """One chain of sums per shard; the chain of shard b starts at rank b+1 and ends at rank b.

    So block b of a reduce-scatter ends where it is wanted. The interval ``s … s+i`` is made at rank
    s+i from ``s … s+i-1``, which rank s+i-1 makes, and its own contribution.
    """
    size = len(ranks)
    rules = tuple(
        _extend(ranks, first, length) for length in range(2, size + 1) for first in range(size)
    )
    roots = tuple(
        Placed(Interval.spanning(block + 1, size, size), host) for block, host in enumerate(ranks)
    )
    why = f"Each of {size} shards goes once round the ranks in order and ends at its own rank."
    return Plan("ring", ranks, roots, rules, why)


def _extend(ranks: tuple[str, ...], first: int, length: int) -> Rule:
    size = len(ranks)
    whole = Interval.spanning(first, length, size)
    before = Interval.spanning(first, length - 1, size)
    here = ranks[whole.last]
    operands = (Placed(before, ranks[before.last]), Placed(Interval.single(whole.last), here))
    return Rule(here, whole, operands)
