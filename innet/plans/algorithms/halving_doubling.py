"""Recursive halving and doubling: a butterfly over the hosts, log2(N) steps deep.

The reduce-scatter of R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective
Communication Operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), said in names.
With their remedy for a number of ranks that is not a power of two: the first ranks go in pairs.
"""

from __future__ import annotations

from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Topology


def plan_halving_doubling(topology: Topology, ranks: tuple[str, ...]) -> Plan:
    """Aligned intervals of 2, 4, 8, … parts, each made at the first rank of every part of them.

    A part is one rank, or two of the first ranks where their number is not a power of two. Part p
    requests the two halves of an interval from the parts that agree with p in the low bits, so the
    level of 2^l parts serves every shard whose number agrees with p in the low l bits. The root of
    shard s is part s, which is also where block s of a reduce-scatter is wanted, when parts are
    ranks.
    """
    parts = _parts(len(ranks))
    levels = [2 << level for level in range(len(parts).bit_length() - 1)]
    pairs = tuple(_add_pair(ranks, part) for part in parts if not part.is_single)
    joins = tuple(
        _join(ranks, parts, index, length) for length in levels for index in range(len(parts))
    )
    everything = Interval(0, len(ranks) - 1)
    roots = tuple(Placed(everything, ranks[part.first]) for part in parts)
    why = f"{len(levels)} steps of halving; shard s ends at rank s."
    if pairs:
        why = (
            f"{len(ranks)} ranks are not a power of two: the first {2 * len(pairs)} add in pairs, "
            f"then {len(levels)} steps of halving among {len(parts)}."
        )
    return Plan("halving-doubling", ranks, roots, pairs + joins, why)


def _parts(size: int) -> list[Interval]:
    """The ranks in a power of two of parts, pairs first."""
    count = 1 << (size.bit_length() - 1)
    pairs = size - count
    return [
        Interval(2 * i, 2 * i + 1) if i < pairs else Interval.single(i + pairs)
        for i in range(count)
    ]


def _add_pair(ranks: tuple[str, ...], pair: Interval) -> Rule:
    operands = tuple(Placed(Interval.single(r), ranks[r]) for r in (pair.first, pair.last))
    return Rule(ranks[pair.first], pair, operands)


def _join(ranks: tuple[str, ...], parts: list[Interval], index: int, length: int) -> Rule:
    """The rule of part ``index`` for the aligned interval of ``length`` parts around it."""
    half = length // 2
    first = index - index % length
    low = index % half
    operands = tuple(
        Placed(
            Interval(parts[start].first, parts[start + half - 1].last),
            ranks[parts[start + low].first],
        )
        for start in (first, first + half)
    )
    whole = Interval(parts[first].first, parts[first + length - 1].last)
    return Rule(ranks[parts[index].first], whole, operands)
