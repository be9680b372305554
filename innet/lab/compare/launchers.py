"""Starts the workers of a contender on all hosts, and says why one did not work."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import SupervisedProcess
from innet.errors import EmulationError
from innet.lab.compare.contenders.contender import ADDRESS_VARIABLE
from innet.lab.compare.methods import GLOO, OPENMPI, OWN, Method
from innet.lab.compare.openmpi_launch import mpirun_arguments, write_launch_agent
from innet.lab.harness import EXIT_S, SessionRanks, kill

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session

_GLOO_PORT = 29600  # not the port that innet's own jobs tell their workers


class Launcher(Protocol):
    """The processes of one contender."""

    async def start(self) -> None:
        """Start a worker on every host.

        Raises:
            EmulationError: the program cannot be started.
        """
        ...

    async def failure(self) -> str | None:
        """Why workers ended with an error, ``None`` when none of them did.

        Waits for their end; their team must have been dismissed.
        """
        ...

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Kill the workers that do not end within ``grace_s``; a dismissed team ends by itself."""
        ...


def worker_command(contender: str, socket_path: Path, methods: Sequence[Method]) -> list[str]:
    """The command line of a worker."""
    calls = [method.call for method in methods]
    return [sys.executable, "-m", "innet.lab.compare.worker", contender, str(socket_path), *calls]


def make_launcher(
    contender: str,
    methods: Sequence[Method],
    socket_path: Path,
    network: Network,
    session: Session | None,
) -> Launcher:
    """The launcher of a contender.

    Raises:
        EmulationError: what it needs is not there; the message says what to install.
    """
    command = worker_command(contender, socket_path, methods)
    if contender == OWN:
        if session is None:
            raise EmulationError("innet's own methods need a session, not a bare network")
        return SessionRanks(session, command)
    if network.mode != "netns":
        raise EmulationError(
            f"{contender} runs over the kernel's links only. Compare in netns mode, or without it."
        )
    if contender == GLOO:
        return GlooLauncher(network, command)
    return OpenMpiLauncher(network, command)


def missing_requirement(contender: str) -> str | None:
    """What a baseline needs and this machine has not, ``None`` when it can run."""
    if contender == GLOO and importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'innet[torch]')"
    if contender == OPENMPI:
        if os.geteuid() != 0:
            return "mpirun enters the hosts' namespaces, which only root may"
        for program in ("mpirun", "nsenter", "setpriv"):
            if shutil.which(program) is None:
                return f"{program} is not installed (apt-get install openmpi-bin util-linux)"
    return None


class ProcessLauncher:
    """A contender whose workers are processes of the network and nothing more."""

    def __init__(self, network: Network, command: Sequence[str]) -> None:
        self._network = network
        self._command = command
        self._processes: list[SupervisedProcess] = []

    async def failure(self) -> str | None:
        """The report of a process that ended with an error."""
        await self._wait(EXIT_S)
        for process in self._processes:
            if process.returncode:
                return process.failure_report()
        return None

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Wait for the processes, kill those that stay."""
        await self._wait(grace_s)
        for process in self._processes:
            await kill(process)

    async def _wait(self, timeout_s: float) -> None:
        waits = [asyncio.ensure_future(process.wait()) for process in self._processes]
        if waits:
            await asyncio.wait(waits, timeout=timeout_s)

    def _spawn(self, host: str, command: Sequence[str], **environment: str) -> None:
        label = f"{host}-{self._command[3]}"
        self._processes.append(self._network.spawn(host, command, environment, label=label))


class GlooLauncher(ProcessLauncher):
    """PyTorch's Gloo, rank r on host r, by the hosts' stable addresses."""

    async def start(self) -> None:
        """Start one process on each host."""
        hosts = self._network.topology.hosts
        addresses = [_address(self._network, host) for host in hosts]
        for rank, (host, address) in enumerate(zip(hosts, addresses, strict=True)):
            self._spawn(
                host,
                self._command,
                RANK=str(rank),
                WORLD_SIZE=str(len(hosts)),
                MASTER_ADDR=addresses[0],
                MASTER_PORT=str(_GLOO_PORT),
                **{ADDRESS_VARIABLE: address},
            )


class OpenMpiLauncher(ProcessLauncher):
    """Open MPI: ``mpirun`` on the first host starts its daemons in the other hosts' namespaces."""

    async def start(self) -> None:
        """Start ``mpirun``."""
        hosts = self._network.topology.hosts
        await asyncio.gather(*(self._name_interface(host) for host in hosts))
        agent = write_launch_agent(self._network)
        self._spawn(hosts[0], [*mpirun_arguments(hosts, agent), *self._command])

    async def _name_interface(self, host: str) -> None:
        module = [sys.executable, "-m", "innet.lab.compare.openmpi_launch"]
        label = f"{host}-interface"
        process = self._network.spawn(host, [*module, _address(self._network, host)], label=label)
        if await process.wait() != 0:
            raise EmulationError(f"no interface for Open MPI: {process.failure_report()}")


def _address(network: Network, host: str) -> str:
    address = network.config(host).ip_address
    if address is None:
        raise EmulationError(f"host {host} has no IP address. Compare in netns mode.")
    return address
