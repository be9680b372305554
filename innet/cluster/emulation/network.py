"""One launched network: ``async with Network(topology) as network``."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, get_args

from innet.cluster.emulation.kernel_network import KernelCounters, LinkDirection
from innet.cluster.emulation.local_fabric import Fabric, LocalFabric, free_port
from innet.cluster.emulation.namespace_fabric import NamespaceFabric
from innet.cluster.emulation.processes import (
    ProcessGroup,
    ProcessSpec,
    SupervisedProcess,
)
from innet.cluster.emulation.recorded_parts import RecordedEnd, RecordedMachine
from innet.cluster.emulation.run_directory import RunDirectory
from innet.cluster.emulation.runs import (
    LASTING_NAMES,
    ProcessIdentity,
    RecordedProcess,
    RunRecord,
    control_socket_name,
    create_run,
    ndn_socket_name,
    new_run_id,
    remove_run,
    remove_stale_runs,
    writing_into,
)
from innet.cluster.emulation.segmentation import bulk_segment_bytes
from innet.cluster.emulation.termination import TerminationSignals
from innet.errors import EmulationError
from innet.node.link_descriptors import LINKS_SOCKET_NAME, LinkDescriptorServer
from innet.node.node_config import (
    NODE_CONFIG_VARIABLE,
    NODE_VARIABLE,
    LinkShape,
    Mode,
    NodeConfig,
    RouteConfig,
)
from innet.node.routing import NextHops, next_hops
from innet.private_files import write_private
from innet.telemetry.logs.output import ConsoleOutput, OutputSink
from innet.topology import Link, Topology, dump_yaml
from innet.topology.credit import queue_credit_bytes, receive_credit_bytes, receive_rate_bps
from innet.topology.model import LAUNCHER_MACHINE
from innet.topology.summary import impairments

HOST_CACHE_POLICY = "s3fifo"

_log = logging.getLogger(__name__)

_MAX_SOCKET_PATH_BYTES = 107  # sockaddr_un holds 108 with the terminating zero


@dataclass(frozen=True)
class MachinePart:
    """The part of a network on one machine, in ``cluster`` mode.

    Attributes:
        record: of the machine's own run directory.
        fabric: the links of its nodes, which the network closes.
        nodes: that are on the machine.
    """

    record: RunRecord
    fabric: Fabric
    nodes: tuple[str, ...]


class Network:
    """The links, namespaces, node configurations and processes of one run.

    Everything is removed when the context ends: normally, by an exception, by Ctrl-C or SIGTERM.
    After ``kill -9`` of this process its children die as well, and the kernel removes the network.
    The run's directory stays until ``innet down`` or the next launch.

    Example::

        async with Network(topology, mode="netns") as network:
            for switch in topology.switches:
                network.spawn(switch, [sys.executable, "-P", "-m", "innet.node",
                                       str(network.config_path(switch))])
            worker = network.spawn("h0", [sys.executable, "train.py"])
            if await worker.wait() != 0:
                print(worker.failure_report())
    """

    def __init__(
        self,
        topology: Topology,
        mode: Mode = "local",
        run_id: str | None = None,
        *,
        seed: int = 1,
        shared_memory: bool = True,
        output: OutputSink | None = None,
        part: MachinePart | None = None,
    ) -> None:
        """Nothing happens before the context is entered.

        Args:
            seed: each node's own seed is derived from it.
            shared_memory: ``local`` mode only; ``False``: packets go through Unix sockets.
            output: takes each line that a process prints; ``None`` prints them to the console.
            part: of a network in ``cluster`` mode, what is on this machine.
        """
        if mode not in get_args(Mode):
            raise EmulationError(
                f"a network cannot be launched in mode {mode!r}. Choose local or netns."
            )
        if mode == "netns":
            _require_links_of_kernel(topology)
        self._topology = topology
        self._mode: Mode = mode
        self._bulk_segment_bytes = 0
        self._run_id = run_id or new_run_id(topology.name)
        self._seed = seed
        self._shared_memory = shared_memory
        self._part = part
        self._configs: dict[str, NodeConfig] = {}
        self._record: RunRecord | None = None if part is None else part.record
        self._fabric: Fabric | None = None
        self._link_descriptors: LinkDescriptorServer | None = None
        # The run's own name is in its record: that of a machine's part is another one.
        group = self._run_id if part is None else part.record.run_id
        self._processes = ProcessGroup(group, output or ConsoleOutput(), self._register)
        self._processes.on_exit(self._record_exit)
        self._machine_callbacks: list[Callable[[], object]] = []
        self._hurry_callbacks: list[Callable[[], object]] = []
        self._directory: RunDirectory | None = None
        self._lost: asyncio.Future[str] | None = None
        self._has_succeeded = False
        self._signals = TerminationSignals(self._hurry, self._processes.begin_termination)

    @property
    def topology(self) -> Topology:
        """The topology that is launched."""
        return self._topology

    @property
    def mode(self) -> Mode:
        """How the links are realised."""
        return self._mode

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self._run_id

    @property
    def run_dir(self) -> Path:
        """The directory of the run's sockets and configurations."""
        return self._entered_record().run_dir

    @property
    def settings_path(self) -> Path:
        """The file with the settings of all processes of the run."""
        return self._entered_record().settings_path

    @property
    def processes(self) -> ProcessGroup:
        """The processes on the nodes; register with :meth:`ProcessGroup.on_exit` to watch them."""
        return self._processes

    async def until_lost(self) -> str:
        """Wait until the run's directory or a file of it is removed; a sentence that names it."""
        assert self._lost is not None, "the network is up"
        return await asyncio.shield(self._lost)

    def _on_directory_lost(self, why: str) -> None:
        assert self._lost is not None
        self._save(self._entered_record())  # the registry finds the run by this file
        self._lost.set_result(
            f"{why}, for example by a program that cleans up temporary files. Running jobs go on; "
            "nothing new can start on this network or reach it"
        )

    def on_hurry(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when a second signal asks to end at once, without waiting."""
        self._hurry_callbacks.append(callback)

    def _hurry(self) -> None:
        self._processes.kill()
        for callback in self._hurry_callbacks:
            callback()

    def processors(self, node: str) -> tuple[str, int]:
        """The machine that a node is on, and how many processors it has."""
        return LAUNCHER_MACHINE, len(os.sched_getaffinity(0))

    @property
    def placed_elsewhere(self) -> dict[str, str]:
        """The machine of each node that is on another one than the launcher's."""
        return {}

    @property
    def own_machine(self) -> str | None:
        """The launcher's machine, if the nodes are on several; ``None``: there is only one."""
        return None

    async def free_port(self, node: str) -> int:
        """A TCP port of the node's machine that no socket has at this moment."""
        return free_port()

    async def placed(
        self, node: str, environment: Mapping[str, str], files: Sequence[Path]
    ) -> dict[str, str]:
        """An environment for a process on a node, with the paths of its machine.

        ``files`` of the run's directory, and those that it names, are there afterwards.
        """
        return dict(environment)

    def is_reachable(self, node: str) -> bool:
        """Whether the machine of a node is there."""
        return True

    async def until_reachable(self, node: str) -> None:
        """Wait until the machine of a node is there."""

    def config(self, node: str) -> NodeConfig:
        """The configuration of a node."""
        if node not in self._configs:
            raise EmulationError(
                f"topology {self._topology.name} has no node {node!r}. "
                f"Its nodes: {', '.join(self._topology.nodes)}."
            )
        return self._configs[node]

    def config_path(self, node: str) -> Path:
        """The file with :meth:`config`."""
        return self.run_dir / f"{self.config(node).node}.json"

    def spawn(
        self, node: str, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> SupervisedProcess:
        """Start a program on a node, with the node's name as its label."""
        return self.start(node, ProcessSpec(label=node, argv=tuple(argv), environment=env))

    def start(
        self, node: str, spec: ProcessSpec, output: OutputSink | None = None
    ) -> SupervisedProcess:
        """Start a program on a node, in the node's namespace.

        It finds the node's name and configuration in the environment (``INNET_NODE``,
        ``INNET_NODE_CONFIG``) and inherits the descriptors of the node's links, if they are open
        already.

        Args:
            output: takes each line that the process prints, the network's own sink by default.
        """
        if self._lost is not None and self._lost.done():
            raise EmulationError(
                f"{spec.label} cannot start: {self._lost.result()}. Launch the network again"
            )
        fabric = self._entered_fabric()
        configured = {NODE_VARIABLE: node, NODE_CONFIG_VARIABLE: str(self.config_path(node))}
        placed = replace(
            spec,
            node=node,
            environment={**(spec.environment or {}), **configured},
            pass_fds=fabric.pass_fds(node),
            namespace=fabric.namespace(node),
        )
        return self._processes.spawn(placed, output)

    def keep_up(self) -> None:
        """Mark the run as one that stays until ``innet down`` takes it down."""
        record = self._entered_record()
        record.kept_up = True
        self._save(record)

    def record_ready(self) -> None:
        """Record that all machines have joined and all switches answer."""
        record = self._entered_record()
        record.ready_s = time.time()
        self._save(record)

    def record_end(
        self, process: SupervisedProcess, *, returns: bool = False, restarts: int = 0
    ) -> None:
        """Record the unexpected end of a process; see :class:`RecordedEnd`."""
        end = RecordedEnd(
            why=process.describe_end(), at_s=time.time(), returns=returns, restarts=restarts
        )
        record = self._entered_record()
        record.ends = {**record.ends, process.label: end}
        self._save(record)

    def record_return(self, label: str) -> None:
        """Record that the successor of a process that ended answers."""
        record = self._entered_record()
        if (end := record.ends.get(label)) is not None:
            back = end.model_copy(update={"back_s": time.time()})
            record.ends = {**record.ends, label: back}
            self._save(record)

    def _record_exit(self, process: SupervisedProcess) -> None:
        if process.returncode and not self._processes.terminating:
            self.record_end(process)

    def record_machine(self, name: str, machine: RecordedMachine) -> None:
        """Record the state of a machine of the run."""
        record = self._entered_record()
        record.machines = {**record.machines, name: machine}
        self._save(record)
        for callback in self._machine_callbacks:
            callback()

    @property
    def machines(self) -> Mapping[str, RecordedMachine]:
        """The machines of the run as they are recorded; none outside of ``cluster`` mode."""
        return self._entered_record().machines

    def on_machines_changed(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` whenever the state of a machine is recorded."""
        self._machine_callbacks.append(callback)

    def record_broker(self, url: str, port_url: str | None = None) -> None:
        """Record the run's MQTT broker and its port's URL, both without a password."""
        record = self._entered_record()
        record.broker = url
        record.broker_port = port_url
        self._save(record)

    def record_token_file(self, path: Path) -> None:
        """Record the token file of the run that its next launcher uses as well."""
        record = self._entered_record()
        record.token_file = path
        self._save(record)

    def record_grace(self, grace_s: float) -> None:
        """Record that workers have so long between SIGTERM and SIGKILL, or as long as others."""
        record = self._entered_record()
        if grace_s > record.stop_grace_s:
            record.stop_grace_s = grace_s
            self._save(record)

    def record_metrics(self, url: str) -> None:
        """Record where the run's metrics are served."""
        record = self._entered_record()
        record.metrics = url
        self._save(record)

    @property
    def metrics_url(self) -> str | None:
        """Where the run's metrics are served; ``None``: they are not."""
        return self._entered_record().metrics

    async def link_counters(
        self, nodes: Collection[str] | None = None
    ) -> dict[LinkDirection, KernelCounters]:
        """The kernel's counters of each link and direction (netns mode only).

        A call costs about 0.5 ms of processor time for each node: pollers name the ``nodes``.
        """
        asked = self._topology.nodes if nodes is None else nodes
        fabric = self._entered_fabric()
        return await fabric.counters([self.config(node).node for node in asked])

    async def change_link(self, link: Link, *, is_up: bool) -> LinkShape:
        """Give a link other properties than in the topology, or cut it.

        Processes that start later find it so. A node of another machine that restarts meanwhile
        has the link of the topology again.

        Returns:
            The shape that both nodes at its ends model from now on; running processes do not know
            it yet.
        """
        shape = await self._entered_fabric().change(link, is_up=is_up)
        for node, peer in (link.nodes, link.nodes[::-1]):
            config = self.config(node)
            faces = tuple(
                face.model_copy(update={"shape": shape}) if face.peer == peer else face
                for face in config.faces
            )
            self._configs[node] = config.model_copy(update={"faces": faces})
            if node in self._nodes_here():
                self._write_config(node)
        return shape

    def _write_config(self, node: str) -> None:
        write_private(self.config_path(node), self._configs[node].model_dump_json(indent=2))

    async def __aenter__(self) -> Self:
        if self._part is None:
            self._signals.install()
        try:
            await self._launch()
        except BaseException:
            await self._remove()
            self._signals.raise_received()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._has_succeeded = kind is None
        await self._remove()
        self._signals.raise_received()

    def _write_files(self, hops: NextHops, fabric: Fabric) -> None:
        record = self._entered_record()
        record.switches, record.hosts = self._topology.switches, self._topology.hosts
        record.save()
        self._bulk_segment_bytes = bulk_segment_bytes(self._topology, self._mode)
        for node in self._topology.nodes:
            self._configs[node] = self._node_config(node, hops, fabric)
        for node in self._nodes_here():
            self._write_config(node)
        record.topology_path.write_text(dump_yaml(self._topology))

    async def _launch(self) -> None:
        if self._record is None:
            await asyncio.to_thread(remove_stale_runs)
            self._record = create_run(self._run_id, self._topology.name, self._mode)
        hops = next_hops(self._topology)
        self._fabric = await self._open_fabric(hops)
        self._record.namespaces = self._fabric.namespace_paths()
        with writing_into(self.run_dir):
            self._write_files(hops, self._fabric)
        links_socket = self.socket_path(LINKS_SOCKET_NAME)
        self._link_descriptors = LinkDescriptorServer(links_socket, self._fabric.pass_fds)
        self._lost = asyncio.get_running_loop().create_future()
        configs = [self.config_path(node).name for node in self._nodes_here()]
        self._directory = RunDirectory(
            self.run_dir, (*configs, *LASTING_NAMES), self._on_directory_lost
        )
        self._directory.watch()

    def _nodes_here(self) -> Collection[str]:
        return self._topology.nodes if self._part is None else self._part.nodes

    async def _open_fabric(self, hops: NextHops) -> Fabric:
        if self._part is not None:
            return self._part.fabric
        if self._mode == "netns":
            return await NamespaceFabric.open(self._topology, hops, self._run_id, self._register)
        return LocalFabric(self._topology, shared_memory=self._shared_memory)

    async def _remove(self) -> None:
        """Take everything down; a cancellation takes effect afterwards."""
        taking_down = asyncio.ensure_future(self._take_down())
        cancelled = False
        while not taking_down.done():
            try:
                await asyncio.wait([taking_down])
            except asyncio.CancelledError:
                cancelled = True
        taking_down.result()
        if cancelled:
            self._signals.raise_received()
            raise asyncio.CancelledError

    async def _take_down(self) -> None:
        try:
            await self._processes.terminate()
        finally:
            if self._link_descriptors is not None:
                self._link_descriptors.close()
            if self._fabric is not None:
                await self._fabric.close()
            await self._disconnect()
            # Whoever removed the directory may have made another one at its path.
            is_there = self._directory is None or self._directory.is_ours
            if self._directory is not None:
                await self._directory.close()
            if self._record is not None and self._part is None:
                await asyncio.to_thread(remove_run, self._record, removes_directory=is_there)
            self._signals.restore()

    @property
    def _ends_for_good(self) -> bool:
        """Whether the network is taken down: by Ctrl-C, by ``innet down``, or because its use is
        over. After an error or another signal its launcher may be started again."""
        is_interrupted = self._signals.received is signal.SIGINT
        return self._has_succeeded or is_interrupted or self._entered_record().is_going_down

    async def _disconnect(self) -> None:
        """Close the connections to other machines; only a network on several machines has any."""

    def _node_config(self, name: str, hops: NextHops, fabric: Fabric) -> NodeConfig:
        node = self._topology.nodes[name]
        is_worker = self._topology.role_of(name) == "worker"
        digest = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        credit_bytes = receive_credit_bytes(
            self._topology, name, bulk_segment_bytes=self._bulk_segment_bytes
        )
        if self._mode == "cluster":
            credit_bytes = credit_bytes or queue_credit_bytes(self._topology, name)
        return NodeConfig(
            run_id=self._run_id,
            node=name,
            kind=node.kind,
            mode=self._mode,
            run_dir=self.run_dir,
            faces=fabric.faces(name),
            routes=tuple(RouteConfig(node=to, face=face) for to, face in hops[name].items()),
            slots=node.slots if node.kind == "switch" else 0,
            cache_bytes=node.cache_bytes,
            receive_credit_bytes=credit_bytes,
            receive_rate_bps=receive_rate_bps(self._topology, name),
            cache_policy=node.cache_policy if node.kind == "switch" else HOST_CACHE_POLICY,
            control_socket=self.socket_path(control_socket_name(name)),
            ndn_socket=self.socket_path(ndn_socket_name(name)),
            seed=int.from_bytes(digest[:6], "big"),
            processors=tuple(sorted(os.sched_getaffinity(0))),
            ip_address=fabric.ip_address(name),
            host=self._topology.machine_of[name] if is_worker else None,
            workers=self._topology.workers_of.get(name, ()),
        )

    def socket_path(self, name: str) -> Path:
        """The path of a socket of the run."""
        path = self.run_dir / name
        length = len(os.fsencode(path))
        if length > _MAX_SOCKET_PATH_BYTES:
            raise EmulationError(
                f"the socket path {path} has {length} bytes, the kernel takes "
                f"{_MAX_SOCKET_PATH_BYTES}. Set XDG_RUNTIME_DIR to a shorter directory, or choose "
                "a shorter run id or node name."
            )
        return path

    def record_attached(self, node: str, pid: int, machine: str | None) -> None:
        """Record that a process, which another launcher started, is the worker of a node.

        ``machine``: which says so; ``None``: this one, whose kernel knows it.
        """
        identity = (
            ProcessIdentity.of(pid) if machine is None else ProcessIdentity(pid=pid, start_ticks=0)
        )
        if identity is not None:  # it may have ended, or be in another namespace of pids
            self.record_process(
                RecordedProcess(
                    label=node, node=node, identity=identity, attached=True, machine=machine
                )
            )

    def forget_attached(self, node: str) -> None:
        """Remove the record of the process that is attached to a node."""
        record = self._entered_record()
        record.processes = tuple(
            known for known in record.processes if not (known.attached and known.node == node)
        )
        self._save(record)

    def forget_process(self, process: SupervisedProcess) -> None:
        """Remove the record of a process."""
        record = self._entered_record()
        gone = process.machine, process.identity
        record.processes = tuple(p for p in record.processes if (p.machine, p.identity) != gone)
        self._save(record)

    def _register(self, process: SupervisedProcess) -> None:
        self.record_process(
            RecordedProcess(
                label=process.label,
                node=process.spec.node,
                identity=process.identity,
                machine=process.machine,
            )
        )

    def record_process(self, process: RecordedProcess) -> None:
        """Enter a process into the run's record, in place of an earlier one of its label."""
        record = self._entered_record()
        if process.label not in self._topology.switches:  # the end was that of another job
            record.ends = {k: end for k, end in record.ends.items() if k != process.label}
        # The next job or a restart uses the label again.
        record.processes = (
            *(known for known in record.processes if known.label != process.label),
            process,
        )
        self._save(record)

    def _save(self, record: RunRecord) -> None:
        """Save the record if possible: other processes need it after the launcher is gone."""
        if self._directory is not None and not self._directory.is_ours:
            return
        try:
            record.save()
        except OSError as error:
            _log.warning(
                "the record of run %s cannot be written (%s): other terminals see an old one, what "
                "runs goes on. Free some space in %s",
                record.run_id,
                error.strerror,
                record.run_dir,
            )

    def _entered_record(self) -> RunRecord:
        if self._record is None:
            raise EmulationError("the network is not up. Enter its context first: async with ...")
        return self._record

    def _entered_fabric(self) -> Fabric:
        if self._fabric is None:
            raise EmulationError("the network is not up. Enter its context first: async with ...")
        return self._fabric


def _require_links_of_kernel(topology: Topology) -> None:
    for link in topology.links:
        if link.impaired:
            raise EmulationError(
                f"link {link} has {', '.join(impairments(link))}, which the links of netns mode "
                "cannot do. Launch the topology in local mode, or simulate it with `innet sim`."
            )
