"""Processor time of an allreduce: what each node does for it, and what that costs.

A segment that crosses a link is an exchange: an Interest and its Data, each of which one end sends
and the other receives. What goes ahead of its request (:meth:`Plan.arriving_ahead`) is Data alone:
a sum in one switch takes three packets for each rank and segment. A node that passes Data on has
table work beside the packets. A node with a rule adds each operand.

For each link, the first requests of a node wake each node on their way once, and so do the
answers; later segments arrive in batches. All of it is linear in the segments and bytes of a shard,
so a shard is walked once. Holds and repeated requests are not counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from innet.plans.bounds import DirectedLink, answers
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Placed, Plan
from innet.plans.processor_costs import ProcessorCosts
from innet.topology.routes import Routes


@dataclass(slots=True)
class _Linear:
    """Seconds of a node for a shard: at its start, for each segment and for each byte."""

    start_s: float = 0.0
    segment_s: float = 0.0
    byte_s: float = 0.0

    def time_s(self, segments: int, share_bytes: float) -> float:
        return self.start_s + segments * self.segment_s + share_bytes * self.byte_s


class ProcessorModel:
    """Estimates the processor time of plans on one topology."""

    def __init__(self, costs: ProcessorCosts, routes: Routes, load: Load = NO_LOAD) -> None:
        self.costs = costs
        self._load = load
        self._routes = routes
        # Plans compare by all their rules: the identity is a faster key, and the value keeps it.
        self._walks: dict[int, _Walk] = {}

    def time_s(self, plan: Plan, shares_bytes: list[float], segment_bytes: int) -> float:
        """Seconds that the processors need at least, when shard s has ``shares_bytes[s]``.

        A node works on one core at a time. Nodes on one machine share its cores.
        """
        times_s = self._node_times_s(plan, shares_bytes, segment_bytes)
        left = self._load.processor_left
        busiest_s = max((time_s / left(node) for node, time_s in times_s.items()), default=0.0)
        if not self.costs.shared:
            return busiest_s
        return max(busiest_s, sum(times_s.values()) / self.costs.cores)

    def _node_times_s(
        self, plan: Plan, shares_bytes: list[float], segment_bytes: int
    ) -> dict[str, float]:
        walk = self._walks.get(id(plan))
        if walk is None:
            walk = self._walks[id(plan)] = _Walk(plan, self._routes, self.costs)
        times_s = defaultdict(float, dict.fromkeys(plan.ranks, self.costs.operation_s))
        for number, share_bytes in enumerate(shares_bytes):
            if share_bytes:
                segments = math.ceil(share_bytes / segment_bytes)
                for node, work in walk.shard(number).items():
                    times_s[node] += work.time_s(segments, share_bytes)
        return times_s


class _Walk:
    """The work of nodes for each shard of a plan, walked when it is asked for."""

    def __init__(self, plan: Plan, routes: Routes, costs: ProcessorCosts) -> None:
        self._plan = plan
        self._routes = routes
        self._costs = costs
        self._operands = {Placed(rule.interval, rule.node): rule.operands for rule in plan.rules}
        self._ahead = plan.arriving_ahead(routes)
        self._shards: dict[int, dict[str, _Linear]] = {}

    def shard(self, number: int) -> dict[str, _Linear]:
        """The work of each node for a shard."""
        if number not in self._shards:
            self._shards[number] = self._work_for(self._plan.roots[number])
        return self._shards[number]

    def _work_for(self, root: Placed) -> dict[str, _Linear]:
        costs, operands = self._costs, self._operands
        work: defaultdict[str, _Linear] = defaultdict(_Linear)
        # Not sets: the order, and so each rounding, is the same in the processes of all ranks.
        users = defaultdict(dict, {root: dict.fromkeys(self._plan.ranks)})
        for placed in _sums(operands, root):
            adding = work[placed.node]
            for operand in operands[placed]:
                users[operand][placed.node] = None
                adding.segment_s += costs.operand_s
                adding.byte_s += costs.added_byte_s
        for placed, nodes in users.items():
            others = [node for node in nodes if node != placed.node]
            for node in [*others, placed.node] if others else ():
                work[node].segment_s += costs.signature_s
                work[node].byte_s += costs.signed_byte_s
        requested = answers(self._plan, self._routes, operands, root)
        for placed, link in requested:
            packets = 1 if placed in self._ahead else 2
            for end in link:
                work[end].segment_s += packets * costs.packet_s
                work[end].byte_s += costs.carried_byte_s
            if link[1] not in users[placed]:
                work[link[1]].segment_s += costs.forwarded_s
        for node, _ in self._wake_ups(requested):
            work[node].start_s += costs.wake_up_s
        return dict(work)

    def _wake_ups(
        self, requested: Mapping[tuple[Placed, DirectedLink], str]
    ) -> Iterable[tuple[str, object]]:
        """One (node, cause) for each wake-up: packets with one cause wake the node once."""
        # Packets that a node sends at once to one neighbour wake it up once.
        found: dict[tuple[str, object], None] = {}
        for (placed, (sender, receiver)), asker in requested.items():
            if placed not in self._ahead:
                found[sender, (receiver, asker)] = None
                found[receiver, (sender, asker)] = None
            else:  # a contribution goes with the request for the sum
                sent_by = sender if placed.interval.is_single else placed
                found[receiver, (sender, sent_by)] = None
        return found


def _sums(operands: dict[Placed, tuple[Placed, ...]], root: Placed) -> list[Placed]:
    """The sums that ``root`` is made of, itself included, each once."""
    found = {root: None} if root in operands else {}
    pending = list(found)
    while pending:
        for operand in operands[pending.pop()]:
            if operand in operands and operand not in found:
                found[operand] = None
                pending.append(operand)
    return list(found)
