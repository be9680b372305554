"""What a node may have under way at once, by its place in the topology.

Flows of one host share its last link. Each of them starts with a window of its own and learns from
the delay that it causes, but a ring of N ranks asks N-1 nodes at the same moment, and their answers
overflow the queue of that link before the first of them can be measured. A receiver that knows its
link gives its flows one credit: the bandwidth-delay product of the longest path, and the part of
the queue that causes no congestion mark (as the grants of Homa: Montazeri et al., SIGCOMM 2018).
"""

from __future__ import annotations

import math

from innet.topology.model import Topology


def receive_credit_bytes(topology: Topology, node: str) -> int:
    """The credit of ``node``; 0 for no limit: a switch, or a host with a link without a rate.

    >>> from innet.topology import load_topology
    >>> receive_credit_bytes(load_topology("star8"), "s0")
    0
    """
    links = [link for link in topology.links if node in link.nodes]
    rates_bps = [link.rate_bps for link in links if link.rate_bps is not None]
    if topology.nodes[node].kind == "switch" or not links or len(rates_bps) < len(links):
        return 0
    import networkx as nx

    delays_s = nx.single_source_dijkstra_path_length(
        topology.graph(), node, weight=lambda _u, _v, edge: edge["link"].delay_s
    )
    round_trip_s = 2 * max(delays_s.values())
    queued = sum(link.mark_threshold_bytes for link in links) * _share_of_uplinks(topology, node)
    return int(sum(rates_bps) * round_trip_s / 8 + queued)


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
