"""The nodes and links of a simulated topology, and the routes and rules that nodes look up.

In a real run every node receives all routes and rules. Simulated nodes share one process, so that
:class:`SharedTables` keeps them once, and a node looks up those that it needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from innet._native import _core
from innet.cluster.emulation.kernel_network import TokenBucket
from innet.cluster.emulation.network import HOST_CACHE_POLICY
from innet.cluster.emulation.segmentation import block_segment_bytes, segment_bytes
from innet.collectives.objects import PACKET_OVERHEAD_BYTES
from innet.errors import PlanError, SimulationError
from innet.lab.simulation.jobs import SimulatedJob, SimulatedKeys
from innet.node.native_settings import NodeSizes, native_settings, native_shape
from innet.node.node_config import LinkShape, Mode
from innet.output_files import find_output
from innet.plans import Interval, Plan
from innet.settings import Settings
from innet.topology import Link, Topology
from innet.topology.credit import receive_credit_bytes, receive_rate_bps, with_timers_for
from innet.topology.parts import MAX_MTU_BYTES
from innet.topology.routes import Ends, Routes

Operands = list[tuple[str, str]]
"""Intervals with the hint for each, such as ``("0-3", "/n/s1")``."""

_NODES = "/n/"


_THIN_ALIGNMENT_BYTES = 16
"""The size of the largest element: segments of virtual arrays hold whole elements as well."""


class SharedTables:
    """The routes and rules of all nodes."""

    def __init__(self, topology: Topology, faces: Mapping[str, Mapping[str, int]]) -> None:
        """
        Args:
            topology: its order numbers the nodes.
            faces: for each node, from each neighbour's name to the face towards it.
        """
        self._names = tuple(topology.nodes)
        self._known = frozenset(self._names)
        self._faces = faces
        self._topology = topology
        self._routes = Routes(topology)
        self._plans: dict[str, Plan] = {}
        self._told: dict[str, dict[str, set[Interval]]] = {}

    def add_plan(self, prefix: str, plan: Plan) -> None:
        """Let every node evaluate the sums of ``plan`` under the name ``prefix``."""
        self._plans[prefix] = plan
        self._told[prefix] = {}

    def change_plan(self, prefix: str, plan: Plan) -> Mapping[str, set[Interval]]:
        """Replace the plan under ``prefix``; returns the intervals that nodes have looked up."""
        self._plans[prefix] = plan
        return self._told[prefix]

    def remove_plan(self, prefix: str) -> None:
        """Forget the plan under ``prefix``."""
        del self._plans[prefix], self._told[prefix]

    def change_routes(
        self, lost: Collection[str], cut: Collection[Ends]
    ) -> Iterator[tuple[str, str, int]]:
        """Route around ``lost`` nodes and ``cut`` links from now on.

        Yields the invalid routes that nodes must forget: node, prefix, face. Nodes look up others
        when they need them.
        """
        before, self._routes = self._routes, Routes(self._topology, lost, cut)
        for node, faces in self._faces.items():
            if len(faces) == 1:
                continue  # a single path
            for destination in self._names:
                if destination == node:
                    continue
                peer = _next_hop(before, node, destination)
                if peer is not None and peer != _next_hop(self._routes, node, destination):
                    yield node, f"{_NODES}{destination}", faces[peer]

    def route(self, node: int, name: str) -> tuple[str, int] | None:
        """The prefix and the face of the route of the node with number ``node`` to ``name``."""
        destination = name.removeprefix(_NODES)
        here = self._names[node]
        if destination in (name, here) or destination not in self._known:
            return None
        faces = self._faces[here]
        if len(faces) == 1:
            return "/n", 0  # a single path
        peer = _next_hop(self._routes, here, destination)
        return None if peer is None else (name, faces[peer])

    def rule(self, node: int, prefix: str, interval: str) -> Operands | None:
        """The operands with which the node with number ``node`` evaluates ``interval``."""
        plan = self._plans.get(prefix)
        if plan is None:
            return None
        try:
            wanted = Interval.parse(interval)
            rule = plan.fallback(self._names[node], wanted)
        except PlanError:
            return None  # not a name of the plan
        self._told[prefix].setdefault(self._names[node], set()).add(wanted)
        return [(str(operand.interval), f"{_NODES}{operand.node}") for operand in rule.operands]


UNTIMED_RATE_BPS: Final = 10e9
UNTIMED_DELAY_S: Final = 1e-6
"""Of a simulated link whose topology gives neither: in virtual time nothing else takes any."""

_MEMORY: Final = {"rate_bps": 100e9, "delay_s": 1e-6, "queue_bytes": 2**30}
"""A link within a host: the rate at which one core copies, and the delay of a wake-up."""


def _next_hop(routes: Routes, node: str, destination: str) -> str | None:
    try:
        return routes.next_hop(node, destination)
    except PlanError:
        return None  # no path leads there


class SimulatedNetwork:
    """A topology's nodes and links, and the routes between its nodes.

    Attributes:
        topology: what is simulated.
        settings: of the nodes.
        virtual_scale: bytes for which each byte of an array stands.
        segment_bytes: of an array in a full segment.
        packet_bytes: maximum size of a packet of a pool's block, or the size for which it stands.
        tables: the routes and rules that nodes look up.
        native: the compiled simulation.
        nodes: by name.
        keys: of the nodes.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        seed: int,
        like: Mode = "local",
        *,
        virtual_scale: int = 1,
        jobs: Sequence[SimulatedJob] = (),
    ) -> None:
        self.topology = topology
        self._like = like
        self.nodes: dict[str, _core.SimulatedNode] = {}
        self.settings = with_timers_for(topology, settings)
        self.virtual_scale = virtual_scale
        self.segment_bytes = _thin_segment_bytes(topology, virtual_scale)
        # Virtual contents fill packets with segments of any kind.
        in_block = (
            self.segment_bytes if virtual_scale > 1 else block_segment_bytes(topology, "local")
        )
        self.packet_bytes = virtual_scale * in_block + PACKET_OVERHEAD_BYTES
        self._seed = seed
        self._jobs = jobs
        self.keys = SimulatedKeys(topology, jobs, self._digest)
        self._incarnations: dict[str, int] = {}
        self._faces: dict[str, dict[str, int]] = {name: {} for name in topology.nodes}
        self._directions: dict[tuple[str, str], int] = {}
        self._changed: dict[tuple[str, str], Link] = {}
        self.tables = SharedTables(topology, self._faces)
        self.native = _core.Simulation(self.tables.route, self.tables.rule)
        for name in topology.nodes:
            self.nodes[name] = self.native.add_node(*self._makings(name))
        for link in topology.links:
            self._connect(link)
        for name in topology.switches:
            self._install_jobs(name)

    @property
    def now_s(self) -> float:
        """Seconds since the simulation began."""
        return self.native.now_ns / 1e9

    @property
    def directions(self) -> list[tuple[str, str]]:
        """Source and destination of each direction of a link, by its number."""
        return list(self._directions)

    async def read_queues(self) -> list[tuple[int, int]]:
        """Queued bytes, and packets dropped so far, of each direction of a link."""
        return self.native.queues()

    def link_counters(self) -> dict[tuple[str, str], dict[str, int]]:
        """The counters of each direction of a link since the beginning."""
        numbers = self._directions.items()
        return {direction: self.native.link_counters(number) for direction, number in numbers}

    def status(self) -> dict[str, dict[str, Any]]:
        """The status of each node that has not crashed."""
        return {name: node.status() for name, node in self.nodes.items() if self.is_alive(name)}

    def direction(self, source: str, to: str) -> int:
        """The number of the link's direction from ``source`` to its neighbour ``to``.

        Raises:
            SimulationError: they are not neighbours.
        """
        found = self._directions.get((source, to))
        if found is None:
            raise SimulationError(
                f"there is no link from {source} to {to} in {self.topology.name}; "
                "`innet topology show` lists its links"
            )
        return found

    def crash(self, node: str) -> None:
        """Crash a node: its state and all packets to it are lost."""
        self.native.crash(self._known(node), f"{node} crashed")

    def restart(self, node: str) -> None:
        """Restart a crashed node with its routes and otherwise empty tables.

        Raises:
            SimulationError: it has not crashed.
        """
        index = self._known(node)
        if self.native.is_alive(index):
            raise SimulationError(f"{node} cannot start again: it has not crashed")
        self._incarnations[node] = self._incarnations.get(node, 0) + 1
        self.native.restart(index, *self._makings(node))
        if node in self.topology.switches:
            self._install_jobs(node)

    def is_alive(self, node: str) -> bool:
        """Whether the node runs: it has not crashed, or has restarted."""
        return self.native.is_alive(self._known(node))

    def pause(self, node: str) -> None:
        """Pause a node; packets to it wait in its receive buffers."""
        self.native.pause(self._known(node))

    def resume(self, node: str) -> None:
        """Resume a paused node."""
        self.native.resume(self._known(node))

    def advance_clock(self, node: str, by_s: float) -> None:
        """Advance the node's clock.

        Raises:
            SimulationError: ``by_s`` is negative.
        """
        if by_s < 0:
            raise SimulationError(
                f"the clock of {node} cannot go back by {-by_s:g} s: nodes keep time by a "
                "monotonic clock, which only ever jumps ahead"
            )
        self.native.advance_clock(self._known(node), by_s)

    def set_link_up(self, source: str, to: str, up: bool) -> None:
        """Take a direction of a link down, with the loss of its packets, or up."""
        self.native.set_link_up(self.direction(source, to), up)

    def link(self, source: str, to: str) -> Link:
        """The present properties of the link's direction from ``source`` to its neighbour ``to``.

        Raises:
            SimulationError: they are not neighbours.
        """
        self.direction(source, to)
        return self._changed.get((source, to)) or self.topology.link_between(source, to)

    def change_link(self, source: str, to: str, link: Link) -> None:
        """Give a direction the properties of ``link``; the ends of ``link`` do not matter."""
        self.native.change_link(self.direction(source, to), self._shape(link, source, to))
        self._changed[source, to] = link

    def _known(self, node: str) -> int:
        if node not in self.nodes:
            raise SimulationError(
                f"topology {self.topology.name} has no node {node!r}; "
                f"its nodes: {', '.join(self.topology.nodes)}"
            )
        return self.nodes[node].index

    def _makings(
        self, name: str
    ) -> tuple[_core.NodeSettings, _core.SigningKey, list[_core.SigningKey]]:
        node = self.topology.nodes[name]
        incarnation = self._incarnations.get(name, 0)
        sizes = NodeSizes(
            seed=self.number("node", name, incarnation),
            slots=node.slots if node.kind == "switch" else self.settings.collectives.host_slots,
            cache_bytes=node.cache_bytes,
            cache_policy=node.cache_policy if node.kind == "switch" else HOST_CACHE_POLICY,
            receive_credit_bytes=receive_credit_bytes(self.topology, name),
            receive_rate_bps=receive_rate_bps(self.topology, name),
            links=len(self.topology.graph()[name]),
            nodes=len(self.topology.nodes),
            virtual_scale=self.virtual_scale,
        )
        settings = native_settings(name, self.settings, sizes)
        return settings, self.keys.signing(name, incarnation), self.keys.trusted(name)

    def _install_jobs(self, switch: str) -> None:
        incarnation = self._incarnations.get(switch, 0)
        for job in self._jobs:
            signing = self.keys.signing_of_job(job, switch, incarnation)
            self.nodes[switch].install_job(job.prefix, job.weight, signing, self.keys.of_job(job))
            for host in set(job.hosts) & set(self._faces[switch]):
                self.nodes[switch].bind_face(self._faces[switch][host], job.prefix)

    def set_admission(self, switch: str, prefix: str, hosts: Collection[str]) -> None:
        """Admit names of the pool ``prefix`` on the faces of ``switch`` to ``hosts`` alone."""
        node = self.nodes[switch]
        for peer, face in self._faces[switch].items():
            if peer in hosts:
                node.admit_face(face, prefix)
            elif peer in self.topology.hosts:
                node.dismiss_face(face, prefix)

    def _connect(self, link: Link) -> None:
        first, second = link.a.node, link.b.node
        shapes = [self._shape(link, near, far) for near, far in ((first, second), (second, first))]
        forth, back = self.native.connect(
            self.nodes[first].index, self.nodes[second].index, *shapes
        )
        for near, far, number in ((first, second, forth), (second, first, back)):
            self._directions[near, far] = number
            self._faces[near][far] = len(self._faces[near])

    def _shape(self, link: Link, source: str, to: str) -> _core.LinkShape:
        if link.in_memory and not link.takes_time:
            link = link.model_copy(update=_MEMORY)
        shape, seed = LinkShape.of(link), self.number("link", source, to)
        if self._like == "local" or link.in_memory:
            return native_shape(shape, seed)
        # The kernel's queues do not mark packets; its token buckets pass bursts.
        bucket = TokenBucket.for_link(link)
        queue_bytes = bucket.limit_bytes if bucket else link.queue_bytes
        shape = shape.model_copy(update={"queue_bytes": queue_bytes, "mark_bytes": None})
        return native_shape(shape, seed, burst_bytes=bucket.burst_bytes if bucket else 0)

    def number(self, *parts: str | int) -> int:
        """A seed of 48 bits, derived from ``parts`` and the simulation's seed."""
        return int.from_bytes(self._digest(*parts)[:6], "big")

    def _digest(self, *parts: str | int) -> bytes:
        text = "/".join(str(part) for part in (self._seed, *parts))
        return hashlib.sha256(text.encode()).digest()


def with_timed_links(topology: Topology) -> Topology:
    """The topology as it is simulated: links with neither rate nor delay have 10 Gbit/s and 1 µs.

    Links within hosts stay: :class:`SimulatedNetwork` makes them as fast as memory.
    """
    return topology.with_defaults(rate_bps=UNTIMED_RATE_BPS, delay_s=UNTIMED_DELAY_S)


def largest_virtual_scale(topology: Topology) -> int:
    """The largest ``virtual_scale`` with which a segment still holds an element."""
    return segment_bytes(topology, MAX_MTU_BYTES) // _THIN_ALIGNMENT_BYTES


def _thin_segment_bytes(topology: Topology, virtual_scale: int) -> int:
    """Bytes of an array in a full segment, each of which stands for ``virtual_scale`` bytes."""
    if virtual_scale == 1:
        return segment_bytes(topology)
    if virtual_scale < 1:
        raise SimulationError(f"virtual_scale is {virtual_scale}; it must be a whole number from 1")
    # Virtual segments may be as large as the links allow.
    room_bytes = segment_bytes(topology, MAX_MTU_BYTES) // virtual_scale
    aligned = room_bytes // _THIN_ALIGNMENT_BYTES * _THIN_ALIGNMENT_BYTES
    if aligned == 0:
        raise SimulationError(
            f"virtual_scale={virtual_scale} leaves less than {_THIN_ALIGNMENT_BYTES} bytes of a "
            f"segment; with this topology's MTU it can be {largest_virtual_scale(topology)} at most"
        )
    return aligned


class Capture:
    """Writes packets to a pcapng file while a simulation runs.

    Each direction of a link is an interface, named ``h0->s0``. The file has a packet when it
    arrives, with a time in nanoseconds since the simulation began; lost packets are missing. NDN
    packets are in UDP datagrams of port 6363 between neighbours, streams in TCP segments between
    their hosts. Virtual contents count in the length of a packet and are missing in its bytes.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        path: str | Path,
        links: Iterable[tuple[str, str]] | None,
    ) -> None:
        """
        Args:
            network: with the captured links.
            path: of the file, which is replaced.
            links: pairs of neighbours, captured in both directions; by default all.

        Raises:
            SimulationError: there is no such link, or the file cannot be written.
        """
        pairs = [link.nodes for link in network.topology.links] if links is None else list(links)
        names = {
            network.direction(source, to): f"{source}->{to}"
            for a, b in pairs
            for source, to in ((a, b), (b, a))
        }
        self._native = network.native
        self._path = path
        try:
            descriptor = find_output(Path(path)).open()
            self._number: int | None = self._native.start_capture(descriptor, names)
        except OSError as error:
            raise SimulationError(
                f"the packet trace {path} cannot be written: {error.strerror}"
            ) from error
        except RuntimeError:
            raise self._failed() from None

    def close(self) -> None:
        """End the capture and complete the file.

        Raises:
            SimulationError: it could not be written.
        """
        if self._number is not None:
            number, self._number = self._number, None
            if not self._native.stop_capture(number):
                raise self._failed()

    def _failed(self) -> SimulationError:
        return SimulationError(
            f"the packet trace {self._path} cannot be written; is its folder there, and the disk "
            "not full?"
        )
