"""The simulation that users hold: the product's own nodes and programs in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.cluster.control.group_plans import GroupPlans
from innet.cluster.emulation.segmentation import block_segment_bytes, segment_bytes
from innet.collectives import Communicator
from innet.collectives.group import Variants
from innet.collectives.objects import PACKET_OVERHEAD_BYTES
from innet.collectives.timeouts import timeout_or
from innet.errors import SimulationError
from innet.lab.simulation.background import BackgroundTraffic, Distribution
from innet.lab.simulation.capture import Capture
from innet.lab.simulation.event_loop import VirtualTimeLoop
from innet.lab.simulation.host import SimulatedHost
from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.loop_background import LoopBackground
from innet.lab.simulation.network import SimulatedNetwork
from innet.lab.simulation.placements import SimulatedPlacements
from innet.lab.simulation.recovery import Recovery
from innet.lab.simulation.streams import Stream, Streams
from innet.node.control.survivors import Survivors
from innet.node.node_config import Mode
from innet.plans import PlanChooser
from innet.settings import Settings
from innet.topology import Link, Overrides, Topology
from innet.topology.model import MAX_MTU_BYTES
from innet.topology.routes import ends_of
from innet.worker.membership import Membership

T = TypeVar("T")

_THIN_ALIGNMENT_BYTES = 16
"""The size of the largest element: segments of thin arrays hold whole ones, too."""

_SLICE_PACKETS = 20_000
"""Delivered between two looks at what else there is to do, such as Ctrl-C."""

_JOB_PREFIX = "/j1"


class Simulation:
    """A topology in virtual time, with programs on its hosts.

    The nodes, plans and collectives are those of a real run; the links are models, and computing
    takes no time but what a program sleeps. Nothing is random but what follows from ``seed``: the
    same program has the same results at the same times, always.

    Programs are coroutines. Operations are awaited (``await comm.iallreduce(x)``), never waited for
    by a blocking call, and time passes by ``await asyncio.sleep(seconds)``. Groups come about, and
    rules are installed, in no time.

    Example::

        import asyncio, innet, numpy as np

        async def step(comm):
            gradient = np.ones(1 << 20, np.float32)
            await asyncio.sleep(0.030)                        # the backward pass
            await comm.iallreduce(gradient, out=gradient)

        with innet.Simulation(innet.load_topology("fat-tree:4"), seed=7) as sim:
            sim.run(*(step(comm) for comm in sim.group(algorithm="inc")))
            print(sim.now_s)

    Attributes:
        topology: the network.
        settings: of its nodes.
        virtual_scale: how many bytes each byte of an array stands for.
        observer: called now and then while time passes; what it raises ends :meth:`run`.
        packet_bytes: the most that a packet of a pool's block has, or stands for.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        settings: Settings | None = None,
        seed: int = 1,
        virtual_scale: int = 1,
        audit_interval: int = 0,
        like: Mode = "local",
        jobs: Sequence[SimulatedJob] = (),
    ) -> None:
        """
        Args:
            topology: the network.
            settings: of the nodes; the defaults are those of a real run.
            seed: of everything random: losses, jitter, nonces, keys.
            virtual_scale: each byte of an array stands for so many on the links, in queues, caches
                and counters, so that large tensors on many hosts need little memory and time.
                :meth:`array` makes such arrays; sizes given to communicators are theirs.
            audit_interval: for tests of the engine: every so many events, a node's tables are
                checked against each other. 0: never.
            like: whose links are modelled: ``local``, the emulator's own, or ``netns``, the
                kernel's token buckets with their bursts and without marks.
            jobs: that share the network. Groups are of hosts of one job, or of none; hosts of none
                cannot offer objects, for want of keys of their own.

        Raises:
            EmulationError: a link's MTU leaves no room for a segment.
            SimulationError: ``virtual_scale`` is not at least 1, or leaves nothing of a segment; a
                job's hosts are not there, or in another.
        """
        self.topology = topology
        self.settings = settings or Settings()
        self.observer: Callable[[], None] | None = None
        self.virtual_scale = virtual_scale
        self._segment_bytes = _thin_segment_bytes(topology, virtual_scale)
        # What is not in memory fills packets with segments of any kind.
        in_block = self._segment_bytes if virtual_scale > 1 else block_segment_bytes(topology)
        self.packet_bytes = virtual_scale * in_block + PACKET_OVERHEAD_BYTES
        self.network = SimulatedNetwork(
            topology, self.settings, seed, like, virtual_scale=virtual_scale, jobs=jobs
        )
        self._background_error: Exception | None = None
        self.network.native.set_audit_interval(audit_interval)
        self._streams = Streams(self.network)
        self._background: list[asyncio.Task[None]] = []
        self._captures: list[Capture] = []
        self._plans = GroupPlans(topology)
        self._hosts = {name: self._make_host(name) for name in topology.hosts}
        self._by_index = {self.network.nodes[h.name].index: h for h in self._hosts.values()}
        self._placements = SimulatedPlacements(self.network)
        self._recovery = Recovery(
            self.settings.recovery,
            lambda after_s, action: self.at(self.now_s + after_s, action),
            lambda change: self._adapt(change(self._placements.survivors)),
        )
        self._on_restart: list[Callable[[str], None]] = []
        self._left: dict[tuple[str, int], list[Membership]] = {}
        self._runner = asyncio.Runner(loop_factory=self._make_loop)

    @property
    def now_s(self) -> float:
        """Seconds of virtual time since the simulation began."""
        return self.network.now_s

    @property
    def segment_bytes(self) -> int:
        """Bytes of an array in a full segment; each stands for ``virtual_scale`` on the links."""
        return self._segment_bytes

    def group(
        self,
        hosts: Sequence[str] | None = None,
        *,
        algorithm: str = "auto",
        name: str = "g0",
        timeout_s: float | None = None,
    ) -> list[Communicator]:
        """Make a group of ``hosts``, and give the communicator of each of its ranks.

        Args:
            hosts: the host of each rank; by default all of the topology, in the order of its ranks.
            algorithm: as :func:`innet.init` takes it.
            name: of the group; groups with a host in common need different ones.
            timeout_s: deadline of operations, by default the setting ``collectives.timeout_s``.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            SimulationError: there is no such host, it has crashed, is in a group of that name, or
                of another job than the others.
        """
        members = tuple(self.topology.hosts if hosts is None else hosts)
        for host in members:
            self._require_free(host, name)
        number, made = self._plans.make(self._prefix_of(members), name, algorithm, members)
        plans = self._placements.add(made)
        grows = timeout_s is None and self.settings.collectives.timeout_s is None
        timeout_s = timeout_or(timeout_s, self.settings.collectives.usual_timeout_s)
        positions = next(iter(plans.values())).ranks
        chooser = (
            PlanChooser(self.topology, positions, virtual_scale=self.virtual_scale)
            if algorithm == "auto"
            else None
        )
        communicators = []
        for rank, host in enumerate(members):
            membership = Membership(name, number, members, rank, plans)
            self._hosts[host].join(membership)
            variants = Variants(membership, chooser)
            made_here = Communicator(self._hosts[host], membership, variants, timeout_s)
            if grows:
                made_here.allow_time_for_bytes(self.topology.slowest_link_bps / self.virtual_scale)
            communicators.append(made_here)
        return communicators

    def host(self, name: str) -> SimulatedHost:
        """What programs on a host have of it.

        Raises:
            SimulationError: there is no such host.
        """
        self._require_host(name)
        return self._hosts[name]

    def array(self, size_bytes: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Zeros that stand for ``size_bytes`` on the network: ``virtual_scale`` times fewer.

        Example::

            with innet.Simulation(topology, virtual_scale=1000) as sim:
                gradient = sim.array(100_000_000)      # holds 100 kB
        """
        element = np.dtype(dtype)
        return np.zeros(-(-size_bytes // (self.virtual_scale * element.itemsize)), element)

    def stream(self, a: str, b: str, *, congestion: str = "cubic") -> Stream:
        """A TCP connection from host ``a`` to host ``b`` that carries lengths.

        It shares the links with everything else. ``congestion``: ``cubic`` or ``reno``.

        Raises:
            SimulationError: no such hosts, or they are the same.

        Example::

            flow = sim.stream("h0", "h5")
            await flow.send(1_000_000)        # until the last byte has arrived
        """
        return self._streams.open(a, b, congestion)

    def background(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        *,
        rate_bps: float,
        flow_bytes: float = 1e6,
        distribution: Distribution = "exponential",
        congestion: str = "cubic",
        at_s: float = 0.0,
        until_s: float = math.inf,
    ) -> BackgroundTraffic:
        """TCP flows from ``a`` to ``b`` of random sizes at random times.

        Args:
            a: the sending host, or several, of which one is drawn for each flow.
            b: the receiving host, or several.
            rate_bps: offered on the average, by all flows together.
            flow_bytes: mean size of a flow.
            distribution: of the sizes: ``constant``, ``exponential``, or ``pareto`` (shape 1.5).
            congestion: ``cubic`` or ``reno``.
            at_s: virtual time from which flows begin; by default now.
            until_s: virtual time from which none begins any more.

        Raises:
            SimulationError: no such hosts, an unknown distribution, or a number is not above 0.
        """
        traffic = BackgroundTraffic(
            self._streams,
            (a,) if isinstance(a, str) else a,
            (b,) if isinstance(b, str) else b,
            rate_bps=rate_bps,
            flow_bytes=flow_bytes,
            distribution=distribution,
            seed=self.network.number("background", len(self._background)),
            congestion=congestion,
        )
        offering = self._runner.get_loop().create_task(traffic.run(at_s, until_s))
        self._background.append(offering)
        return traffic

    def tcp_retransmissions(self) -> int:
        """Segments of all streams so far that were sent again."""
        return self._streams.retransmissions()

    def run(self, *programs: Coroutine[Any, Any, T]) -> list[T]:
        """Run coroutines until all have ended, each with its result.

        The first one that raises ends the others, and its error is raised here.

        Raises:
            SimulationError: nothing is left to happen, and some program still waits.
        """

        async def together() -> list[T]:
            tasks = [asyncio.ensure_future(program) for program in programs]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

        return self._runner.run(together())

    def at(self, time_s: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call ``action`` when time reaches ``time_s``: ``sim.at(0.5, sim.crash, "s0")``."""
        self._runner.get_loop().call_at(time_s, action, *arguments)

    def capture(self, path: str | Path, links: Iterable[tuple[str, str]] | None = None) -> Capture:
        """Write the packets that cross ``links`` from now on into a pcapng file.

        Args:
            path: of the file, which is replaced.
            links: pairs of neighbours, by default all of the topology's; both directions count.

        Raises:
            SimulationError: there is no such link, or the file cannot be written.

        Example::

            sim.capture("trace.pcapng", links=[("h0", "s0")])     # until the simulation's end
        """
        capture = Capture(self.network, path, links)
        self._captures.append(capture)
        return capture

    def counters(self) -> dict[str, int]:
        """How much has happened: packets delivered, instants, and the digest of them all."""
        return self.network.native.counters()

    def close(self) -> None:
        """End what still runs, and complete the packet traces."""
        self._runner.close()
        for capture in self._captures:
            capture.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What can happen to the network.

    def crash(self, node: str) -> None:
        """A node loses all that it has, and is gone until :meth:`restart`."""
        if node in self._hosts:
            self._hosts[node].die()
        self.network.crash(node)
        if node not in self._hosts:
            self._recovery.on_crash(node)
        self._deliver_ended()

    def restart(self, node: str) -> None:
        """A crashed node comes back empty; its rules are installed again.

        Raises:
            SimulationError: it has not crashed.
        """
        self.network.restart(node)
        self._placements.restore(node)
        if node not in self._hosts:
            self._recovery.on_restart(node)
        for restarted in self._on_restart:
            restarted(node)

    def on_restart(self, restarted: Callable[[str], None]) -> None:
        """Call ``restarted(node)`` whenever a node has come back from a crash, empty."""
        self._on_restart.append(restarted)

    def fail_worker(self, host: str, why: str = "is gone") -> None:
        """The groups of a host hear that its process is gone, as a run's controller tells them.

        What they have under way ends with a :class:`~innet.errors.RankFailed` on every rank, and so
        does what they call from now on; the others go on in a :meth:`group` of their own. A crash
        alone is noticed by those who wait for the host, when their deadlines pass.

        Raises:
            SimulationError: there is no such host.

        Example::

            sim.at(0.2, sim.crash, "h3")
            sim.at(1.2, sim.fail_worker, "h3", "was killed by signal 9 (SIGKILL)")
        """
        self._require_host(host)
        for failed in list(self._hosts[host].groups.values()):
            told = f"rank {failed.rank} ({host}) {why}"
            for node in failed.nodes:
                member = self._hosts[node].groups.get(failed.name)
                if member is not None and member.number == failed.number:
                    self._hosts[node].fail(member, told, failed.rank)

    def pause(self, node: str) -> None:
        """A node stands still, as a stopped process does; what arrives for it waits in buffers.

        Programs are not part of the node: one on a paused host goes on until it needs the node's
        answer.
        """
        self.network.pause(node)
        if node not in self._hosts:
            self._recovery.on_silence(node)

    def resume(self, node: str) -> None:
        """A paused node goes on; nothing happens to one that is not paused."""
        self.network.resume(node)
        if node not in self._hosts:
            self._recovery.on_sound(node)

    def advance_clock(self, node: str, by_s: float) -> None:
        """A node's clock jumps ahead by ``by_s`` seconds, as after a machine's sleep.

        Raises:
            SimulationError: ``by_s`` is negative.
        """
        self.network.advance_clock(node, by_s)

    def set_link_up(self, a: str, b: str, up: bool) -> None:
        """The link between two neighbours goes down, or comes up with empty queues: both ways.

        A link that goes down loses what is on it, and all that it is given until it is up again.

        Raises:
            SimulationError: there is no link between them.

        Example::

            sim.at(0.2, sim.set_link_up, "h3", "s0", False)
            sim.at(0.5, sim.set_link_up, "h3", "s0", True)
        """
        for source, to in ((a, b), (b, a)):
            self.network.set_link_up(source, to, up)
        if up:
            self._recovery.on_sound(ends_of(a, b))
        else:
            self._recovery.on_silence(ends_of(a, b))

    def change_link(self, a: str, b: str, **settings: Unpack[Overrides]) -> None:
        """From now on the link between two neighbours has other properties, both ways.

        What is queued keeps its schedule. Settings that are not named stay as they are.

        Args:
            a, b: the neighbours.
            settings: fields of :class:`innet.topology.Link`, such as ``rate_bps`` and ``loss``.

        Raises:
            SimulationError: there is no link between them.
            TopologyError: a value is out of range.

        Example::

            sim.at(0.2, lambda: sim.change_link("h3", "s0", rate_bps=10e6, loss=0.05))
        """
        for source, to in ((a, b), (b, a)):
            fields: dict[str, Any] = {**dict(self.network.link(source, to)), **settings}
            self.network.change_link(source, to, Link(**fields))

    def reset_link(self, a: str, b: str) -> None:
        """From now on the link between two neighbours is as the topology has it, both ways.

        Raises:
            SimulationError: there is no link between them.
        """
        for source, to in ((a, b), (b, a)):
            self.network.change_link(source, to, self.topology.link_between(a, b))

    # How it runs.

    def _make_host(self, name: str) -> SimulatedHost:
        key = self.network.keys.objects(name)
        return SimulatedHost(
            name,
            self.network.nodes[name],
            key,
            self.settings,
            self._segment_bytes,
            self._leave,
            lambda: self.now_s,
            lambda: self._settle(name),
            lambda: LoopBackground(self._runner.get_loop(), self._on_background_error),
        )

    def _make_loop(self) -> VirtualTimeLoop:
        return VirtualTimeLoop(lambda: self.now_s, self._advance)

    def _prefix_of(self, hosts: Sequence[str]) -> str:
        """What the names of a group of ``hosts`` begin with."""
        jobs = {self.network.keys.job_of(host) for host in hosts}
        if len(jobs) > 1:
            names = ", ".join(sorted("none" if job is None else job.name for job in jobs))
            raise SimulationError(
                f"a group's hosts belong to one job; {', '.join(hosts)} are of: {names}"
            )
        job = jobs.pop() if jobs else None
        return _JOB_PREFIX if job is None else job.prefix

    def _require_host(self, host: str) -> None:
        if host not in self._hosts:
            raise SimulationError(
                f"{host!r} is no host of {self.topology.name}; "
                f"its hosts: {', '.join(self.topology.hosts)}"
            )

    def _require_free(self, host: str, group: str) -> None:
        self._require_host(host)
        if not self.network.is_alive(host):
            raise SimulationError(
                f"{host} has crashed, and can be in no new group; make it of the others, or "
                f"start it again: sim.restart({host!r})"
            )
        if group in self._hosts[host].groups:
            raise SimulationError(
                f"{host} is in group {group!r} already; give this one another name"
            )

    def _adapt(self, survivors: Survivors) -> None:
        """The network is known to have changed: sums move, and who is cut off for good hears so."""
        moved = self._placements.adapt(survivors)
        whys: dict[tuple[str, int], str | None] = {}
        for host in self._hosts.values():
            host.place(moved)
            for member in list(host.groups.values()):
                group = member.name, member.number
                if group not in whys:
                    whys[group] = survivors.separation(member.nodes)
                if (why := whys[group]) and member.failure is None:
                    host.fail(member, why, None)
        self._deliver_ended()

    def _leave(self, membership: Membership) -> None:
        left = self._left.setdefault((membership.name, membership.number), [])
        left.append(membership)
        if len(left) == membership.size:
            del self._left[membership.name, membership.number]
            for prefix in membership.plans:
                self._placements.remove(prefix)
            for member in left:
                self._hosts[member.nodes[member.rank]].forget(member)

    def _settle(self, host: str) -> None:
        self.network.native.collect(self.network.nodes[host].index)
        self._deliver_ended()

    def _on_background_error(self, error: Exception) -> None:
        self._background_error = self._background_error or error

    def _advance(self, limit_s: float | None) -> None:
        if self._background_error is not None:
            raise self._background_error
        if self.observer is not None:
            self.observer()
        native = self.network.native
        until_ns = None if limit_s is None else native.now_ns + math.ceil(limit_s * 1e9)
        stop = native.run(until_ns, _SLICE_PACKETS)
        if stop == _core.STOP_ENDED:
            self._deliver_ended()
        elif stop == _core.STOP_UNSOUND:
            raise SimulationError(
                f"the tables of a node disagree: {native.complaint}. "
                "This is a defect of innet; please report it with the topology and the program"
            )
        elif stop == _core.STOP_STUCK:
            raise SimulationError(
                f"time stands still at {self.now_s:.9f} s: some node is always due at once. "
                "This is a defect of innet; please report it with the topology and the program"
            )
        elif stop == _core.STOP_TIME and limit_s is None:
            raise SimulationError(
                f"nothing is left to happen at {self.now_s:.6f} s, and programs still wait: "
                "for something that none of them does?"
            )

    def _deliver_ended(self) -> None:
        for node, operation, status, detail in self.network.native.take_ended():
            self._by_index[node].collector.on_ended(operation, status, detail)
        self._streams.deliver()


def largest_virtual_scale(topology: Topology) -> int:
    """The most bytes that each byte of an array can stand for: something of a segment is left."""
    return segment_bytes(topology, MAX_MTU_BYTES) // _THIN_ALIGNMENT_BYTES


def _thin_segment_bytes(topology: Topology, virtual_scale: int) -> int:
    """Bytes of an array in a full segment, each of which stands for ``virtual_scale``."""
    if virtual_scale == 1:
        return segment_bytes(topology)
    if virtual_scale < 1:
        raise SimulationError(f"virtual_scale is {virtual_scale}; it must be a whole number from 1")
    # What is not in memory may be as large as the links allow.
    room_bytes = segment_bytes(topology, MAX_MTU_BYTES) // virtual_scale
    aligned = room_bytes // _THIN_ALIGNMENT_BYTES * _THIN_ALIGNMENT_BYTES
    if aligned == 0:
        raise SimulationError(
            f"virtual_scale={virtual_scale} leaves less than {_THIN_ALIGNMENT_BYTES} bytes of a "
            f"segment; with this topology's MTU it can be {largest_virtual_scale(topology)} at most"
        )
    return aligned
