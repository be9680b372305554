"""Which nodes serve which prefixes of NDN programs, and where every node is told to look for them.

A node says what its programs serve (:mod:`.announcer`), all of it each time. From that and from the
paths that are left follow the next hops of every node: one towards each node that serves a prefix,
at the distance to it, so that the nearest is asked first. A node is told what has changed since it
last took what it was told, or everything when that is not known.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from innet.node.control.messenger import Message, Messenger
from innet.node.control.protocol import Registrations
from innet.node.control.survivors import Survivors

_PAUSE_S = 0.02
"""Between two rounds of telling nodes: what comes meanwhile is told together."""
_SERIALS_PER_GENERATION = 1 << 40
_RETRY_S = 1.0
"""After which a node that did not answer is told again."""

_OF_THE_NETWORK = {
    "": "it is what all names begin with",
    "localhost": "names below /localhost stay on their machine",
    "localhop": "names below /localhop go no further than one hop",
    "n": "names below /n are nodes', which everybody knows the way to",
    "kv": "names below /kv are pools'",
}
"""First components of names that are announced to nobody, and why."""

NextHops = tuple[tuple[int, int], ...]
"""Faces of a node and their costs, in the order of the faces."""


@dataclass(slots=True)
class _Node:
    """What a node is known to look for where; ``None``: it has to be told everything."""

    told: dict[str, NextHops] | None = field(default_factory=dict)
    is_being_told: bool = False
    has_more: bool = False
    """There is more to tell when it has answered."""


class Announcements:
    """Tells all nodes of a network where prefixes are served.

    Thread-safe. Nodes are told in the background, by a thread of its own and the messenger's.

    Example, of what the controller does for a program on ``h0``::

        announcements.begin("h0")       # its process runs, and knows nothing
        announcements.announce("h0", Registrations(version=1, prefixes=("/sum", "/j1/x")))
        # {'/j1/x': "..."}: the job has these names for itself; all others learn of /sum
        announcements.end("h0")         # nothing is served there any more
    """

    def __init__(
        self,
        survivors: Survivors,
        messenger: Messenger,
        switches: Iterable[str],
        generation: int = 0,
    ) -> None:
        """
        Args:
            survivors: the network.
            messenger: tells nodes.
            switches: run, and know nothing yet.
            generation: how often whoever told nodes before has been replaced.
        """
        self._serials = count(generation * _SERIALS_PER_GENERATION + 1)
        self._messenger = messenger
        self._changed = threading.Condition()
        self._survivors = survivors
        self._jobs: frozenset[str] = frozenset()
        self._served: dict[str, Registrations] = {}
        self._nodes = {switch: _Node() for switch in switches}
        self._dirty: set[str] = set()
        self._unheard: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="announcements", daemon=True)
        self._thread.start()

    def begin(self, node: str) -> None:
        """A new process of ``node`` runs, and knows nothing."""
        with self._changed:
            self._forget(node)
            self._nodes[node] = _Node()
            self._mark([node])

    def end(self, node: str) -> None:
        """The process of ``node`` is gone, or nobody is to ask it any more."""
        with self._changed:
            self._forget(node)
            self._nodes.pop(node, None)

    def announce(self, node: str, served: Registrations) -> dict[str, str]:
        """``node`` serves this from now on, and nothing else; what of it stays there, and why."""
        with self._changed:
            known = self._served.get(node)
            if node in self._nodes and (known is None or known.version <= served.version):
                self._served[node] = served
                if known is None or known.prefixes != served.prefixes:
                    self._mark(self._nodes)
            return {prefix: why for prefix in served.prefixes if (why := self._why_apart(prefix))}

    def restore(self, served: Mapping[str, Registrations]) -> None:
        """Know again what these nodes serve; nobody knows what any of them was told."""
        with self._changed:
            self._served = dict(served)
            self._nodes = {node: _Node(told=None) for node in {*self._nodes, *served}}
            self._mark(self._nodes)

    def adapt(self, survivors: Survivors) -> None:
        """The network has changed."""
        with self._changed:
            self._survivors = survivors
            self._mark(self._nodes)

    def keep_apart(self, jobs: Iterable[str]) -> None:
        """These are the prefixes of the jobs that run: what is below them is theirs alone."""
        with self._changed:
            self._jobs = frozenset(_first_component(prefix) for prefix in jobs)
            if self._served:
                self._mark(self._nodes)

    def close(self) -> None:
        """Tell nobody any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _forget(self, node: str) -> None:
        if self._served.pop(node, None) is not None:
            self._mark(self._nodes)

    def _mark(self, nodes: Iterable[str]) -> None:
        self._dirty.update(nodes)
        self._changed.notify_all()

    def _why_apart(self, prefix: str) -> str | None:
        first = _first_component(prefix)
        if first in self._jobs:
            return "these names are a job's own, which it has links for"
        return _OF_THE_NETWORK.get(first)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._dirty or self._unheard)
                if not self._dirty:
                    self._changed.wait_for(lambda: self._closed or self._dirty, _RETRY_S)
                if self._closed:
                    return
                nodes, self._dirty = self._dirty | self._unheard, set()
                self._unheard.clear()
                self._tell(nodes)
                self._changed.wait_for(lambda: self._closed, _PAUSE_S)

    def _tell(self, nodes: Collection[str]) -> None:
        servers = self._servers()
        for name in nodes:
            node = self._nodes.get(name)
            if node is None or name in self._survivors.lost:
                continue
            if node.is_being_told:
                node.has_more = True
                continue
            wanted = self._next_hops(name, servers)
            changes = _changes(node.told, wanted)
            if changes or node.told is None:
                node.is_being_told = True
                message: Message = (
                    "set_network_routes",
                    {
                        "served": changes,
                        "anew": node.told is None,
                        "serial": next(self._serials),
                    },
                )
                sent = self._messenger.post(name, [message])
                sent.add_done_callback(self._when_told(name, node, wanted))

    def _servers(self) -> dict[str, frozenset[str]]:
        """The nodes that serve each prefix, for those that everybody may know of."""
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
        """Where ``node`` is to look for what is served elsewhere, by prefix."""
        towards = {nodes: self._hops_towards(node, nodes) for nodes in set(servers.values())}
        return {prefix: towards[nodes] for prefix, nodes in servers.items() if towards[nodes]}

    def _hops_towards(self, node: str, servers: Collection[str]) -> NextHops:
        faces = self._survivors.next_hops[node]
        costs: dict[int, int] = {}
        for server in servers:
            if server in faces:
                cost = self._survivors.distance(node, server)
                costs[faces[server]] = min(cost, costs.get(faces[server], cost))
        return tuple(sorted(costs.items()))

    def _when_told(
        self, name: str, node: _Node, wanted: dict[str, NextHops]
    ) -> Callable[[Future[bool]], None]:
        def note(heard: Future[bool]) -> None:
            with self._changed:
                node.is_being_told = False
                node.told = wanted if heard.result() else None
                if self._nodes.get(name) is not node:
                    return
                if node.told is None:
                    self._unheard.add(name)
                if node.has_more:
                    node.has_more = False
                    self._dirty.add(name)
                self._changed.notify_all()

        return note


def _first_component(prefix: str) -> str:
    return prefix.split("/")[1]


def _changes(
    told: Mapping[str, NextHops] | None, wanted: Mapping[str, NextHops]
) -> list[tuple[list[str], NextHops]]:
    """Prefixes with the next hops that they have from now on, if there are any."""
    before = told or {}
    changed = {prefix: hops for prefix, hops in wanted.items() if before.get(prefix) != hops}
    changed.update((prefix, ()) for prefix in before if prefix not in wanted)
    prefixes: defaultdict[NextHops, list[str]] = defaultdict(list)
    for prefix, hops in changed.items():
        prefixes[hops].append(prefix)
    return [(of_hops, hops) for hops, of_hops in prefixes.items()]
