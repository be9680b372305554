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
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from innet.plans.bounds import (
    BusiestLink,
    DirectedLink,
    busiest_link,
    folded_link_bytes,
    shares_of,
)
from innet.plans.folding import FoldedPlan, Rack, fold
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
        self.switches = topology.switches
        self._topology = topology
        self._processor = None if processor is None else ProcessorModel(processor, self.routes)
        self._room = SegmentRoom(SEGMENT_BYTES, 0) if processor is None else processor.segment_room
        self._node_s = NODE_S if processor is None else processor.wake_up_s / 2
        rates_bps = [link.rate_bps for link in topology.links]
        self._fastest_bps = max((rate or math.inf for rate in rates_bps), default=math.inf)
        self._nearest = cache(self._find_nearest)
        # Plans compare by all their rules: the identity is a faster key, and the value keeps it.
        self._known: dict[int, _KnownPlan] = {}
        self._set_load(load)

    def _set_load(self, load: Load) -> None:
        self.load = load
        self._exchanges = cache(self._make_exchanges)
        self._latencies_s: dict[tuple[int, int], float] = {}

    def beside(self, load: Load) -> CostModel:
        """This model beside another load; its cache of plans is shared."""
        model = copy(self)
        model._set_load(load)
        return model

    def estimate(self, plan: Plan, size_bytes: int) -> PlanCost:
        """Cost of an allreduce of ``size_bytes`` per rank."""
        return self._estimate([plan], len(plan.roots), size_bytes)

    def estimate_together(self, trees: Sequence[Plan], size_bytes: int) -> PlanCost:
        """Cost of the plan that has the roots and rules of all ``trees``, with a root each."""
        return self._estimate(trees, len(trees), size_bytes)

    def _estimate(self, plans: Sequence[Plan], shards: int, size_bytes: int) -> PlanCost:
        """Cost of all shards of ``plans`` together."""
        segment_bytes = self._room.of(size_bytes, shards)
        shares_bytes = shares_of(shards, size_bytes, segment_bytes)
        known = [self._folded(plan) for plan in plans]
        carried: defaultdict[DirectedLink, float] = defaultdict(float)
        parts = []
        for plan in known:
            own_bytes, shares_bytes = shares_bytes[: plan.shards], shares_bytes[plan.shards :]
            parts.append((plan.folded, own_bytes))
            for link, link_bytes in plan.carried(own_bytes, self.routes):
                carried[link] += link_bytes
        first_bytes = min(size_bytes, segment_bytes)
        model = self._processor
        return PlanCost(
            latency_s=max(self._latency_s(plan, first_bytes) for plan in known),
            busiest=busiest_link(self._topology, carried, self.load),
            processor_s=0.0 if model is None else model.time_s(parts, segment_bytes, self.load),
        )

    def _folded(self, plan: Plan) -> _KnownPlan:
        if id(plan) not in self._known:
            self._known[id(plan)] = _KnownPlan(plan, fold(plan, self.routes))
        return self._known[id(plan)]

    def least_s(self, ranks: tuple[str, ...], root: str, size_bytes: int) -> float:
        """A lower bound on the cost of all plans that make the sum of all ``ranks`` at ``root``.

        The farthest rank's part has to be sent there before the result can be requested and do the
        way back, and every rank receives ``size_bytes``.
        """
        segment_bytes = min(size_bytes, self._room.packet_bytes)
        apart, least_bps = self._nearest(ranks)
        back = self._exchanges(segment_bytes)
        # It may go ahead of requests, and its links may be as fast as the fastest.
        there = self._exchanges(segment_bytes, self._fastest_bps)
        return (
            max(back.time_s(rank, root) for rank in apart)
            + max(there.sending_s(rank, root) for rank in apart)
            + size_bytes * 8 / least_bps
        )

    def _find_nearest(self, ranks: tuple[str, ...]) -> tuple[tuple[str, ...], float]:
        """One rank behind each gate, and the rate of the slowest link to one."""
        gates = {rank: self.routes.gate(rank) for rank in ranks}
        # Ranks behind one gate differ by their own links alone: one of them represents all.
        apart = {gate or rank: rank for rank, gate in gates.items()}
        links = [self._topology.link_between(rank, gate) for rank, gate in gates.items() if gate]
        rates_bps = [link.rate_bps for link in links if link.rate_bps is not None]
        return tuple(apart.values()), min(rates_bps, default=math.inf)

    def _latency_s(self, known: _KnownPlan, segment_bytes: int) -> float:
        key = id(known), segment_bytes
        if key not in self._latencies_s:
            self._latencies_s[key] = self._find_latency_s(known.folded, segment_bytes)
        return self._latencies_s[key]

    def _find_latency_s(self, folded: FoldedPlan, segment_bytes: int) -> float:
        plan, racks = folded.plan, folded.racks
        exchanges = self._exchanges(segment_bytes)
        within = {switch: exchanges.within(rack) for switch, rack in racks.items()}
        ready_s = {Placed(rack.interval, s): within[s].sending_s for s, rack in racks.items()}
        ahead = folded.arriving_ahead(self.routes)

        def answer_s(asker: str, placed: Placed) -> float:
            return exchanges.time_s(asker, placed.node) + ready_s.get(placed, 0.0)

        def operand_s(asker: str, placed: Placed) -> float:
            if placed in ahead:
                return exchanges.sending_s(asker, placed.node) + ready_s.get(placed, 0.0)
            return answer_s(asker, placed)

        for rule in sorted(plan.rules, key=lambda rule: rule.interval.length(plan.size)):
            waited_s = max(operand_s(rule.node, operand) for operand in rule.operands)
            ready_s[Placed(rule.interval, rule.node)] = waited_s
        return max(
            answer_s(asker, root) + (within[asker].step_s if asker in racks else 0.0)
            for root in set(plan.roots)
            for asker in plan.ranks
        )

    def _make_exchanges(self, segment_bytes: int, rate_bps: float | None = None) -> _Exchanges:
        on = self._topology, self.routes, self.load
        return _Exchanges(*on, segment_bytes, self._node_s, rate_bps)


class _KnownPlan:
    """A folded plan, and what its shards put on links."""

    def __init__(self, plan: Plan, folded: FoldedPlan) -> None:
        self.plan = plan
        self.folded = folded
        self.shards = len(plan.roots)
        self._of_tree: dict[DirectedLink, float] | None = None

    def carried(
        self, shares_bytes: list[float], routes: Routes
    ) -> Iterable[tuple[DirectedLink, float]]:
        """Bytes per directed link; what one tree puts there is found once."""
        if self.shards > 1:
            yield from folded_link_bytes(self.folded, routes, shares_bytes).items()
            return
        if self._of_tree is None:
            self._of_tree = folded_link_bytes(self.folded, routes, [1.0])
        for link, part in self._of_tree.items():
            yield link, part * shares_bytes[0]


class _WithinRack(NamedTuple):
    """Sending the contribution of a rack's last host to its switch, and an answer of it back."""

    sending_s: float
    step_s: float


class _Exchanges:
    """The time of a request to a node and of its answer, one segment, on the way."""

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
        self._known_racks: dict[Rack, _WithinRack] = {}

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

    def within(self, rack: Rack) -> _WithinRack:
        """The longest times between a rack's switch and its hosts."""
        if rack not in self._known_racks:
            self._known_racks[rack] = _WithinRack(
                max(self._wire_s(host, rack.switch) for host in rack.hosts),
                max(self._step_s(host, rack.switch) for host in rack.hosts),
            )
        return self._known_racks[rack]

    def _step_s(self, u: str, v: str) -> float:
        delay_s = float(self._topology.link_between(u, v).delay_s)
        return 2 * (delay_s + self._node_s / self._load.processor_left(v)) + self._wire_s(v, u)

    def _wire_s(self, source: str, to: str) -> float:
        rate_bps = self._rate_bps or self._load.rate_bps(self._topology, source, to)
        return 0.0 if rate_bps is None else self._segment_bits / rate_bps
