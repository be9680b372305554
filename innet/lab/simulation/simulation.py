"""A simulated network: innet's nodes and programs in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from innet.collectives import Communicator
from innet.collectives.group import Variants
from innet.collectives.runner import OperationRunner
from innet.collectives.work import timeout_or
from innet.lab.simulation.control import SimulatedControl
from innet.lab.simulation.event_loop import VirtualTime
from innet.lab.simulation.host import SimulatedHost
from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.network import Capture, SimulatedNetwork, with_timed_links
from innet.lab.simulation.streams import BackgroundTraffic, FlowOptions, Stream
from innet.lab.workload.document import FlowDistribution
from innet.node.node_config import Mode
from innet.plans import PlanChooser
from innet.settings import Settings
from innet.topology import Link, Overrides, Topology
from innet.topology.routes import ends_of

T = TypeVar("T")


class Simulation:
    """A topology in virtual time, with programs on its hosts.

    The nodes, plans and collectives are those of a real run; the links are models. Computing takes
    no virtual time: a program sleeps instead. All random numbers follow from ``seed``, so that the
    same program always has the same results at the same times.

    Programs are coroutines. They await operations (``await comm.iallreduce(x)``), call no blocking
    operation, and let time pass by ``await asyncio.sleep(seconds)``. Making groups and installing
    rules take no virtual time.

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
        virtual_scale: bytes for which each byte of an array stands.
        network: its nodes and links.
        time: the virtual time, which passes while programs wait.
        control: the controller.
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
        measures_load: bool = False,
    ) -> None:
        """
        Args:
            topology: the network. A link with neither rate nor delay gets 10 Gbit/s and 1 µs.
            settings: of the nodes; the defaults are those of a real run.
            seed: of all random numbers: losses, jitter, nonces, keys.
            virtual_scale: bytes for which each byte of an array stands on links, in queues, caches
                and counters, so that large tensors on many hosts need little memory and time.
                :meth:`array` makes such arrays; communicators take their sizes.
            audit_interval: for tests of the engine: events between two checks of a node's tables
                against each other. 0: never.
            like: the modelled links: ``local``, the emulator's, or ``netns``, the kernel's token
                buckets with their bursts and without marks.
            jobs: that share the network. A group's hosts belong to one job, or to none. Hosts of no
                job cannot publish objects, because they have no keys of their own.
            measures_load: whether the controller measures the links, places sums by that, and moves
                them away from links that other traffic fills (the settings ``placement``). Without
                it, simulated time passes for programs alone, and a program that waits for ever is
                an error at once.

        Raises:
            EmulationError: a link's MTU leaves no room for a segment.
            SimulationError: ``virtual_scale`` is below 1, or leaves no room for a segment; a job's
                host does not exist, or belongs to another job.
        """
        self.topology = topology = with_timed_links(topology)
        self.settings = settings or Settings()
        self.virtual_scale = virtual_scale
        self.network = SimulatedNetwork(
            topology, self.settings, seed, like, virtual_scale=virtual_scale, jobs=jobs
        )
        self.network.native.set_audit_interval(audit_interval)
        self.time = VirtualTime(self.network)
        self.control = SimulatedControl(self.network, self.time, jobs, measures_load)
        self._hosts = self.control.hosts
        for name in topology.hosts:
            self._hosts[name] = SimulatedHost(name, self.network, self.time, self.control)
        self._background: list[asyncio.Task[None]] = []
        self._captures: list[Capture] = []
        self._on_restart: list[Callable[[str], None]] = []

    @property
    def now_s(self) -> float:
        """Seconds of virtual time since the simulation began."""
        return self.network.now_s

    @property
    def observer(self) -> Callable[[], None] | None:
        """Called while time passes; an exception of it ends :meth:`run`."""
        return self.time.observer

    @observer.setter
    def observer(self, observer: Callable[[], None] | None) -> None:
        self.time.observer = observer

    @property
    def packet_bytes(self) -> int:
        """Maximum size of a packet of a pool's block, or the size for which it stands."""
        return self.network.packet_bytes

    @property
    def segment_bytes(self) -> int:
        """Bytes of an array in a full segment; each stands for ``virtual_scale`` on the links."""
        return self.network.segment_bytes

    def group(
        self,
        hosts: Sequence[str] | None = None,
        *,
        algorithm: str = "auto",
        name: str = "g0",
        timeout_s: float | None = None,
    ) -> list[Communicator]:
        """Make a group of ``hosts``; returns the communicator of each rank.

        Args:
            hosts: the host of each rank; by default all of the topology, in the order of its ranks.
            algorithm: as :func:`innet.init` takes it.
            name: of the group; groups with a host in common need different ones.
            timeout_s: deadline of operations, by default the setting ``collectives.timeout_s``.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            SimulationError: a host does not exist, has crashed, is in a group of that name, or
                belongs to another job than the others.
        """
        members = self.topology.ranks_on(self.topology.hosts if hosts is None else hosts)
        memberships = self.control.join(name, algorithm, members)
        grows = timeout_s is None and self.settings.collectives.timeout_s is None
        timeout_s = timeout_or(timeout_s, self.settings.collectives.usual_timeout_s)
        chooser = (
            PlanChooser(
                self.topology,
                memberships[0].positions,
                virtual_scale=self.virtual_scale,
                load=memberships[0].load,
            )
            if algorithm == "auto"
            else None
        )
        rate_bps = self.topology.slowest_link_bps / self.virtual_scale
        communicators = []
        for membership in memberships:
            host = self._hosts[membership.nodes[membership.rank]]
            runner = OperationRunner(host, membership, Variants(membership, chooser), timeout_s)
            if grows:
                runner.allow_time_for_bytes(rate_bps)
            communicators.append(Communicator(runner))
        return communicators

    def host(self, name: str) -> SimulatedHost:
        """The interface of a host to the programs on it.

        Raises:
            SimulationError: there is no such host.
        """
        self.control.require_host(name)
        return self._hosts[name]

    def array(self, size_bytes: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Zeros that stand for ``size_bytes`` on the network and take ``virtual_scale`` times less.

        Example::

            with innet.Simulation(topology, virtual_scale=1000) as sim:
                gradient = sim.array(100_000_000)      # holds 100 kB
        """
        element = np.dtype(dtype)
        return np.zeros(-(-size_bytes // (self.virtual_scale * element.itemsize)), element)

    def stream(self, a: str, b: str, *, congestion: str = "cubic") -> Stream:
        """A TCP connection from host ``a`` to host ``b`` that carries lengths.

        It shares the links with all other traffic. ``congestion``: ``cubic`` or ``reno``.

        Raises:
            SimulationError: no such hosts, or they are the same.

        Example::

            flow = sim.stream("h0", "h5")
            await flow.send(1_000_000)        # until the last byte has arrived
        """
        return self.time.streams.open(a, b, congestion)

    def background(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        *,
        rate_bps: float,
        flow_bytes: float = 1e6,
        distribution: FlowDistribution = "exponential",
        congestion: str = "cubic",
        at_s: float = 0.0,
        until_s: float = math.inf,
    ) -> BackgroundTraffic:
        """TCP flows from ``a`` to ``b`` of random sizes at random times.

        Args:
            a: the sending host, or several, of which one is drawn for each flow.
            b: the receiving host, or several.
            rate_bps: mean rate offered by all flows together.
            flow_bytes: mean size of a flow.
            distribution: of the sizes: ``constant``, ``exponential``, or ``pareto`` (shape 1.5).
            congestion: ``cubic`` or ``reno``.
            at_s: virtual time of the first flow; by default now.
            until_s: virtual time after which no flow begins.

        Raises:
            SimulationError: no such hosts, an unknown distribution, or a number below or equal 0.
        """
        traffic = BackgroundTraffic(
            self.time.streams,
            (a,) if isinstance(a, str) else a,
            (b,) if isinstance(b, str) else b,
            FlowOptions(rate_bps, flow_bytes, distribution, congestion),
            seed=self.network.number("background", len(self._background)),
        )
        offering = self.time.loop.create_task(traffic.run(at_s, until_s))
        self._background.append(offering)
        return traffic

    def tcp_retransmissions(self) -> int:
        """Retransmitted segments of all streams."""
        return self.time.streams.retransmissions()

    def run(self, *programs: Coroutine[Any, Any, T]) -> list[T]:
        """Run coroutines until all have ended; returns their results.

        The first exception cancels the other coroutines, and is raised here.

        Raises:
            SimulationError: no event is left, but some program still waits.
        """
        return self.time.run(programs)

    def at(self, time_s: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call ``action`` when time reaches ``time_s``: ``sim.at(0.5, sim.crash, "s0")``."""
        self.time.at(time_s, action, *arguments)

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
        """Delivered packets, instants, and a digest of all of them."""
        return self.network.native.counters()

    def close(self) -> None:
        """Cancel running programs, and complete the packet traces."""
        self.time.close()
        for capture in self._captures:
            capture.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Events.

    def crash(self, node: str) -> None:
        """Crash a node: it loses its state, and packets to it are lost until :meth:`restart`."""
        self.control.crash(node)

    def restart(self, node: str) -> None:
        """Restart a crashed node with empty tables, and install its rules again.

        Raises:
            SimulationError: it has not crashed.
        """
        self.control.restart(node)
        for restarted in self._on_restart:
            restarted(node)

    def on_restart(self, restarted: Callable[[str], None]) -> None:
        """Call ``restarted(node)`` after each restart of a crashed node."""
        self._on_restart.append(restarted)

    def fail_worker(self, host: str, why: str = "is gone") -> None:
        """Report to the groups of a host that its process has ended, as a run's controller does.

        Operations of these groups fail with :class:`~innet.errors.RankFailed` on every rank, now
        and later; the other hosts can continue in a :meth:`group` of their own. A crash alone is
        noticed by ranks that wait for the host, at their deadlines.

        Raises:
            SimulationError: there is no such host.

        Example::

            sim.at(0.2, sim.crash, "h3")
            sim.at(1.2, sim.fail_worker, "h3", "was killed by signal 9 (SIGKILL)")
        """
        self.control.require_host(host)
        self.control.fail(host, why)

    def pause(self, node: str) -> None:
        """Pause a node, as a stopped process; packets to it wait in its receive buffers.

        Programs are not part of the node: a program on a paused host runs until it needs the node.
        """
        self.network.pause(node)
        self.control.on_silence(node)

    def resume(self, node: str) -> None:
        """Resume a paused node; no effect on other nodes."""
        self.network.resume(node)
        self.control.on_sound(node)

    def advance_clock(self, node: str, by_s: float) -> None:
        """Advance a node's clock by ``by_s`` seconds, as after a suspended machine.

        Raises:
            SimulationError: ``by_s`` is negative.
        """
        self.network.advance_clock(node, by_s)

    def set_link_up(self, a: str, b: str, up: bool) -> None:
        """Take the link between two neighbours down, or up with empty queues, in both directions.

        A link that is down loses the packets on it, and all packets until it is up again.

        Raises:
            SimulationError: there is no link between them.

        Example::

            sim.at(0.2, sim.set_link_up, "h3", "s0", False)
            sim.at(0.5, sim.set_link_up, "h3", "s0", True)
        """
        for source, to in ((a, b), (b, a)):
            self.network.set_link_up(source, to, up)
        if up:
            self.control.on_sound(ends_of(a, b))
        else:
            self.control.on_silence(ends_of(a, b))

    def change_link(self, a: str, b: str, **settings: Unpack[Overrides]) -> None:
        """Change properties of the link between two neighbours, in both directions.

        Queued packets keep their schedule. Settings that are not named do not change.

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
        """Restore the topology's properties of the link between two neighbours, in both directions.

        Raises:
            SimulationError: there is no link between them.
        """
        for source, to in ((a, b), (b, a)):
            self.network.change_link(source, to, self.topology.link_between(a, b))
