"""What a node may have under way at once, by its place in the topology.

Flows of one host share its last link. Each of them starts with a window of its own and learns from
the delay that it causes, but a ring of N ranks asks N-1 nodes at the same moment, and their answers
overflow the queue of that link before the first of them can be measured. A receiver that knows its
link gives its flows one credit: the bandwidth-delay product of the longest path, and the part of
the queue that causes no congestion mark (as the grants of Homa: Montazeri et al., SIGCOMM 2018).
Nodes forward a packet when all of it has arrived, so its time on each link is part of the delay.
On slow links the queue holds seconds, and an answer behind it comes after its request was repeated:
no more of it counts than the link sends in :data:`MOST_QUEUED_S`.
"""

from __future__ import annotations

import math
from typing import Final

from innet.topology.model import Link, Topology

MOST_QUEUED_S: Final = 0.1
"""What a receiver lets wait in the queue of its link: far below the longest RTO (0.5 s)."""


def receive_credit_bytes(topology: Topology, node: str) -> int:
    """The credit of ``node``; 0 for no limit: a switch, or a host with a link without a rate.

    >>> from innet.topology import load_topology
    >>> receive_credit_bytes(load_topology("star8"), "s0")
    0
    """
    rate_bps = receive_rate_bps(topology, node)
    if not rate_bps:
        return 0
    import networkx as nx

    ways_s = nx.single_source_dijkstra_path_length(
        topology.graph(), node, weight=lambda _u, _v, edge: _there_and_back_s(edge["link"])
    )
    links = [link for link in topology.links if node in link.nodes]
    queued = sum(link.mark_threshold_bytes for link in links) * _share_of_uplinks(topology, node)
    queued = min(queued, rate_bps * MOST_QUEUED_S / 8)
    return int(rate_bps * max(ways_s.values()) / 8 + queued)


def receive_rate_bps(topology: Topology, node: str) -> float:
    """What reaches a host by all its links together; 0 where there is no credit.

    >>> from innet.topology import load_topology
    >>> receive_rate_bps(load_topology("star:8").with_overrides(rate_bps=1e9), "h0")
    1000000000.0
    """
    rates_bps = [link.rate_bps for link in topology.links if node in link.nodes]
    known = [rate_bps for rate_bps in rates_bps if rate_bps is not None]
    if topology.nodes[node].kind == "switch" or len(known) < len(rates_bps):
        return 0.0
    return sum(known)


def _there_and_back_s(link: Link) -> float:
    """An Interest, which is short, and the packet that answers it."""
    sending_s = 0.0 if link.rate_bps is None else 8 * link.mtu_bytes / link.rate_bps
    return 2 * link.delay_s + sending_s


def _share_of_uplinks(topology: Topology, host: str) -> float:
    """What its switch can pass on of all that its hosts receive: 1 or less.

    The hosts behind one switch share its links to other switches, and the queues of these.
    """
    graph = topology.graph()
    shares = [1.0]
    for gate in graph[host]:
        rates_bps = {"host": 0.0, "switch": 0.0}
        for peer, edge in graph[gate].items():
            rates_bps[topology.nodes[peer].kind] += edge["link"].rate_bps or math.inf
        if rates_bps["switch"]:
            shares.append(rates_bps["switch"] / rates_bps["host"])
    return min(shares)
