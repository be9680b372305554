"""The earliest time at which an allreduce can end: what ``bounds.py`` computes, and latency.

``docs/bounds.md`` derives it. A link is a machine that carries answers, each of which can arrive at
the link no sooner than its head and leaves a tail to do after it: the bound of one-machine
sequencing (J. Carlier, "The one-machine sequencing problem", Eur. J. Oper. Res. 11, 1982).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from functools import cache
from itertools import chain, pairwise
from typing import NamedTuple

from innet.plans.bounds import DirectedLink, shard_bytes
from innet.plans.plan import Placed, Plan
from innet.topology import Link, Topology
from innet.topology.routes import Routes


def completion_bound_s(
    plan: Plan, topology: Topology, size_bytes: int, segment_bytes: int
) -> float:
    """Seconds that an allreduce of ``size_bytes`` per rank takes at least, latency included.

    Nodes take no time, Interests and headers no bytes. A node forwards a segment when all of it has
    arrived. Never less than :func:`innet.plans.bounds.bound_s` of the same segments.

    Args:
        size_bytes: bytes of one rank's tensor.
        segment_bytes: of a full segment; segments are dealt to the shards in turn.

    Raises:
        PlanError: a node of the plan is not in the topology or cannot be reached.
    """
    network = _Network(topology)
    sums = _Sums(plan, network.routes)
    longest_s = 0.0
    carried: dict[DirectedLink, list[_Answer]] = defaultdict(list)
    shares = zip(plan.roots, shard_bytes(plan, size_bytes, segment_bytes), strict=True)
    for root, share_bytes in shares:
        if share_bytes:
            largest = _Shard(sums, network, root, min(share_bytes, segment_bytes))
            longest_s = max(longest_s, largest.took_s)
            # The last segment may be smaller: it is sooner there, and has less of a tail.
            rest_bytes = share_bytes % segment_bytes
            if share_bytes > rest_bytes:
                largest.add_answers(carried, share_bytes - rest_bytes)
            if rest_bytes:
                smallest = _Shard(sums, network, root, rest_bytes)
                smallest.add_answers(carried, rest_bytes)
    busiest = (_busy_s(answers, network.hop(link).byte_s) for link, answers in carried.items())
    return max(longest_s, max(busiest, default=0.0))


class _Answer(NamedTuple):
    """The bytes of one named sum of one shard on one link.

    Attributes:
        head_s: when the link can have the first of it.
        tail_s: from when the link has sent the last of it to the end of the operation.
        size_bytes: of it.
    """

    head_s: float
    tail_s: float
    size_bytes: float


def _busy_s(answers: list[_Answer], byte_s: float) -> float:
    """The latest end that any set of the answers forces upon a link.

    Jackson's preemptive schedule ends then: of the answers that are there, the one with the longest
    tail is sent first.
    """
    pending = sorted(answers, reverse=True)
    waiting: list[tuple[float, float]] = []  # (-tail, seconds of sending left)
    now_s = latest_s = 0.0
    while pending or waiting:
        if not waiting:
            now_s = max(now_s, pending[-1].head_s)
        while pending and pending[-1].head_s <= now_s:
            answer = pending.pop()
            heapq.heappush(waiting, (-answer.tail_s, answer.size_bytes * byte_s))
        negative_tail_s, left_s = heapq.heappop(waiting)
        next_s = pending[-1].head_s if pending else float("inf")
        if now_s + left_s > next_s:
            heapq.heappush(waiting, (negative_tail_s, left_s - (next_s - now_s)))
            now_s = next_s
        else:
            now_s += left_s
            latest_s = max(latest_s, now_s - negative_tail_s)
    return latest_s


class _Hop(NamedTuple):
    """A link in the direction in which answers flow."""

    link: DirectedLink
    delay_s: float
    byte_s: float
    """Seconds that a byte takes to be sent."""


class _Way(NamedTuple):
    """The path of an answer, from its requester back to the node that sends it."""

    hops: tuple[_Hop, ...]
    delay_s: float
    """Sum of the delays of all links: the time of a request."""
    byte_s: float
    """Sum of the seconds per byte of all links."""

    def answer_s(self, segment_bytes: float) -> float:
        """From when the node has a segment until the requester has it."""
        return self.delay_s + segment_bytes * self.byte_s


class _Network:
    """Paths, rates and delays."""

    def __init__(self, topology: Topology) -> None:
        self._graph = topology.graph()
        self.routes = Routes(topology)
        self.way = cache(self._find_way)
        self.hop = cache(self._find_hop)

    def _find_way(self, asker: str, node: str) -> _Way:
        nodes = self.routes.path(asker, node)
        hops = tuple(self.hop((far, near)) for near, far in pairwise(nodes))
        return _Way(hops, sum(hop.delay_s for hop in hops), sum(hop.byte_s for hop in hops))

    def _find_hop(self, link: DirectedLink) -> _Hop:
        joined: Link = self._graph.edges[link]["link"]
        byte_s = 0.0 if joined.rate_bps is None else 8 / joined.rate_bps
        return _Hop(link, joined.delay_s, byte_s)


class _Sums:
    """The sums and contributions of a plan by number, as numbers are compared and hashed quickly.

    Operands have higher numbers than their sums.
    """

    def __init__(self, plan: Plan, routes: Routes) -> None:
        operands = {Placed(rule.interval, rule.node): rule.operands for rule in plan.rules}
        known = dict.fromkeys(chain(plan.roots, operands, *operands.values()))
        ordered = sorted(known, key=lambda placed: -placed.interval.length(plan.size))
        self.number = {placed: number for number, placed in enumerate(ordered)}
        self.nodes = [placed.node for placed in ordered]
        self.operands = [
            tuple(self.number[operand] for operand in operands.get(placed, ()))
            for placed in ordered
        ]
        self.ranks = plan.ranks
        # Nodes begin or send these without a request.
        self.ahead = {
            self.number[Placed(ahead.interval, node)]
            for node in plan.ranks
            for ahead in plan.sums_ahead(node)
        }
        self.ahead |= {self.number[placed] for placed in plan.arriving_ahead(routes)}

    def needed_for(self, root: int) -> list[int]:
        """The root and what it is made of, operands after their sums."""
        found = {root}
        pending = [root]
        while pending:
            for operand in self.operands[pending.pop()]:
                if operand not in found:
                    found.add(operand)
                    pending.append(operand)
        return sorted(found)


class _Shard:
    """When the sums of one shard can be ready.

    Attributes:
        took_s: when every rank can have the first segment of the result.
    """

    def __init__(self, sums: _Sums, network: _Network, root: Placed, segment_bytes: float) -> None:
        self._sums = sums
        self._network = network
        self._root = sums.number[root]
        self._segment_bytes = segment_bytes
        self._longest_first = sums.needed_for(self._root)
        self._ready_s = self._find_ready()
        self._tail_s = self._find_tails()
        self.took_s = self._ready_s[self._root] + self._tail_s[self._root]

    def add_answers(self, carried: dict[DirectedLink, list[_Answer]], share_bytes: float) -> None:
        """Add what each link carries of this shard."""
        crossed: dict[int, set[DirectedLink]] = defaultdict(set)
        askers = [(rank, 0.0, self._root) for rank in self._sums.ranks]
        for number in self._longest_first:
            node, tail_s = self._sums.nodes[number], self._tail_s[number]
            askers += [(node, tail_s, operand) for operand in self._sums.operands[number]]
        for asker, tail_s, number in askers:
            self._walk(asker, tail_s, number, share_bytes, crossed[number], carried)

    def _walk(
        self,
        asker: str,
        tail_s: float,
        number: int,
        share_bytes: float,
        crossed: set[DirectedLink],
        carried: dict[DirectedLink, list[_Answer]],
    ) -> None:
        way = self._network.way(asker, self._sums.nodes[number])
        head_s = self._ready_s[number] + way.answer_s(self._segment_bytes)
        for link, delay_s, byte_s in way.hops:
            if link in crossed:
                return  # as routes towards one node never split again
            crossed.add(link)
            sending_s = self._segment_bytes * byte_s
            tail_s += delay_s
            head_s -= delay_s + sending_s
            carried[link].append(_Answer(head_s, tail_s, share_bytes))
            tail_s += sending_s

    def _find_ready(self) -> dict[int, float]:
        """When the first segment of each sum can be there."""
        ready_s = self._find_requests()
        for number in reversed(self._longest_first):
            waited_s = (ready_s[o] + self._answer_s(number, o) for o in self._sums.operands[number])
            ready_s[number] = max(ready_s[number], *waited_s, 0.0)
        return ready_s

    def _find_requests(self) -> dict[int, float]:
        """When each sum can be requested first."""
        root_node = self._sums.nodes[self._root]
        first_s = min(self._network.way(rank, root_node).delay_s for rank in self._sums.ranks)
        requested_s = {number: 0.0 for number in self._longest_first if number in self._sums.ahead}
        requested_s[self._root] = first_s
        for number in self._longest_first:
            for operand in self._sums.operands[number]:
                asked_s = requested_s[number] + self._way(number, operand).delay_s
                requested_s[operand] = min(requested_s.get(operand, asked_s), asked_s)
        return requested_s

    def _find_tails(self) -> dict[int, float]:
        """From when a sum is ready until every rank can have the result."""
        root_node = self._sums.nodes[self._root]
        to_ranks_s = (
            self._network.way(rank, root_node).answer_s(self._segment_bytes)
            for rank in self._sums.ranks
        )
        found_s = {self._root: max(to_ranks_s)}
        for number in self._longest_first:
            for operand in self._sums.operands[number]:
                tail_s = self._answer_s(number, operand) + found_s[number]
                found_s[operand] = max(found_s.get(operand, 0.0), tail_s)
        return found_s

    def _way(self, number: int, operand: int) -> _Way:
        return self._network.way(self._sums.nodes[number], self._sums.nodes[operand])

    def _answer_s(self, number: int, operand: int) -> float:
        return self._way(number, operand).answer_s(self._segment_bytes)
