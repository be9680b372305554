"""The prefixes that NDN programs serve at each node, and the routes of all nodes towards them.

A node announces all prefixes that its programs serve, at each change
(:mod:`innet.node.announcer`). Every node gets a next hop towards each node that serves a prefix,
with its distance as the cost, so that Interests go to the nearest first. An update has
the changes since the node's last one, or all routes if that is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from innet.cluster.control.actions import Message, MessageOutcome, Outbox, first_error
from innet.cluster.control.placements import LiveTopology
from innet.node.messages import ServedPrefixes

_PAUSE_S = 0.02
"""Between two rounds of updates: changes in between are sent together."""
_SERIALS_PER_GENERATION = 1 << 40
_RETRY_S = 1.0
"""After which a node that did not answer is sent its update again."""

_OF_THE_NETWORK = {
    "": "all names begin with it",
    "localhost": "names below /localhost stay on their machine",
    "localhop": "names below /localhop go no further than one hop",
    "n": "names below /n are those of nodes, to which every node has a route",
    "kv": "names below /kv are those of pools of blocks",
}
"""First components of names that are never announced, with the reason."""

NextHops = tuple[tuple[int, int], ...]
"""Faces of a node and their costs, in the order of the faces."""


@dataclass(slots=True)
class _Node:
    """A node's routes; ``None``: they are not known, so the next update has all routes."""

    routes: dict[str, NextHops] | None = field(default_factory=dict)
    is_being_updated: bool = False
    has_more: bool = False
    """Another update follows when the node has answered this one."""


class Announcements:
    """Keeps the routes of all nodes towards announced prefixes up to date."""

    def __init__(
        self,
        live: LiveTopology,
        outbox: Outbox,
        switches: Iterable[str],
        generation: int = 0,
    ) -> None:
        """``switches`` run and have no routes yet; ``generation`` counts earlier controllers."""
        self._serials = count(generation * _SERIALS_PER_GENERATION + 1)
        self._outbox = outbox
        self._live = live
        self._jobs: frozenset[str] = frozenset()
        self._served: dict[str, ServedPrefixes] = {}
        self._nodes = {switch: _Node() for switch in switches}
        self._dirty: set[str] = set()
        self._unanswered: set[str] = set()
        self._last_round_s = float("-inf")

    @property
    def next_round_s(self) -> float | None:
        """When :meth:`on_timer` has updates to send; ``None``: there are none."""
        if self._dirty:
            return self._last_round_s + _PAUSE_S
        return self._last_round_s + _RETRY_S if self._unanswered else None

    def begin(self, node: str) -> None:
        """A new process of ``node`` runs, and has no routes."""
        self._forget(node)
        self._nodes[node] = _Node()
        self._dirty.add(node)

    def end(self, node: str) -> None:
        """Withdraw the prefixes of ``node``: its process has ended or has left."""
        self._forget(node)
        self._nodes.pop(node, None)

    def announce(self, node: str, served: ServedPrefixes) -> dict[str, str]:
        """Replace the prefixes that ``node`` serves.

        Returns:
            The prefixes that are not announced to other nodes, with the reason.
        """
        known = self._served.get(node)
        if node in self._nodes and (known is None or known.version <= served.version):
            self._served[node] = served
            if known is None or known.prefixes != served.prefixes:
                self._dirty.update(self._nodes)
        return {prefix: why for prefix in served.prefixes if (why := self._why_apart(prefix))}

    def restore(self, served: Mapping[str, ServedPrefixes]) -> None:
        """Take over the prefixes that these nodes serve; the routes of the nodes are not known."""
        self._served = dict(served)
        self._nodes = {node: _Node(routes=None) for node in {*self._nodes, *served}}
        self._dirty.update(self._nodes)

    def adapt(self, live: LiveTopology) -> None:
        """Adapt the routes to a changed network."""
        self._live = live
        self._dirty.update(self._nodes)

    def keep_apart(self, jobs: Iterable[str]) -> None:
        """Announce nothing below the prefixes of the running ``jobs``."""
        self._jobs = frozenset(_first_component(prefix) for prefix in jobs)
        if self._served:
            self._dirty.update(self._nodes)

    def on_timer(self, now_s: float) -> None:
        """Send the updates that are due."""
        if self.next_round_s is None or self.next_round_s > now_s:
            return
        self._last_round_s = now_s
        nodes, self._dirty = self._dirty | self._unanswered, set()
        self._unanswered.clear()
        servers = self._servers()
        for name in sorted(nodes):
            self._update(name, servers)

    def _forget(self, node: str) -> None:
        if self._served.pop(node, None) is not None:
            self._dirty.update(self._nodes)

    def _why_apart(self, prefix: str) -> str | None:
        first = _first_component(prefix)
        if first in self._jobs:
            return "names of a job use the links of its hosts alone"
        return _OF_THE_NETWORK.get(first)

    def _update(self, name: str, servers: Mapping[str, frozenset[str]]) -> None:
        node = self._nodes.get(name)
        if node is None or name in self._live.lost:
            return
        if node.is_being_updated:
            node.has_more = True
            return
        wanted = self._next_hops(name, servers)
        changes = _changes(node.routes, wanted)
        if not changes and node.routes is not None:
            return
        node.is_being_updated = True
        update: Message = (
            "set_network_routes",
            {
                "served": changes,
                "anew": node.routes is None,
                "serial": next(self._serials),
            },
        )

        def on_sent(outcomes: Sequence[MessageOutcome]) -> None:
            node.is_being_updated = False
            node.routes = wanted if first_error(outcomes) is None else None
            if self._nodes.get(name) is not node:
                return
            if node.routes is None:
                self._unanswered.add(name)
            if node.has_more:
                node.has_more = False
                self._dirty.add(name)

        self._outbox.send(name, [update], on_sent=on_sent)

    def _servers(self) -> dict[str, frozenset[str]]:
        """The nodes that serve each prefix, without prefixes that must not be announced."""
        servers: defaultdict[str, set[str]] = defaultdict(set)
        for node, served in self._served.items():
            for prefix in served.prefixes:
                servers[prefix].add(node)
        return {
            prefix: frozenset(nodes)
            for prefix, nodes in servers.items()
            if self._why_apart(prefix) is None
        }

    def _next_hops(self, node: str, servers: Mapping[str, frozenset[str]]) -> dict[str, NextHops]:
        """The next hops of ``node`` by prefix, for prefixes that other nodes serve."""
        towards = {nodes: self._hops_towards(node, nodes) for nodes in set(servers.values())}
        return {prefix: towards[nodes] for prefix, nodes in servers.items() if towards[nodes]}

    def _hops_towards(self, node: str, servers: Collection[str]) -> NextHops:
        faces = self._live.next_hops[node]
        costs: dict[int, int] = {}
        for server in servers:
            if server in faces:
                cost = self._live.distance(node, server)
                costs[faces[server]] = min(cost, costs.get(faces[server], cost))
        return tuple(sorted(costs.items()))


def _first_component(prefix: str) -> str:
    return prefix.split("/")[1]


def _changes(
    routes: Mapping[str, NextHops] | None, wanted: Mapping[str, NextHops]
) -> list[tuple[list[str], NextHops]]:
    """Prefixes whose next hops change, with the new ones: none if no node serves the prefix."""
    before = routes or {}
    changed = {prefix: hops for prefix, hops in wanted.items() if before.get(prefix) != hops}
    changed.update((prefix, ()) for prefix in before if prefix not in wanted)
    prefixes: defaultdict[NextHops, list[str]] = defaultdict(list)
    for prefix, hops in changed.items():
        prefixes[hops].append(prefix)
    return [(of_hops, hops) for hops, of_hops in prefixes.items()]
