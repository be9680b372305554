"""Receive credit and timers of a node, which follow from its place in the topology.

Flows of one host share its last link. Each of them starts with a window of its own and learns from
the delay that it causes, but a rank of a ring of N sends requests to N-1 nodes at the same moment,
and their answers overflow the queue of that link before the first of them can be measured. A
receiver that knows its link gives its flows one credit: the bandwidth-delay product of the longest
path, and the part of the queue that causes no congestion mark (as the grants of Homa: Montazeri et
al., SIGCOMM 2018).
Nodes forward a packet when all of it has arrived, so its time on each link is part of the delay.
On slow links the queue holds seconds, and an answer behind it comes after its request was repeated:
no more of it counts than the link sends in :data:`MOST_QUEUED_S`.

The same round trip says how long a request takes at least on slow and on long paths: timeouts and
lifetimes of Interests that are shorter would repeat what is on its way.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from itertools import count
from typing import Final
from weakref import finalize

from innet.settings import Settings, TransportSettings
from innet.topology.model import Topology
from innet.topology.parts import Link

MOST_QUEUED_S: Final = 0.1
"""Longest queueing time that a receiver allows on its link: far below the longest RTO (0.5 s)."""

_LONGEST_ROUND_TRIP_S: Final = 3.75  # 16 of them are the longest lifetime of an Interest


def receive_credit_bytes(topology: Topology, node: str, *, bulk_segment_bytes: int = 0) -> int:
    """The credit of ``node``; 0 for no limit: a switch, or a host with a link without a rate.

    A request leaves while any credit is left, so answers exceed the credit by up to one of them.
    That is little, except where segments span several packets, of ``bulk_segment_bytes`` at most.

    >>> from innet.topology import load_topology
    >>> receive_credit_bytes(load_topology("star8"), "s0")
    0
    """
    rate_bps = receive_rate_bps(topology, node)
    if not rate_bps:
        return 0
    queued_bytes = rate_bps * _most_queued_s(topology, node) / 8
    mtu_bytes = min(
        link.mtu_bytes for link in topology.links_of[topology.machine_of[node]].values()
    )
    excess_bytes = min(max(0, bulk_segment_bytes - mtu_bytes), queued_bytes / 2)
    return int(rate_bps * _longest_way_s(topology, node) / 8 + queued_bytes - excess_bytes)


def queue_credit_bytes(topology: Topology, node: str) -> int:
    """The part of a credit that may wait in queues, for a host on a machine of its own whose links
    have no rate in the file: there is a real port with a queue before it, whose rate nobody knows.

    The host measures the other part, what fills the path. 0: there is no such port, or the rate is
    known.

    >>> from innet.topology import load_topology
    >>> queue_credit_bytes(load_topology("star:8"), "h0")
    262144
    """
    machine = topology.machine_of[node]
    links = [
        link
        for peer, link in topology.links_of[machine].items()
        if topology.placement[peer] != topology.placement[machine]
    ]
    if not links or topology.nodes[node].kind == "switch" or receive_rate_bps(topology, node):
        return 0
    return min(link.mark_threshold_bytes for link in links) // _ranks_at(topology, machine)


def receive_rate_bps(topology: Topology, node: str) -> float:
    """The rate of all links of a host together; 0 where there is no credit.

    A worker of a host with several may use all of the host's links, as far as its own link to the
    host's memory goes: most of what they request is the same, and crosses these once.

    >>> from innet.topology import load_topology
    >>> receive_rate_bps(load_topology("star:8").with_overrides(rate_bps=1e9), "h0")
    1000000000.0
    """
    host = topology.machine_of[node]
    links = topology.links_of[host].values()
    if topology.nodes[node].kind == "switch":
        return 0.0
    rate_bps = sum(link.rate_bps or math.inf for link in links if not link.in_memory) or math.inf
    if node != host:
        rate_bps = min(rate_bps, topology.link_between(node, host).rate_bps or math.inf)
    return rate_bps if math.isfinite(rate_bps) else 0.0


def longest_round_trip_s(topology: Topology) -> float:
    """Between the nodes farthest apart, behind what receivers let wait in their queues.

    >>> from innet.topology import load_topology
    >>> round(longest_round_trip_s(load_topology("star:8").with_overrides(rate_bps=1e6)), 3)
    0.244
    """
    # Exact on trees; elsewhere half of the longest way at worst.
    edge_of_network = _farthest(_ways_s(topology, next(iter(topology.nodes))))
    longest_way_s = _longest_way_s(topology, edge_of_network)
    return longest_way_s + max(_most_queued_s(topology, host) for host in topology.hosts)


def with_timers_for(topology: Topology, settings: Settings) -> Settings:
    """A copy with the timeouts and the lifetime of Interests that slow or long paths need.

    Settings stay as they are where one of these differs from its default.

    >>> from innet.topology import load_topology
    >>> slow = load_topology("star:8").with_overrides(rate_bps=1e6)
    >>> transport = with_timers_for(slow, Settings()).transport
    >>> [round(s, 2) for s in (transport.min_rto_s, transport.max_rto_s)]
    [0.49, 1.95]
    """
    timers = {"min_rto_s", "max_rto_s", "interest_lifetime_s"}
    defaults = TransportSettings()
    if settings.transport.model_dump(include=timers) != defaults.model_dump(include=timers):
        return settings
    round_trip_s = min(longest_round_trip_s(topology), _LONGEST_ROUND_TRIP_S)
    chosen = {
        "min_rto_s": max(defaults.min_rto_s, 2 * round_trip_s),
        "max_rto_s": max(defaults.max_rto_s, 8 * round_trip_s),
        "interest_lifetime_s": max(defaults.interest_lifetime_s, 16 * round_trip_s),
    }
    return settings.model_copy(update={"transport": settings.transport.model_copy(update=chosen)})


def _ways_s(topology: Topology, node: str) -> Mapping[str, float]:
    """How long an Interest to each node and its answer take, if no queue holds them up.

    Dijkstra's algorithm: every launcher needs it, and networkx takes it longer to import.
    """
    ways_s: dict[str, float] = {}
    order = count()
    reached = [(0.0, next(order), node)]
    while reached:
        way_s, _, nearest = heapq.heappop(reached)
        if nearest in ways_s:
            continue
        ways_s[nearest] = way_s
        for peer, link in topology.links_of[nearest].items():
            if peer not in ways_s:
                heapq.heappush(reached, (way_s + _there_and_back_s(link), next(order), peer))
    return ways_s


def _longest_way_s(topology: Topology, node: str) -> float:
    """How long an Interest to the node farthest from ``node`` and its answer take."""
    # The hosts of a switch share its search: one for each takes minutes with a thousand of them.
    links = topology.links_of[node]
    if id(topology) not in _searched:
        _searched[id(topology)] = {}
        finalize(topology, _searched.pop, id(topology))
    searched = _searched[id(topology)]
    if len(links) != 1:
        twins = frozenset((peer, _there_and_back_s(link)) for peer, link in links.items())
        if twins not in searched:
            searched[twins] = {node: max(_ways_s(topology, node).values())}
        return max(searched[twins].values())
    ((gate, link),) = links.items()
    if gate not in searched:
        ways_s = _ways_s(topology, gate)
        searched[gate] = {
            far: ways_s[far] for far in heapq.nlargest(2, ways_s, key=ways_s.__getitem__)
        }
    return _there_and_back_s(link) + max(s for far, s in searched[gate].items() if far != node)


_searched: dict[int, dict[str | frozenset[tuple[str, float]], dict[str, float]]] = {}
"""By topology, for each switch with hosts, the two nodes farthest from it and the ways to them, in
seconds; of nodes with several links, which are alike, the longest way."""


def _farthest(ways_s: Mapping[str, float]) -> str:
    return max(ways_s, key=lambda node: ways_s[node])


def _most_queued_s(topology: Topology, host: str) -> float:
    """How long what the host receives waits for its link at most."""
    rate_bps = receive_rate_bps(topology, host)
    if not rate_bps:
        return 0.0
    machine = topology.machine_of[host]
    # All that it requests may come over one of its links.
    links = (*topology.links_of[machine].values(), *topology.links_of[host].values())
    marks = (
        link.mark_threshold_bytes
        for link in links
        if not link.in_memory or link.rate_bps is not None
    )
    share = _share_of_uplinks(topology, machine) / _ranks_at(topology, machine)
    queued = min(marks) * share
    return min(8 * queued / rate_bps, MOST_QUEUED_S)


def _ranks_at(topology: Topology, machine: str) -> int:
    return len(topology.ranks_on([machine]))


def _there_and_back_s(link: Link) -> float:
    """An Interest, which is short, and the packet that answers it."""
    sending_s = 0.0 if link.rate_bps is None else 8 * link.mtu_bytes / link.rate_bps
    return 2 * link.delay_s + sending_s


def _share_of_uplinks(topology: Topology, host: str) -> float:
    """The part of its hosts' receive rate that the switch's uplinks can carry: 1 or less.

    The hosts behind one switch share its links to other switches, and the queues of these.
    """
    shares = [1.0]
    for gate, uplink in topology.links_of[host].items():
        if uplink.in_memory:
            continue
        rates_bps = {"host": 0.0, "switch": 0.0}
        for peer, link in topology.links_of[gate].items():
            rates_bps[topology.role_of(peer)] += link.rate_bps or math.inf
        if rates_bps["switch"]:
            shares.append(rates_bps["switch"] / rates_bps["host"])
    return min(shares)
