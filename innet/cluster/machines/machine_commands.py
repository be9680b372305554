"""Carries out a launcher's requests on one machine: its links, files and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from innet.cluster.control.machine_processes import ProcessRequests
from innet.cluster.emulation.local_fabric import free_port
from innet.cluster.emulation.machine_fabric import MachineFabric, with_discovered_mtus
from innet.cluster.emulation.network import MachinePart, Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess, end_processes
from innet.cluster.emulation.runs import (
    RunRecord,
    control_socket_name,
    ndn_socket_name,
    writing_into,
)
from innet.cluster.machines.commands import (
    ConfigureRequest,
    ConnectReply,
    ConnectRequest,
    Line,
    OpenReply,
    OpenRequest,
    PortReply,
    SignalRequest,
    Started,
    StartReply,
    StartRequest,
    WriteRequest,
)
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.requests import ClientConnection
from innet.errors import EmulationError
from innet.node.requests import ControlRequest, handler_of
from innet.private_files import write_private
from innet.security.keys import KEYS_VARIABLE
from innet.topology import Topology

_PYTHON = "python"


class MachineCommands:
    """Serves the requests of :mod:`innet.cluster.machines.commands`."""

    def __init__(
        self,
        launcher: LauncherConnection,
        record: RunRecord,
        address: str,
        say: Callable[[str], None],
    ) -> None:
        """
        Args:
            launcher: may connect to the sockets of the machine's nodes.
            record: of the machine's own run.
            address: of the machine, for links.
            say: prints a line to the user.
        """
        self._launcher = launcher
        self._machine = launcher.machine
        self._record = record
        self._address = address
        self._say = say
        self._opened: OpenRequest | None = None
        self._topology: Topology | None = None
        self._fabric: MachineFabric | None = None
        self._network: Network | None = None
        self._saying: asyncio.Task[None] | None = None
        self._processes: dict[str, SupervisedProcess] = {}
        self._watching = ProcessRequests(self._has_started)

    async def respond(self, request: ControlRequest, client: ClientConnection) -> Any:
        """Serve one request."""
        params = request.params
        handlers: dict[str, Callable[[], Awaitable[Any]]] = {
            "open": lambda: self._open(OpenRequest.model_validate(params)),
            "connect": lambda: self._connect(ConnectRequest.model_validate(params)),
            "configure": lambda: self._configure(ConfigureRequest.model_validate(params)),
            "write": lambda: self._write(WriteRequest.model_validate(params)),
            "start": lambda: self._start(StartRequest.model_validate(params), client),
            "signal": lambda: self._signal(SignalRequest.model_validate(params)),
            "port": self._free_port,
            **self._watching.handlers(params, client),
        }
        return await handler_of(request.method, handlers)()

    async def close(self) -> None:
        """End all processes and remove the machine's part of the network."""
        network, self._network = self._network, None
        if self._saying is not None:
            self._saying.cancel()
        if network is not None:
            await network.__aexit__(None)
        elif self._fabric is not None:
            await self._fabric.close()

    async def _open(self, request: OpenRequest) -> OpenReply:
        await self.close()  # the launcher has lost this machine meanwhile
        self._opened = request
        self._topology = Topology.model_validate_json(request.topology)
        self._fabric = MachineFabric(
            self._topology, self._machine, self._address, shared_memory=request.shared_memory
        )
        self._record.topology = self._topology.name
        self._launcher.offer(self._record.run_dir, map(control_socket_name, self._fabric.nodes))
        self._launcher.offer(self._record.run_dir, map(ndn_socket_name, self._fabric.nodes))
        return OpenReply(
            address=self._address,
            sockets=self._fabric.sockets,
            run_dir=self._record.run_dir,
            processors=len(os.sched_getaffinity(0)),
        )

    async def _connect(self, request: ConnectRequest) -> ConnectReply:
        fabric = self._opened_fabric()
        fabric.connect(request.peers)
        return ConnectReply(received_bytes=await fabric.probe() if request.probes else {})

    async def _configure(self, request: ConfigureRequest) -> None:
        fabric = self._opened_fabric()
        assert self._topology is not None
        assert self._opened is not None
        fabric.configure(request.datagram_bytes)
        network = Network(
            with_discovered_mtus(self._topology, request.datagram_bytes),
            "cluster",
            self._launcher.network,
            seed=self._opened.seed,
            part=MachinePart(self._record, fabric, fabric.nodes),
        )
        await network.__aenter__()
        self._network = network
        network.record_ready()
        self._saying = asyncio.ensure_future(self._say_when_lost(network))
        self._say(f"links are up: {', '.join(fabric.nodes)}")

    async def _say_when_lost(self, network: Network) -> None:
        self._say(f"WARNING: {await network.until_lost()}")

    async def _write(self, request: WriteRequest) -> None:
        run_dir = self._record.run_dir
        with writing_into(run_dir):
            for file in request.files:
                if Path(file.name).name != file.name:
                    raise EmulationError(f"{file.name!r} is no name of a file; expected one")
                write_private(run_dir / file.name, file.content)

    async def _start(self, request: StartRequest, client: ClientConnection) -> StartReply:
        network = self._configured_network()
        if request.directory is not None and not request.directory.is_dir():
            raise EmulationError(
                f"machine {self._machine} has no directory {request.directory}, in which "
                f"{request.label} should run. Make the job's directory at the same path on every "
                "machine, for example on a shared file system"
            )

        def send(_label: str, line: str) -> None:
            if not client.is_far_behind:
                client.send(Line(line=line))

        process = network.start(request.node, self._spec(request), send)
        self._processes[request.label] = process
        client.send(Started(**process.identity.model_dump()))
        self._say(f"started {request.label} (pid {process.identity.pid})")
        try:
            returncode = await process.wait()
        finally:
            # The launcher has ended, or has lost this machine.
            await end_processes([process])
            self._forget(process)
            self._remove_keys(request.environment)
        self._say(f"{process.describe()}")
        return StartReply(returncode=returncode)

    def _forget(self, process: SupervisedProcess) -> None:
        """Its pid may be that of a process which the agent has not started, from now on."""
        if self._processes.get(process.label) is process:
            del self._processes[process.label]

    def _spec(self, request: StartRequest) -> ProcessSpec:
        program, *arguments = request.argv
        own = str(Path(sys.executable).parent)
        environment = {**os.environ, **request.environment}
        path = os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
        return ProcessSpec(
            label=request.label,
            argv=(sys.executable if program == _PYTHON else program, *arguments),
            environment={**environment, "PATH": path},
            directory=request.directory,
            grace_s=request.grace_s,
        )

    def _remove_keys(self, environment: Mapping[str, str]) -> None:
        """Remove the keys of a process that has ended; another one of its node gets them again."""
        keys = Path(environment.get(KEYS_VARIABLE, ""))
        if keys.parent == self._record.run_dir:
            keys.unlink(missing_ok=True)

    async def _signal(self, request: SignalRequest) -> None:
        process = self._processes.get(request.label)
        if process is not None:
            process.send_signal(signal.Signals(request.signum))

    async def _free_port(self) -> PortReply:
        return PortReply(port=free_port(self._address))

    def _has_started(self, pid: int) -> bool:
        return any(process.identity.pid == pid for process in self._processes.values())

    def _opened_fabric(self) -> MachineFabric:
        if self._fabric is None:
            raise EmulationError(f"machine {self._machine}: the links are not open; expected open")
        return self._fabric

    def _configured_network(self) -> Network:
        if self._network is None:
            raise EmulationError(
                f"machine {self._machine}: the links are not configured; expected configure"
            )
        return self._network
