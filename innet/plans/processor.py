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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from innet.plans.bounds import DirectedLink, answers
from innet.plans.folding import FoldedPlan, Rack
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Placed
from innet.plans.processor_costs import ProcessorCosts
from innet.topology.routes import Routes

Part: TypeAlias = tuple[FoldedPlan, list[float]]
"""A plan, and the bytes of each of its shards."""


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

    def __init__(self, costs: ProcessorCosts, routes: Routes) -> None:
        self.costs = costs
        self._routes = routes
        self._walks: dict[int, _Walk] = {}
        """Walks by the identity of their folded plan."""

    def time_s(self, parts: Sequence[Part], segment_bytes: int, load: Load = NO_LOAD) -> float:
        """Seconds that the processors need at least for the shards of ``parts`` together.

        A node works on one core at a time. Nodes on one machine share its cores.
        """
        times_s = self._node_times_s(parts, segment_bytes)
        left = load.processor_left
        busiest_s = max((time_s / left(node) for node, time_s in times_s.items()), default=0.0)
        if not self.costs.shared:
            return busiest_s
        return max(busiest_s, sum(times_s.values()) / self.costs.cores)

    def _node_times_s(self, parts: Sequence[Part], segment_bytes: int) -> dict[str, float]:
        times_s: defaultdict[str, float] = defaultdict(float)
        for node in parts[0][0].ranks_with_racks():
            times_s[node] = self.costs.operation_s
        within: defaultdict[Rack, _Shards] = defaultdict(_Shards)
        for folded, shares_bytes in parts:
            walk = self._walks.get(id(folded))
            if walk is None:
                walk = self._walks[id(folded)] = _Walk(folded, self._routes, self.costs)
            shards = _Shards()
            for number, share_bytes in enumerate(shares_bytes):
                if share_bytes:
                    segments = math.ceil(share_bytes / segment_bytes)
                    shards.add(1, segments, share_bytes)
                    for node, work in walk.shard(number).items():
                        times_s[node] += work.time_s(segments, share_bytes)
            for rack in folded.racks.values():
                within[rack].add(shards.number, shards.segments, shards.size_bytes)
        for rack, shards in within.items():
            self._add_rack(times_s, rack, shards)
        return times_s

    def _add_rack(self, times_s: dict[str, float], rack: Rack, shards: _Shards) -> None:
        """Each host's contribution goes ahead to the switch, and requests the sum on the way."""
        costs = self.costs
        # A contribution is Data, the sum an Interest and Data; a host signs and verifies, the
        # switch verifies and adds.
        packets_s = 3 * costs.packet_s * shards.segments
        bytes_s = 2 * costs.carried_byte_s * shards.size_bytes
        signature_s = costs.signature_s * shards.segments + costs.signed_byte_s * shards.size_bytes
        adding_s = costs.operand_s * shards.segments + costs.added_byte_s * shards.size_bytes
        exchange_s = costs.wake_up_s * shards.number + packets_s + bytes_s
        times_s[rack.switch] += len(rack.hosts) * (exchange_s + signature_s + adding_s)
        for host in rack.hosts:
            times_s[host] += exchange_s + 2 * signature_s


@dataclass(slots=True)
class _Shards:
    """How many shards there are, and what they have together."""

    number: int = 0
    segments: int = 0
    size_bytes: float = 0.0

    def add(self, number: int, segments: int, size_bytes: float) -> None:
        self.number += number
        self.segments += segments
        self.size_bytes += size_bytes


class _Walk:
    """The work of nodes for each shard of a plan, walked when it is first used."""

    def __init__(self, folded: FoldedPlan, routes: Routes, costs: ProcessorCosts) -> None:
        self._folded = folded
        self._plan = plan = folded.plan
        self._routes = routes
        self._costs = costs
        self._operands = {Placed(rule.interval, rule.node): rule.operands for rule in plan.rules}
        self._ahead = folded.arriving_ahead(routes)
        self._shards: dict[int, dict[str, _Linear]] = {}

    def shard(self, number: int) -> dict[str, _Linear]:
        """The work of each node for a shard, but for what is within racks."""
        if number not in self._shards:
            self._shards[number] = self._work_for(self._plan.roots[number])
        return self._shards[number]

    def _work_for(self, root: Placed) -> dict[str, _Linear]:
        costs, operands, racks = self._costs, self._operands, self._folded.racks
        work: defaultdict[str, _Linear] = defaultdict(_Linear)
        # Not sets: the order, and so each rounding, is the same in the processes of all ranks.
        users = defaultdict(
            dict, {root: dict.fromkeys(node for node in self._plan.ranks if node not in racks)}
        )
        for placed in _sums(operands, root):
            adding = work[placed.node]
            for operand in operands[placed]:
                users[operand][placed.node] = None
                adding.segment_s += costs.operand_s
                adding.byte_s += costs.added_byte_s
        for placed, nodes in users.items():
            others = [node for node in nodes if node != placed.node]
            is_sent = others or (placed == root and racks)
            for node in [*others, placed.node] if is_sent else ():
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
                is_rank = placed.interval.is_single and placed.node not in self._folded.racks
                sent_by = sender if is_rank else placed
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
