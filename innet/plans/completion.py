"""The earliest time at which an allreduce can end: what ``bounds.py`` computes, and latency.

``docs/bounds.md`` derives it. A link is a machine that carries answers, each of which can arrive at
the link no sooner than its head and leaves a tail to do after it: the bound of one-machine
sequencing (J. Carlier, "The one-machine sequencing problem", Eur. J. Oper. Res. 11, 1982).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from innet.plans.bounds import DirectedLink, shard_bytes
from innet.plans.plan import Placed, Plan
from innet.topology import Topology
from innet.topology.routes import Routes


def completion_bound_s(
    plan: Plan, topology: Topology, size_bytes: int, segment_bytes: int
) -> float:
    """Seconds that an allreduce of ``size_bytes`` per rank takes at least, latency included.

    Nodes take no time, Interests and headers no bytes. A node forwards a segment when all of it has
    arrived. Never less than :func:`innet.plans.bounds.bound_s` of the same segments.

    Args:
        plan: the group's plan.
        topology: where it runs.
        size_bytes: bytes of one rank's tensor.
        segment_bytes: of a full segment; segments are dealt to the shards in turn.

    Raises:
        PlanError: a node of the plan is not in the topology or cannot be reached.
    """
    network = _Network(topology)
    operands = {Placed(rule.interval, rule.node): rule.operands for rule in plan.rules}
    longest_s = 0.0
    carried: dict[DirectedLink, list[_Answer]] = defaultdict(list)
    shares = zip(plan.roots, shard_bytes(plan, size_bytes, segment_bytes), strict=True)
    for root, share_bytes in shares:
        if share_bytes:
            largest = _Shard(plan, network, operands, root, min(share_bytes, segment_bytes))
            longest_s = max(longest_s, largest.ready_s[root] + largest.tail_s[root])
            # The last segment may be smaller: it is sooner there, and has less of a tail.
            rest_bytes = share_bytes % segment_bytes
            if share_bytes > rest_bytes:
                largest.add_answers(carried, share_bytes - rest_bytes)
            if rest_bytes:
                smallest = _Shard(plan, network, operands, root, rest_bytes)
                smallest.add_answers(carried, rest_bytes)
    busiest = (_busy_s(answers, network.rate_bps(link)) for link, answers in carried.items())
    return max(longest_s, max(busiest, default=0.0))


class _Answer(NamedTuple):
    """What one link carries of one shard, under one name.

    Attributes:
        head_s: when the link can have the first of it.
        tail_s: from when the link has sent the last of it to the end of the operation.
        size_bytes: of it.
    """

    head_s: float
    tail_s: float
    size_bytes: float


def _busy_s(answers: list[_Answer], rate_bps: float | None) -> float:
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
            sending_s = 0.0 if rate_bps is None else answer.size_bytes * 8 / rate_bps
            heapq.heappush(waiting, (-answer.tail_s, sending_s))
        negative_tail_s, left_s = heapq.heappop(waiting)
        next_s = pending[-1].head_s if pending else float("inf")
        if now_s + left_s > next_s:
            heapq.heappush(waiting, (negative_tail_s, left_s - (next_s - now_s)))
            now_s = next_s
        else:
            now_s += left_s
            latest_s = max(latest_s, now_s - negative_tail_s)
    return latest_s


class _Network:
    """Paths, rates and delays."""

    def __init__(self, topology: Topology) -> None:
        self._graph = topology.graph()
        self.path = cache(Routes(topology).path)
        self._link = cache(lambda u, v: self._graph.edges[u, v]["link"])

    def rate_bps(self, link: DirectedLink) -> float | None:
        rate: float | None = self._link(*link).rate_bps
        return rate

    def delay_s(self, link: DirectedLink) -> float:
        return float(self._link(*link).delay_s)

    def request_s(self, asker: str, node: str) -> float:
        return sum(map(self.delay_s, pairwise(self.path(asker, node))))

    def answer_s(self, asker: str, node: str, segment_bytes: float) -> float:
        """From when ``node`` has a segment until ``asker`` has it."""
        return sum(
            self.delay_s(link) + self.sending_s(link, segment_bytes)
            for link in pairwise(self.path(asker, node))
        )

    def sending_s(self, link: DirectedLink, segment_bytes: float) -> float:
        rate_bps = self.rate_bps(link)
        return 0.0 if rate_bps is None else segment_bytes * 8 / rate_bps


class _Shard:
    """When the sums of one shard can be ready.

    Attributes:
        ready_s: when the first segment of each sum can be there.
        tail_s: from then until every rank can have the result.
    """

    def __init__(
        self,
        plan: Plan,
        network: _Network,
        operands: Mapping[Placed, tuple[Placed, ...]],
        root: Placed,
        segment_bytes: float,
    ) -> None:
        self._ranks = plan.ranks
        self._network = network
        self._operands = operands
        self._root = root
        self._segment_bytes = segment_bytes
        self._longest_first = self._find_sums(plan.size)
        requested_s = self._find_requests()
        self.ready_s: dict[Placed, float] = {}
        for placed in reversed(self._longest_first):
            waited_s = (self.ready_s[o] + self._answer_s(placed, o) for o in self._of(placed))
            self.ready_s[placed] = max(requested_s[placed], *waited_s, 0.0)
        self.tail_s = {
            root: max(network.answer_s(rank, root.node, segment_bytes) for rank in plan.ranks)
        }
        for placed in self._longest_first:
            for operand in self._of(placed):
                tail_s = self._answer_s(placed, operand) + self.tail_s[placed]
                self.tail_s[operand] = max(self.tail_s.get(operand, 0.0), tail_s)

    def add_answers(self, carried: dict[DirectedLink, list[_Answer]], share_bytes: float) -> None:
        """Add what each link carries of this shard."""
        crossed: set[tuple[Placed, DirectedLink]] = set()
        askers = [(rank, 0.0, self._root) for rank in self._ranks]
        for placed in self._longest_first:
            askers += [(placed.node, self.tail_s[placed], o) for o in self._of(placed)]
        for asker, tail_s, placed in askers:
            self._walk(asker, tail_s, placed, share_bytes, crossed, carried)

    def _walk(
        self,
        asker: str,
        tail_s: float,
        placed: Placed,
        share_bytes: float,
        crossed: set[tuple[Placed, DirectedLink]],
        carried: dict[DirectedLink, list[_Answer]],
    ) -> None:
        network = self._network
        hops = list(pairwise(network.path(asker, placed.node)))
        to_go_s = network.answer_s(asker, placed.node, self._segment_bytes)
        for near, far in hops:
            link = far, near
            if (placed, link) in crossed:
                return  # as routes towards one node never split again
            crossed.add((placed, link))
            tail_s += network.delay_s(link)
            sending_s = network.sending_s(link, self._segment_bytes)
            to_go_s -= network.delay_s(link) + sending_s
            carried[link].append(_Answer(self.ready_s[placed] + to_go_s, tail_s, share_bytes))
            tail_s += sending_s

    def _find_sums(self, size: int) -> list[Placed]:
        """The root and what it is made of, in an order in which operands follow their sums."""
        found = {self._root}
        pending = [self._root]
        while pending:
            for operand in self._of(pending.pop()):
                if operand not in found:
                    found.add(operand)
                    pending.append(operand)
        return sorted(found, key=lambda placed: (-placed.interval.length(size), placed))

    def _find_requests(self) -> dict[Placed, float]:
        """When each sum can be asked for first."""
        first_s = min(self._network.request_s(rank, self._root.node) for rank in self._ranks)
        requested_s = {self._root: first_s}
        for placed in self._longest_first:
            for operand in self._of(placed):
                asked_s = requested_s[placed] + self._network.request_s(placed.node, operand.node)
                requested_s[operand] = min(requested_s.get(operand, asked_s), asked_s)
        return requested_s

    def _of(self, placed: Placed) -> tuple[Placed, ...]:
        return self._operands.get(placed, ())

    def _answer_s(self, asker: Placed, placed: Placed) -> float:
        return self._network.answer_s(asker.node, placed.node, self._segment_bytes)
