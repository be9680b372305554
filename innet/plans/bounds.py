"""Bytes that an allreduce puts on each link, and the lower bound in time that follows.

``docs/bounds.md`` derives every formula. Only payload bytes count; Interests, names, signatures and
headers come on top and are part of what a measurement shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from innet.errors import PlanError
from innet.plans.folding import FoldedPlan
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Placed, Plan
from innet.topology import Topology
from innet.topology.routes import Routes

DirectedLink = tuple[str, str]
"""A link in the direction in which bytes flow: (from node, to node)."""


class BusiestLink(NamedTuple):
    """The link that bounds an operation: no schedule can end before it has carried its bytes."""

    link: DirectedLink | None
    time_s: float


def bytes_per_link(
    plan: Plan, topology: Topology, size_bytes: int, *, segment_bytes: int | None = None
) -> dict[DirectedLink, float]:
    """Payload bytes that one allreduce puts on each directed link.

    Equal requests meet on the way and answers are multicast, so a link carries each named segment
    at most once in each direction, however many nodes behind it want it.

    Args:
        topology: where it runs; paths are those of :class:`~innet.topology.routes.Routes`.
        size_bytes: bytes of one rank's tensor.
        segment_bytes: cut the tensor into such segments, dealt to the shards in turn; without it,
            every shard has an equal share, which is the limit for large tensors.

    Raises:
        PlanError: a node of the plan is not in the topology or cannot be reached.
    """
    return link_bytes(plan, Routes(topology), shard_bytes(plan, size_bytes, segment_bytes))


def bound_s(plan: Plan, topology: Topology, size_bytes: int) -> float:
    """Seconds that an allreduce of ``size_bytes`` per rank takes at least: the busiest link's time.

    Links without a rate cost nothing.
    """
    return busiest_link(topology, bytes_per_link(plan, topology, size_bytes)).time_s


def bounds_of_levels_s(plan: Plan, topology: Topology, size_bytes: int) -> tuple[float, float]:
    """:func:`bound_s` of the links within hosts, which join workers to their host's memory, and of
    the others."""
    within: dict[DirectedLink, float] = {}
    between: dict[DirectedLink, float] = {}
    for link, carried_bytes in bytes_per_link(plan, topology, size_bytes).items():
        level = within if topology.link_between(*link).in_memory else between
        level[link] = carried_bytes
    return busiest_link(topology, within).time_s, busiest_link(topology, between).time_s


def busiest_link(
    topology: Topology, carried: Mapping[DirectedLink, float], load: Load = NO_LOAD
) -> BusiestLink:
    """The directed link that needs longest for its bytes; the first one of several."""
    times_s = link_times_s(topology, carried, load)
    link = max(times_s, key=times_s.__getitem__, default=None)
    if link is None or not times_s[link]:
        return BusiestLink(None, 0.0)
    return BusiestLink(link, times_s[link])


def link_times_s(
    topology: Topology, carried: Mapping[DirectedLink, float], load: Load = NO_LOAD
) -> dict[DirectedLink, float]:
    """The time that each directed link needs for its bytes, in seconds; 0 without a rate."""
    rates_bps = {(u, v): load.rate_bps(topology, u, v) for u, v in carried}
    return {
        link: 8 * carried_bytes / rate_bps if (rate_bps := rates_bps[link]) else 0.0
        for link, carried_bytes in carried.items()
    }


def shard_bytes(plan: Plan, size_bytes: int, segment_bytes: int | None) -> list[float]:
    """Bytes of the tensor that each shard handles; see :func:`bytes_per_link`."""
    return shares_of(len(plan.roots), size_bytes, segment_bytes)


def shares_of(shards: int, size_bytes: int, segment_bytes: int | None) -> list[float]:
    """The share of each of ``shards`` in ``size_bytes``; see :func:`shard_bytes`."""
    if segment_bytes is None:
        return [size_bytes / shards] * shards
    whole, rest_bytes = divmod(size_bytes, segment_bytes)
    rounds, extra = divmod(whole, shards)
    shares = [float((rounds + (shard < extra)) * segment_bytes) for shard in range(shards)]
    shares[whole % shards] += rest_bytes
    return shares


def link_bytes(plan: Plan, routes: Routes, shares_bytes: list[float]) -> dict[DirectedLink, float]:
    """Bytes per directed link when shard s handles ``shares_bytes[s]``."""
    operands = {Placed(rule.interval, rule.node): rule.operands for rule in plan.rules}
    total: dict[DirectedLink, float] = defaultdict(float)
    for root, share_bytes in zip(plan.roots, shares_bytes, strict=True):
        if share_bytes:
            for _, link in answers(plan, routes, operands, root):
                total[link] += share_bytes
    return dict(total)


def folded_link_bytes(
    folded: FoldedPlan, routes: Routes, shares_bytes: list[float]
) -> dict[DirectedLink, float]:
    """Bytes on each link, also on those within racks; see :func:`link_bytes`."""
    total = link_bytes(folded.plan, routes, shares_bytes)
    all_bytes = sum(shares_bytes)
    for switch, rack in folded.racks.items():
        for host in rack.hosts:
            total[host, switch] = total[switch, host] = all_bytes
    return total


def answers(
    plan: Plan, routes: Routes, operands: dict[Placed, tuple[Placed, ...]], root: Placed
) -> dict[tuple[Placed, DirectedLink], str]:
    """Each (answer, link it crosses) of one shard, once, with the node that requests it there.

    Of several, that is the first one.
    """
    crossed: dict[tuple[Placed, DirectedLink], str] = {}

    def ask(asker: str, placed: Placed) -> None:
        node = asker
        while node != placed.node:
            following = routes.next_hop(node, placed.node)
            answer = placed, (following, node)
            if answer in crossed:
                return  # routes towards one node never split again
            crossed[answer] = asker
            node = following

    for asker in plan.ranks:
        ask(asker, root)
    pending = [root]
    while pending:
        placed = pending.pop()
        for operand in operands.get(placed, ()):
            ask(placed.node, operand)
            pending.append(operand)
    return crossed


def _ring(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


_TEXTBOOK: dict[str, Callable[[int], float]] = {
    "inc": lambda ranks: 1.0 if ranks > 1 else 0.0,
    "ring": _ring,
    "halving-doubling": _ring,
    "ps": lambda ranks: float(ranks - 1),
    "gloo-ring": _ring,
    "gloo-gather-broadcast": lambda ranks: float(ranks - 1 + (ranks - 1).bit_length()),
    "tcp-gather-broadcast": lambda ranks: 2.0 * (ranks - 1),
}


def textbook_bound_s(algorithm: str, ranks: int, size_bytes: int, rate_bps: float) -> float:
    """The bound of an algorithm on one switch with equal links of ``rate_bps``.

    Args:
        algorithm: an algorithm of ours, or a foreign baseline: ``gloo-ring`` (ring allreduce),
            ``tcp-gather-broadcast`` (every rank pushes to rank 0, which then pushes to every rank),
            ``gloo-gather-broadcast`` (the same with Gloo's broadcast, which is a binomial tree).
        ranks: N.
        size_bytes: M, bytes of one rank's tensor.
        rate_bps: rate of every link in bits a second.

    Raises:
        PlanError: no formula is known for the algorithm.

    >>> round(textbook_bound_s("inc", 8, 16 << 20, 200e6), 2)
    0.67
    """
    if algorithm not in _TEXTBOOK:
        raise PlanError(
            f"no bound is known for {algorithm!r}; known are {', '.join(sorted(_TEXTBOOK))}"
        )
    return _TEXTBOOK[algorithm](ranks) * size_bytes * 8 / rate_bps
