"""Recursive halving and doubling: a butterfly over the hosts, log2(N) steps deep.

The reduce-scatter of R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective
Communication Operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), said in names.
"""

from __future__ import annotations

from innet.errors import PlanError
from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Topology


def plan_halving_doubling(topology: Topology, ranks: tuple[str, ...]) -> Plan:
    """Aligned intervals of 2, 4, 8, … ranks, each made at every one of its own ranks.

    Rank r asks the two halves of an interval at the ranks that agree with r in the low bits, so the
    level of 2^l ranks serves every shard whose number agrees with r in the low l bits. The root of
    shard s is rank s, which is also where block s of a reduce-scatter is wanted.

    Raises:
        PlanError: the number of ranks is not a power of two.
    """
    size = len(ranks)
    if size & (size - 1):
        smaller = 1 << (size.bit_length() - 1)
        raise PlanError(
            f"halving-doubling needs a power of two of ranks, not {size}; "
            f"use {smaller} or {2 * smaller} ranks, or the algorithm 'ring' or 'inc'"
        )
    levels = [2 << level for level in range(size.bit_length() - 1)]
    rules = tuple(_join(ranks, rank, length) for length in levels for rank in range(size))
    everything = Interval(0, size - 1)
    roots = tuple(Placed(everything, host) for host in ranks)
    why = f"{len(levels)} steps of halving; shard s ends at rank s."
    return Plan("halving-doubling", ranks, roots, rules, why)


def _join(ranks: tuple[str, ...], rank: int, length: int) -> Rule:
    """The rule of ``rank`` for the aligned interval of ``length`` ranks around it."""
    half = length // 2
    first = rank - rank % length
    low = rank % half
    operands = tuple(
        Placed(Interval(start, start + half - 1), ranks[start + low])
        for start in (first, first + half)
    )
    return Rule(ranks[rank], Interval(first, first + length - 1), operands)
