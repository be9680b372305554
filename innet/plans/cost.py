"""How long an allreduce should take: latency plus the busiest link (the alpha-beta model).

Alpha is the longest chain of requests that a segment waits for: every link of it costs its delay
twice (Interest and Data), the work of a node twice, and the time to put one segment on the wire.
Beta is :func:`innet.plans.bounds.busiest_link`. Their sum overestimates a little, as the first
segment counts in both; it ranks plans, it does not predict a benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from innet.plans.bounds import BusiestLink, busiest_link, link_bytes, shard_bytes
from innet.plans.plan import Placed, Plan
from innet.topology import Topology
from innet.topology.routes import Routes

SEGMENT_BYTES = 8192
"""Payload of one segment that the model assumes."""

NODE_S = 50e-6
"""Time a node needs for one packet when it is woken for it: one pass of a socket event loop."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated time of one allreduce.

    Attributes:
        latency_s: the longest chain of requests.
        busiest: the link that is busy longest, and for how long.
    """

    latency_s: float
    busiest: BusiestLink

    @property
    def total_s(self) -> float:
        """Latency and transfer together."""
        return self.latency_s + self.busiest.time_s


class CostModel:
    """Estimates plans on one topology."""

    def __init__(self, topology: Topology) -> None:
        self.routes = Routes(topology)
        self._topology = topology
        self._graph = topology.graph()

    def estimate(self, plan: Plan, size_bytes: int) -> Cost:
        """Cost of an allreduce of ``size_bytes`` per rank."""
        shares_bytes = shard_bytes(plan, size_bytes, SEGMENT_BYTES)
        carried = link_bytes(plan, self.routes, shares_bytes)
        first_segment_bytes = min(size_bytes, SEGMENT_BYTES)
        return Cost(
            latency_s=self._latency_s(plan, first_segment_bytes),
            busiest=busiest_link(self._topology, carried),
        )

    def _latency_s(self, plan: Plan, segment_bytes: int) -> float:
        ready_s: dict[Placed, float] = {}

        @cache
        def exchange_s(asker: str, node: str) -> float:
            return self._exchange_s(asker, node, segment_bytes)

        def answer_s(asker: str, placed: Placed) -> float:
            return exchange_s(asker, placed.node) + ready_s.get(placed, 0.0)

        for rule in sorted(plan.rules, key=lambda rule: rule.interval.length(plan.size)):
            waited_s = max(answer_s(rule.node, operand) for operand in rule.operands)
            ready_s[Placed(rule.interval, rule.node)] = waited_s
        return max(answer_s(asker, root) for root in set(plan.roots) for asker in plan.ranks)

    def _exchange_s(self, asker: str, node: str, segment_bytes: int) -> float:
        path = self.routes.path(asker, node)
        total_s = 0.0
        for u, v in pairwise(path):
            link = self._graph.edges[u, v]["link"]
            wire_s = 0.0 if link.rate_bps is None else segment_bytes * 8 / link.rate_bps
            total_s += 2 * (link.delay_s + NODE_S) + wire_s
        return total_s
