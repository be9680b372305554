"""A network whose nodes are on several machines: ``cluster`` mode, as the launcher sees it.

The launcher's own machine is one of them. On each other machine an agent has joined
(:mod:`innet.cluster.machines`). Its sockets are relayed into the run directory here, so a client of
a node need not know the node's machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from innet.cluster.emulation.local_fabric import Fabric
from innet.cluster.emulation.machine_fabric import MachineFabric
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.cluster.emulation.recorded_parts import MachineState, RecordedMachine
from innet.cluster.emulation.runs import (
    control_socket_name,
    list_runs,
    ndn_socket_name,
    socket_name_of,
)
from innet.cluster.launch.machine_links import MachineLinks
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.commands import agent_socket_name
from innet.cluster.machines.launcher_identity import LauncherIdentity, forget_launcher
from innet.cluster.machines.listener import JoinedMachine, MachineListener
from innet.cluster.machines.messages import Heartbeats
from innet.cluster.machines.remote import RemoteMachine
from innet.cluster.session_client import SESSION_SOCKET_NAME
from innet.errors import EmulationError, InnetError, SecurityError
from innet.node.controller_client import CONTROLLER_SOCKET_NAME
from innet.node.routing import NextHops
from innet.printable import printable
from innet.settings import Settings
from innet.telemetry import events
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME
from innet.telemetry.logs.output import LAUNCHER_LABEL, OutputSink
from innet.topology import Topology
from innet.topology.model import LAUNCHER_MACHINE
from innet.topology.names import NAME_EXPECTED, NAME_PATTERN, natural_key

_TOKEN_NAME = "join.token"  # noqa: S105  # the name of a file
_KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in every container."""


class MachineStarter(Protocol):
    """An engine that starts the agents of machines."""

    def start(
        self,
        run_dir: Path,
        address: str,
        token_file: Path,
        labels: Mapping[str, Mapping[str, str]],
        output: OutputSink,
    ) -> None:
        """Begin to start an agent for each machine of ``labels``, which join at ``address``."""

    async def failed(self) -> str:
        """Wait for the next reason why a machine, or all, cannot come any more."""

    def remedy(self, machine: str) -> str:
        """The next step after a machine is lost."""

    async def close(self) -> None:
        """Wait until the agents have ended, and end those that do not."""


@dataclass(frozen=True)
class ClusterOptions:
    """How machines join a network.

    Attributes:
        listen: ``ADDRESS[:PORT]`` of this machine, at which they do.
        token_file: written for them, and valid for the next launcher as well unless the network is
            taken down; by default in the run directory, and valid for one launch.
        starter: starts their agents; ``None``: somebody does.
        wait_s: how long the launch waits until all have joined; ``None``: for ever.
    """

    listen: str
    token_file: Path | None = None
    starter: MachineStarter | None = None
    wait_s: float | None = None


class ClusterNetwork(Network):
    """The part of the launcher's machine, and the other machines that have joined."""

    def __init__(
        self,
        topology: Topology,
        options: ClusterOptions,
        settings: Settings,
        run_id: str | None,
        output: OutputSink,
        *,
        seed: int = 1,
    ) -> None:
        """Nothing happens before the context is entered, which waits for all machines."""
        super().__init__(topology, "cluster", run_id, seed=seed, output=output)
        self._options = options
        self._settings = settings
        self._output = output
        self._stack = AsyncExitStack()
        self._listener: MachineListener | None = None
        self._served: set[str] = set()
        """Machines whose sockets are relayed."""
        self._all_joined = asyncio.Event()
        self._machines: dict[str, RemoteMachine] = {}
        self._is_reachable = {name: asyncio.Event() for name in self.other_machines}
        self._last_refusal = ("", "")
        self._rejoining = asyncio.Lock()
        """Held while a machine returns: the next one needs the sockets of this one."""
        self._links = MachineLinks(
            topology,
            Address.parsed(options.listen),
            seed=seed,
            shared_memory=settings.transport.shared_memory,
        )
        self._failure: asyncio.Future[str] | None = None
        """Why machines that the starter starts do not come."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def other_machines(self) -> tuple[str, ...]:
        """The machines that have to join, in the order of the topology."""
        placed = dict.fromkeys(self.topology.placement.values())
        return tuple(machine for machine in placed if machine != LAUNCHER_MACHINE)

    def start(
        self, node: str, spec: ProcessSpec, output: OutputSink | None = None
    ) -> SupervisedProcess:
        """Start a program on a node, on the machine of the node."""
        machine = self._machine_of(node)
        if machine is None:
            return super().start(node, spec, output)
        return machine.start(replace(spec, node=node), output)

    def processors(self, node: str) -> tuple[str, int]:
        """The machine that a node is on, and how many processors it has."""
        machine = self._machine_of(node)
        if machine is None:
            return super().processors(node)
        return machine.name, machine.opened.processors

    @property
    def placed_elsewhere(self) -> dict[str, str]:
        """The machine of each node that is on another one than the launcher's."""
        placement = self.topology.placement
        return {node: machine for node, machine in placement.items() if machine != LAUNCHER_MACHINE}

    async def free_port(self, node: str) -> int:
        """A TCP port of the node's machine that no socket has at this moment."""
        machine = self._machine_of(node)
        return await (super().free_port(node) if machine is None else machine.free_port())

    async def placed(
        self, node: str, environment: Mapping[str, str], files: Sequence[Path]
    ) -> dict[str, str]:
        """An environment for a process on a node, with the paths of its machine.

        ``files`` of the run's directory, and those that it names, are there afterwards.
        """
        machine = self._machine_of(node)
        if machine is None:
            return await super().placed(node, environment, files)
        await machine.write(machine.files_of(environment, files))
        return machine.environment(environment)

    def is_reachable(self, node: str) -> bool:
        """Whether the machine of a node is there."""
        machine = self.topology.placement[node]
        return machine == LAUNCHER_MACHINE or self._is_reachable[machine].is_set()

    async def until_reachable(self, node: str) -> None:
        """Wait until the machine of a node is there."""
        machine = self.topology.placement[node]
        if machine != LAUNCHER_MACHINE:
            await self._is_reachable[machine].wait()

    @property
    def own_machine(self) -> str | None:
        """The launcher's machine."""
        return LAUNCHER_MACHINE

    def _machine_of(self, node: str) -> RemoteMachine | None:
        """The machine of a node; ``None`` for the launcher's.

        Raises:
            EmulationError: the machine is lost.
        """
        name = self.topology.placement[node]
        if name == LAUNCHER_MACHINE:
            return None
        machine = self._machines[name]
        if machine.lost_because:
            raise EmulationError(
                f"{node} cannot run: {machine.lost_because}. {self._remedy(name)}, or choose other "
                "hosts (--hosts)"
            )
        return machine

    def _remedy(self, machine: str) -> str:
        """How a machine that has not joined, or is lost, comes back."""
        starter = self._options.starter
        if starter is not None:
            return starter.remedy(machine)
        if _KUBERNETES_VARIABLE in os.environ:
            return (
                f"Look at the pod of the agent of {machine} (kubectl get pods, kubectl logs); it "
                "joins again when Kubernetes has started it"
            )
        return f"Let the machine join again (innet node join ... --name {machine})"

    def _nodes_here(self) -> Collection[str]:
        return self.topology.nodes_placed_on(LAUNCHER_MACHINE)

    # Launching

    async def _open_fabric(self, hops: NextHops) -> Fabric:
        if not self.other_machines:
            raise EmulationError(
                f"no node of {self.topology.name} is on another machine. Give hosts no machine, or "
                "other ones than the launcher's, or leave --listen out"
            )
        self.processes.on_exit(self._forget)
        now_s = time.time()
        nodes_on = self.topology.nodes_placed_on
        for name in (LAUNCHER_MACHINE, *self.other_machines):
            is_here = name == LAUNCHER_MACHINE
            state: MachineState = "up" if is_here else "starting"
            address = self._options.listen if is_here else ""
            self.record_machine(
                name,
                RecordedMachine(nodes=nodes_on(name), state=state, since_s=now_s, address=address),
            )
        await self._listen()
        fabric = await self._set_up_links()
        self._topology = self._links.topology
        for name in self.other_machines:
            self._is_reachable[name].set()
        if self._options.starter is not None and self._failure is not None:
            self._run(self._report_failures(self._options.starter, self._failure))
        return fabric

    async def _set_up_links(self) -> MachineFabric:
        """Wait for all machines and set up the links; again if one is lost meanwhile."""
        while True:
            await self._until_all_joined()
            machines = tuple(self._machines.values())
            try:
                return await self._links.set_up(machines)
            except EmulationError:
                if not any(machine.lost_because for machine in machines):
                    raise

    async def _listen(self) -> None:
        recovery = self._settings.recovery
        listener = MachineListener(
            Address.parsed(self._options.listen),
            self._identity(),
            self.run_dir,
            offered={name: self._offered_to(name) for name in self.other_machines}.__getitem__,
            heartbeats=Heartbeats(
                interval_s=min(recovery.heartbeat_interval_s, recovery.machine_timeout_s / 3),
                timeout_s=recovery.machine_timeout_s,
            ),
        )
        listener.on_joined(self._on_joined)
        listener.on_lost(self._on_lost)
        listener.on_refused(self._on_refused)
        if self._options.starter is not None:  # its agents end on the listener's order
            self._stack.push_async_callback(self._options.starter.close)
        self._listener = await self._stack.enter_async_context(listener)
        live = {run.run_id for run in list_runs() if not run.is_stale} - {self.run_id}
        token = listener.token_file()
        token.save_new(self._token_path, live)
        if self._has_lasting_token:
            listener.identity.save(self._token_path)
            self.record_token_file(self._token_path)
            listener.on_bound(self._save_identity)
        else:
            self._stack.callback(token.remove, self._token_path)
        self._say_progress()
        starter = self._options.starter
        if starter is not None:
            labels = self.topology.machine_labels
            wanted = {name: labels.get(name, {}) for name in self.other_machines}
            address = listener.token_file().addresses[0]
            starter.start(self.run_dir, address, self._token_path, wanted, self._output)
            self._failure = asyncio.ensure_future(starter.failed())

    def _offered_to(self, machine: str) -> dict[str, Path]:
        """The sockets of the launcher that a machine may connect to."""
        names = (CONTROLLER_SOCKET_NAME, SESSION_SOCKET_NAME, BROKER_SOCKET_NAME)
        return {name: self.socket_path(socket_name_of(name, machine)) for name in names}

    @property
    def _has_lasting_token(self) -> bool:
        """Whether token files are valid for the next launcher of the network: it finds them."""
        return self._options.token_file is not None and self._options.starter is None

    def _identity(self) -> LauncherIdentity:
        """The identity of the network's last launcher, unless the network was taken down.

        Raises:
            EmulationError: machines cannot join a network of this name.
        """
        if not re.fullmatch(NAME_PATTERN, self.run_id):
            raise EmulationError(
                f"a network of several machines needs {NAME_EXPECTED}, found {self.run_id!r}. "
                "Choose another --name"
            )
        if self._has_lasting_token:
            return LauncherIdentity.kept(self._token_path, self.run_id, self.other_machines)
        return LauncherIdentity.made(self.run_id, self.other_machines)

    def _save_identity(self, identity: LauncherIdentity) -> None:
        try:
            identity.save(self._token_path)
        except SecurityError as error:
            self._say(f"the next launcher may not know all machines: {error}")

    async def _until_all_joined(self) -> None:
        """
        Raises:
            EmulationError: some do not come.
        """
        wait_s = self._options.wait_s
        joined = asyncio.ensure_future(self._all_joined.wait())
        ends: list[asyncio.Future[Any]] = [joined]
        if self._failure is not None:
            ends.append(self._failure)
        try:
            await asyncio.wait(ends, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            joined.cancel()
        if self._failure is not None and self._failure.done() and not self._all_joined.is_set():
            raise EmulationError(self._failure.result())
        if not self._all_joined.is_set():
            raise EmulationError(
                f"machines have not joined within {wait_s:g} s: {', '.join(self._missing)}. Look "
                "at what their agents print, or wait longer (--wait)"
            )
        self._say("all machines joined")

    async def _report_failures(self, starter: MachineStarter, failed: Awaitable[str]) -> None:
        """Print why machines that are lost later do not return."""
        while True:
            why = await failed
            if not self.processes.terminating:
                self._say(f"not every lost machine can come back: {why}")
                for name, machine in self.machines.items():
                    if machine.state == "lost":
                        update = {"remedy": self._remedy(name)}
                        self.record_machine(name, machine.model_copy(update=update))
            failed = starter.failed()

    @property
    def _token_path(self) -> Path:
        return (self._options.token_file or self.run_dir / _TOKEN_NAME).absolute()

    @property
    def _missing(self) -> list[str]:
        return sorted(set(self.other_machines) - self._served, key=natural_key)

    def _say_progress(self) -> None:
        """Print who is missing, and how a machine joins."""
        assert self._listener is not None
        missing = self._missing
        if not missing:
            self._all_joined.set()
            return
        total = len(self.other_machines)
        remedy = (
            f"; on each run: innet node join {self._listener.token_file().addresses[0]} "
            f"--token-file {self._token_path}"
            if self._options.starter is None
            else ""
        )
        self._say(
            f"{total - len(missing)} of {total} machines joined; missing: {', '.join(missing)}"
            f"{remedy}"
        )

    def _say(self, text: str) -> None:
        self._output(LAUNCHER_LABEL, text)

    # Machines that come and go

    def _on_joined(self, joined: JoinedMachine) -> None:
        machine = RemoteMachine(joined.name, joined.address, self.run_dir, self.processes)
        self._machines[joined.name] = machine
        self._run(self._join(machine, joined))

    async def _join(self, machine: RemoteMachine, joined: JoinedMachine) -> None:
        """Relay the sockets of a machine, and let it take part once the network is up."""
        try:
            await joined.serve(self._sockets_of(machine.name))
            self._served.add(machine.name)
            if self._links.fabric is None:
                self._record_joined(machine)
                self._say_progress()
            else:
                async with self._rejoining:
                    await self._rejoin(machine)
        except InnetError as error:
            why = f"machine {machine.name} cannot be used: {error}"
            self._say(why)
            if not machine.lost_because:
                self._record_lost(machine.name, why.rstrip("."))

    def _record_joined(self, machine: RemoteMachine) -> None:
        self._record_state(machine.name, state="up", address=machine.address, why="", remedy="")
        events.report("machine_joined", f"machine {machine.name} has joined", machine=machine.name)

    def _record_lost(self, name: str, why: str) -> None:
        """Record why a machine does not take part, and what ran there."""
        running = (p for p in self.processes.processes if p.returncode is None)
        ran = tuple(p.spec.node for p in running if p.machine == name and p.spec.node is not None)
        self._record_state(name, state="lost", why=why, remedy=self._remedy(name), ran=ran)
        events.report("machine_lost", why, machine=name)

    def _record_state(self, name: str, **changes: Any) -> None:
        update = {"since_s": time.time(), **changes}
        self.record_machine(name, self.machines[name].model_copy(update=update))

    def _sockets_of(self, name: str) -> list[str]:
        nodes = self.topology.nodes_placed_on(name)
        sockets = [kind(node) for node in nodes for kind in (control_socket_name, ndn_socket_name)]
        return [agent_socket_name(name), *sockets]

    def _on_lost(self, joined: JoinedMachine, reason: str) -> None:
        if self.processes.terminating:  # the launcher itself ends
            return
        why = printable(reason)  # an agent may have given it
        self._machines[joined.name].lose(why)
        self._is_reachable[joined.name].clear()
        self._served.discard(joined.name)
        self._all_joined.clear()
        self._record_lost(joined.name, why)
        if self._links.fabric is None:
            self._say(why)
            self._say_progress()
        else:
            self._say(f"{why}; what ran there counts as ended")

    def _on_refused(self, address: str, reason: str) -> None:
        """Print why a machine may not join; once for an agent that tries again and again."""
        if (address, reason) != self._last_refusal:
            self._last_refusal = address, reason
            self._say(f"refused a machine at {address}: {printable(reason)}")

    async def _rejoin(self, machine: RemoteMachine) -> None:
        """Let a machine that has returned take part again."""
        if machine.lost_because:  # while it waited for others
            return
        name = machine.name
        others = [other for other in self._machines.values() if other is not machine]
        await self._links.reconnect(
            machine, [other for other in others if self._is_reachable[other.name].is_set()]
        )
        for node in self._configs:
            if self.topology.placement[node] == name:
                found = {"ip_address": self._links.addresses[name]}
                self._configs[node] = self._configs[node].model_copy(update=found)
        if not machine.lost_because:
            self._is_reachable[name].set()
            self._record_joined(machine)
        self._say(f"machine {name} is back; the next job can use its nodes")

    def _forget(self, process: SupervisedProcess) -> None:
        """Remove the record of a process of another machine that has ended."""
        if process.machine is not None:
            self.forget_process(process)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _disconnect(self) -> None:
        """Let the agents remove their files."""
        if self._failure is not None:
            self._failure.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for machine in self._machines.values():
            await machine.close()
        if self._listener is not None and self._has_lasting_token:
            self._listener.ends_for_good = self._ends_for_good
            if self._ends_for_good:
                forget_launcher(self._token_path, self.run_id)
        await self._stack.aclose()
