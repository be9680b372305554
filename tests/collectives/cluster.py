"""A whole network in one process: real nodes over real sockets, one thread per rank.

For tests that need many small networks, or want to sit on a wire and tamper with it.
"""

from __future__ import annotations

import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from innet._native import _core
from innet.collectives import Communicator
from innet.collectives.group import Variants
from innet.collectives.runner import OperationRunner
from innet.node.messages import GroupFailure
from innet.node.routing import next_hops
from innet.node.runtime import install_rules
from innet.plans import Plan, SegmentRoom, make_plan, rank_order
from innet.security import NodeKeys, deal_keys, node_certificate_name
from innet.security.group_keys import GroupCredentials
from innet.security.keys import Key
from innet.security.trust import Policy, PrivateKey
from innet.security.trust.rights import GroupRights
from innet.settings import Settings
from innet.topology import Topology
from innet.worker import Collector, Membership
from innet.worker.background import BackgroundThread

Tamper = Callable[[bytes], Sequence[bytes]]
"""Given a datagram, what to pass on instead of it."""


class _Member:
    """What a communicator needs of a worker process."""

    def __init__(
        self, node: _core.Node, host: str, segment_bytes: int, settings: Settings, keys: NodeKeys
    ) -> None:
        self.node = node
        self.collector = Collector(node)
        self.object_key = keys.object_key()
        self.host = host
        self.segment_bytes = segment_bytes
        self.object_segment_bytes = segment_bytes
        self.settings = settings
        self.trace = None
        self.halted: set[str] = set()

    def segment_room_beside(self, overhead_bytes: int) -> SegmentRoom:
        """What the test says: there are no links with frames."""
        return SegmentRoom(self.segment_bytes, self.segment_bytes)

    def leave_group(self, membership: Membership) -> None:
        """What others may still need of it stays until the cluster closes."""

    def now_s(self) -> float:
        """The time that deadlines count in."""
        return time.monotonic()

    def background(self, name: str) -> BackgroundThread:
        """A thread of its own."""
        return BackgroundThread(name)

    def abandon_group(self, membership: Membership, why: str) -> None:
        """Nobody gives up."""

    def before_close(self, hook: Callable[[], None]) -> None:
        """The cluster closes what there is by itself."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """There is nothing to take back."""

    def stopped(self) -> frozenset[str]:
        """The hosts whose process does not answer."""
        return frozenset(self.halted)


class _Tap:
    """Sits between two sockets and passes on what ``tamper`` gives, in both directions."""

    def __init__(self, tamper: Tamper) -> None:
        self._tamper = tamper
        self.ends = (_udp_socket(), _udp_socket())
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, peers: tuple[int, int]) -> None:
        for end, port in zip(self.ends, peers, strict=True):
            end.connect(("127.0.0.1", port))
        self._thread.start()

    def _run(self) -> None:
        other = {self.ends[0]: self.ends[1], self.ends[1]: self.ends[0]}
        while True:
            ready, _, _ = select.select([*self.ends, self._stop_read], [], [])
            if self._stop_read in ready:
                return
            for end in ready:
                for datagram in self._tamper(end.recv(65536)):
                    other[end].send(datagram)

    def close(self) -> None:
        self._stop_write.send(b"x")
        self._thread.join()
        for open_socket in (*self.ends, self._stop_read, self._stop_write):
            open_socket.close()


class Cluster:
    """Nodes of ``topology`` in this process, and a communicator for each host.

    Args:
        tamper: by link ``(host, switch)``, what happens to each of its datagrams.
        policy: each node's key may sign what this allows alone; all of everything by default.
        trusted: keys that all nodes know beside each other's, with the policy.
        installs_job: nodes are told of the job ``/j``, and so refuse its names of unknown keys.
        segment_bytes: content of a full segment.
    """

    def __init__(
        self,
        topology: Topology,
        plan: Plan | str = "inc",
        *,
        tamper: Mapping[tuple[str, str], Tamper] | None = None,
        segment_bytes: int = 1024,
        signature: str = "gmac",
        timeout_s: float = 20.0,
        policy: Policy | None = None,
        trusted: Sequence[Key] = (),
        installs_job: bool = False,
    ) -> None:
        self.topology = topology
        self.plan = make_plan(plan, topology) if isinstance(plan, str) else plan
        self._tamper = tamper or {}
        self._taps: list[_Tap] = []
        self._settings = Settings()
        self._policy = policy
        self._trusted = tuple(trusted)
        self._keys = deal_keys(topology.nodes, signature)  # type: ignore[arg-type]
        self.nodes = {name: self._open(name) for name in topology.nodes}
        self._connect()
        for name, node in self.nodes.items():
            node.start()
            if installs_job:
                node.install_job("/j", 1, None, [])
            self._route(name, node)
        self.members = [
            _Member(self.nodes[name], name, segment_bytes, self._settings, self._keys[name])
            for name in self.plan.ranks
        ]
        # Weak: a group that the test has let go runs nothing that has to be released.
        self._memberships: list[weakref.ref[Membership]] = []
        self.communicators = self.group("g0", self.plan.ranks, self.plan, timeout_s=timeout_s)

    def group(
        self, name: str, nodes: Sequence[str], plan: Plan | str, *, timeout_s: float = 20.0
    ) -> list[Communicator]:
        """A communicator for each of ``nodes``, by rank."""
        if isinstance(plan, str):
            plan = make_plan(plan, self.topology, rank_order(self.topology, nodes))
        prefix = f"/j/{name}"
        self._give_rights(prefix, plan, nodes)
        for node_name, node in self.nodes.items():
            install_rules(node, prefix, plan.rules_for(node_name))
        members = {member.host: member for member in self.members}
        made = []
        for rank, node_name in enumerate(nodes):
            membership = Membership(name, 1, tuple(nodes), rank, {prefix: plan})
            self._memberships.append(weakref.ref(membership))
            worker: Any = members[node_name]
            runner = OperationRunner(worker, membership, Variants(membership, None), timeout_s)
            made.append(Communicator(runner))
        return made

    def key_of(self, node: str) -> PrivateKey:
        """The key that a node signs with, with Ed25519."""
        return PrivateKey.from_raw_ed25519(bytes.fromhex(self._keys[node].objects.secret))

    def object_key_of(self, node: str) -> Key:
        """The public key of what a node signs its objects with."""
        return self._keys[node].objects.public()

    def _give_rights(self, prefix: str, plan: Plan, nodes: Sequence[str]) -> None:
        if self._policy is None:
            return
        rights = GroupRights(tuple(nodes))
        rights.place(self._policy, {prefix: plan})
        names = {
            node_certificate_name(node, "j"): tuple(of_node)
            for node, of_node in rights.names.items()
        }
        names |= {key.name: (prefix,) for key in self._trusted}
        known = tuple(keys.objects.public() for keys in self._keys.values())
        credentials = GroupCredentials(
            prefixes=(prefix,), key=None, trusted=(*known, *self._trusted), names=names
        )
        for node in self.nodes.values():
            credentials.install(node)

    def fail(self, communicator: Communicator, why: str, rank: int) -> None:
        """``rank`` of the communicator's group has failed, and its worker hears of it."""
        membership = communicator._membership
        membership.failure = GroupFailure(why, rank)
        for prefix in membership.plans:
            self.nodes[membership.nodes[membership.rank]].abort(prefix, why)

    def end(self, rank: int) -> None:
        """The process of ``rank`` ends as it should: its node answers no more."""
        host = self.plan.ranks[rank]
        self._release(host)
        self.nodes[host].stop("its process has ended")

    def _release(self, host: str) -> None:
        """Let nothing of the host's groups work in the background any more: its node stops next."""
        for reference in self._memberships:
            membership = reference()
            if membership is not None and membership.nodes[membership.rank] == host:
                membership.release()
                membership.release = lambda: None

    def run(
        self,
        rank_program: Callable[[Communicator], Any],
        communicators: Sequence[Communicator] | None = None,
    ) -> list[Any]:
        """Run the program on every rank at once; results (or the exceptions raised) by rank."""
        communicators = self.communicators if communicators is None else communicators

        def guarded(communicator: Communicator) -> Any:
            try:
                return rank_program(communicator)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(communicators)) as pool:
            return list(pool.map(guarded, communicators))

    def status(self, node: str) -> dict[str, Any]:
        """Counters of a node."""
        return self.nodes[node].status()

    def close(self) -> None:
        for communicator in self.communicators:
            communicator.close()
        for host in self.nodes:
            self._release(host)
        for member in self.members:
            member.collector.close()
        for node in self.nodes.values():
            node.stop("the test is over")
        for tap in self._taps:
            tap.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, name: str) -> _core.Node:
        settings = _core.NodeSettings()
        settings.own_name = f"/n/{name}"
        settings.seed = hash(name) & 0xFFFF
        described = self.topology.nodes[name]
        if described.kind == "switch":
            settings.reduction_slots = described.slots
            settings.cache_bytes = described.cache_bytes
        keys = self._keys[name]
        trusted = keys.trusted_keys() if self._policy is None else []
        return _core.Node(settings, keys.signing_key(), trusted)

    def _connect(self) -> None:
        for link in self.topology.links:
            ends = (_udp_socket(), _udp_socket())
            ports = (ends[0].getsockname()[1], ends[1].getsockname()[1])
            peers = (ports[1], ports[0])
            tamper = self._tamper.get((link.a.node, link.b.node)) or self._tamper.get(
                (link.b.node, link.a.node)
            )
            if tamper is not None:
                tap = _Tap(tamper)
                peers = (tap.ends[0].getsockname()[1], tap.ends[1].getsockname()[1])
                tap.start(ports)
                self._taps.append(tap)
            for interface, end, port, peer in zip(
                (link.a, link.b), ends, ports, peers, strict=True
            ):
                self.nodes[interface.node].add_link(
                    local_address="127.0.0.1",
                    local_port=port,
                    peer_address="127.0.0.1",
                    peer_port=peer,
                    fd=end.detach(),
                )

    def _route(self, name: str, node: _core.Node) -> None:
        for destination, face in next_hops(self.topology)[name].items():
            node.add_route(f"/n/{destination}", face)


def _udp_socket() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    opened.bind(("127.0.0.1", 0))
    return opened
