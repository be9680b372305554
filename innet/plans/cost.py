"""How long an allreduce should take: latency, plus the busiest link or the processors.

Alpha is the longest chain of requests that a segment waits for: every link of it costs its delay
twice (Interest and Data), the work of a node twice, and the time to put one segment on the wire.
Of what arrives ahead of its request (:meth:`innet.plans.plan.Plan.arriving_ahead`) only that time
counts.
Beta is :func:`innet.plans.bounds.busiest_link`, or the time of the processors
(:mod:`innet.plans.processor`) where they are known and need longer. Their sum overestimates a
little, as the first segment counts in both; it ranks plans, it does not predict a benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from innet.plans.bounds import BusiestLink, busiest_link, link_bytes, shard_bytes
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Placed, Plan
from innet.plans.processor import ProcessorModel
from innet.plans.processor_costs import ProcessorCosts
from innet.plans.segment_room import SegmentRoom
from innet.topology import Topology
from innet.topology.routes import Routes

SEGMENT_BYTES = 8192
"""Payload of one segment that the model assumes where no processor is known."""

NODE_S = 50e-6
"""Time a node needs for one packet when it is woken for it: one pass of a socket event loop.

Assumed where no processor is known.
"""


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Estimated time of one allreduce.

    Attributes:
        latency_s: the longest chain of requests.
        busiest: the link that is busy longest, and for how long.
        processor_s: time of the processors; 0 where they are not known.
    """

    latency_s: float
    busiest: BusiestLink
    processor_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Latency and work together: links and processors work at the same time."""
        return self.latency_s + max(self.busiest.time_s, self.processor_s)


class CostModel:
    """Estimates plans on one topology."""

    def __init__(
        self,
        topology: Topology,
        processor: ProcessorCosts | None = None,
        load: Load = NO_LOAD,
        routes: Routes | None = None,
    ) -> None:
        """
        Args:
            topology: of the network.
            processor: without it, links alone take time, and each node :data:`NODE_S` a packet.
            load: what others use of the network.
            routes: of the topology, if they are known already.
        """
        self.routes = routes or Routes(topology)
        self.load = load
        self.switches = topology.switches
        self._topology = topology
        self._processor = (
            None if processor is None else ProcessorModel(processor, self.routes, load)
        )
        self._room = SegmentRoom(SEGMENT_BYTES, 0) if processor is None else processor.segment_room
        self._node_s = NODE_S if processor is None else processor.wake_up_s / 2
        rates_bps = [link.rate_bps for link in topology.links]
        self._fastest_bps = max((rate or math.inf for rate in rates_bps), default=math.inf)

    def estimate(self, plan: Plan, size_bytes: int) -> PlanCost:
        """Cost of an allreduce of ``size_bytes`` per rank."""
        segment_bytes = self._room.of(size_bytes, len(plan.roots))
        shares_bytes = shard_bytes(plan, size_bytes, segment_bytes)
        carried = link_bytes(plan, self.routes, shares_bytes)
        first_segment_bytes = min(size_bytes, segment_bytes)
        model = self._processor
        return PlanCost(
            latency_s=self._latency_s(plan, first_segment_bytes),
            busiest=busiest_link(self._topology, carried, self.load),
            processor_s=0.0 if model is None else model.time_s(plan, shares_bytes, segment_bytes),
        )

    def least_s(self, ranks: Sequence[str], root: str, size_bytes: int) -> float:
        """A lower bound on the cost of all plans that make the sum of all ``ranks`` at ``root``.

        The farthest rank's part has to be sent there before the result can be requested and do the
        way back, and every rank receives ``size_bytes``.
        """
        segment_bytes = min(size_bytes, self._room.packet_bytes)
        # Ranks behind one gate differ by their own links alone: one of them represents all.
        apart = {self.routes.gate(rank) or rank: rank for rank in ranks}.values()
        back = self._exchanges(segment_bytes)
        # It may go ahead of requests, and its links may be as fast as the fastest.
        there = self._exchanges(segment_bytes, self._fastest_bps)
        gates = {rank: self.routes.gate(rank) for rank in ranks}
        links = [self._topology.link_between(rank, gate) for rank, gate in gates.items() if gate]
        rates_bps = [link.rate_bps for link in links if link.rate_bps is not None]
        return (
            max(back.time_s(rank, root) for rank in apart)
            + max(there.sending_s(rank, root) for rank in apart)
            + size_bytes * 8 / min(rates_bps, default=math.inf)
        )

    def _latency_s(self, plan: Plan, segment_bytes: int) -> float:
        exchanges = self._exchanges(segment_bytes)
        ready_s: dict[Placed, float] = {}
        ahead = plan.arriving_ahead(self.routes)

        def answer_s(asker: str, placed: Placed) -> float:
            return exchanges.time_s(asker, placed.node) + ready_s.get(placed, 0.0)

        def operand_s(asker: str, placed: Placed) -> float:
            if placed in ahead:
                return exchanges.sending_s(asker, placed.node) + ready_s.get(placed, 0.0)
            return answer_s(asker, placed)

        for rule in sorted(plan.rules, key=lambda rule: rule.interval.length(plan.size)):
            waited_s = max(operand_s(rule.node, operand) for operand in rule.operands)
            ready_s[Placed(rule.interval, rule.node)] = waited_s
        return max(answer_s(asker, root) for root in set(plan.roots) for asker in plan.ranks)

    def _exchanges(self, segment_bytes: int, rate_bps: float | None = None) -> _Exchanges:
        on = self._topology, self.routes, self.load
        return _Exchanges(*on, segment_bytes, self._node_s, rate_bps)


class _Exchanges:
    """How long asking a node and its answer with one segment take on the way."""

    def __init__(
        self,
        topology: Topology,
        routes: Routes,
        load: Load,
        segment_bytes: int,
        node_s: float,
        rate_bps: float | None = None,
    ) -> None:
        """``rate_bps`` replaces that of every link, if given."""
        self._topology = topology
        self._routes = routes
        self._load = load
        self._segment_bits = segment_bytes * 8
        self._node_s = node_s
        self._rate_bps = rate_bps
        self._known_s: dict[tuple[str, str], float] = {}

    def time_s(self, asker: str, node: str) -> float:
        path = [asker]
        while path[-1] != node and (path[-1], node) not in self._known_s:
            path.append(self._routes.next_hop(path[-1], node))
        total_s = self._known_s.get((path[-1], node), 0.0)
        for nearer, further in pairwise(reversed(path)):
            total_s += self._step_s(further, nearer)
            self._known_s[further, node] = total_s
        return total_s

    def sending_s(self, asker: str, node: str) -> float:
        """How long the links take to send the segment of an answer, without delays and nodes."""
        path = self._routes.path(asker, node)
        return sum(self._wire_s(v, u) for u, v in pairwise(path))

    def _step_s(self, u: str, v: str) -> float:
        delay_s = float(self._topology.link_between(u, v).delay_s)
        return 2 * (delay_s + self._node_s / self._load.processor_left(v)) + self._wire_s(v, u)

    def _wire_s(self, source: str, to: str) -> float:
        rate_bps = self._rate_bps or self._load.rate_bps(self._topology, source, to)
        return 0.0 if rate_bps is None else self._segment_bits / rate_bps
