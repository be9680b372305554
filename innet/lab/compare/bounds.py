"""The time below which no implementation of a method can get: what the links allow.

innet's own methods are bounded by their plan (:mod:`innet.plans.bounds`). Foreign ones send from
host to host, without multicast: their bytes are added up here over the kernel's routes. The
derivation of both is in ``docs/bounds.md``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from innet.cluster.emulation.segmentation import segment_bytes
from innet.lab.compare.measurement import NEAR_BOUND
from innet.lab.compare.methods import BASELINES, OWN, Method
from innet.node.routing import link_ends, next_hops
from innet.plans import bound_s, make_plan
from innet.plans.bounds import DirectedLink, busiest_link
from innet.plans.completion import completion_bound_s
from innet.topology import Topology


class Flow(NamedTuple):
    """Bytes that one host sends to another."""

    source: str
    destination: str
    size_bytes: float


def method_bound_s(method: Method, topology: Topology, size_bytes: int) -> float | None:
    """Least seconds of an allreduce of ``size_bytes`` per host; ``None`` where no rate limits it.

    Raises:
        PlanError: the method has no plan on this topology.
    """
    if method.contender == OWN:
        bound = bound_s(make_plan(method.call, topology), topology, size_bytes)
    else:
        bound = sum(
            phase_bound_s(topology, phase) for phase in _phases(method, topology, size_bytes)
        )
    return bound or None


def method_completion_bound_s(
    method: Method, topology: Topology, size_bytes: int, took_s: float
) -> float | None:
    """The bound with latency of a method of innet that took longer than its bytes explain.

    ``None`` of other methods, and of faster ones: see :data:`NEAR_BOUND`.
    """
    if method.contender != OWN:
        return None
    plan = make_plan(method.call, topology)
    if took_s < NEAR_BOUND * bound_s(plan, topology, size_bytes):
        return None
    return completion_bound_s(plan, topology, size_bytes, segment_bytes(topology)) or None


def phase_bound_s(topology: Topology, flows: Sequence[Flow]) -> float:
    """Seconds that the busiest link needs for flows that are all under way together."""
    hops, ends = next_hops(topology), link_ends(topology)
    carried: dict[DirectedLink, float] = defaultdict(float)
    for flow in flows:
        node = flow.source
        while node != flow.destination:
            following = ends[node][hops[node][flow.destination]].peer
            carried[node, following] += flow.size_bytes
            node = following
    return busiest_link(topology, dict(carried)).time_s


def _phases(method: Method, topology: Topology, size_bytes: int) -> Iterator[list[Flow]]:
    """What a baseline must send; a phase begins when the one before has ended."""
    hosts = topology.hosts
    if method == BASELINES["gloo-push"]:
        yield [Flow(host, hosts[0], size_bytes) for host in hosts[1:]]
        yield list(_binomial_tree(hosts, size_bytes))
    else:
        # Open MPI chooses an algorithm by size; none moves less through a host than a ring does
        # (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
        share_bytes = 2 * size_bytes * (len(hosts) - 1) / len(hosts)
        following = (*hosts[1:], hosts[0])
        yield [Flow(a, b, share_bytes) for a, b in zip(hosts, following, strict=True) if a != b]


def _binomial_tree(hosts: Sequence[str], size_bytes: int) -> Iterator[Flow]:
    """Broadcast from the first host: in each round, everyone who has it sends it to one more."""
    have = 1
    while have < len(hosts):
        for rank in range(min(have, len(hosts) - have)):
            yield Flow(hosts[rank], hosts[have + rank], size_bytes)
        have *= 2
