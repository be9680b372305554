"""The network of a comparison, and the processes of each contender on it.

``python -m innet.lab.compare.launchers ADDRESS`` prepares a host's network namespace for Open MPI.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyroute2 import IPRoute

from innet import extras
from innet.cluster.emulation.local_fabric import free_port
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.cluster.emulation.runs import find_run
from innet.errors import EmulationError
from innet.lab.compare.contender import ADDRESS_VARIABLE
from innet.lab.compare.methods import GLOO, OPENMPI, OPENMPI_SHARED, OWN, Method
from innet.lab.compare.sampling import Probe
from innet.lab.harness import EXIT_S, Conductor, SessionRanks, Team, kill
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.telemetry.logs.output import OutputSink
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session


_GLOO_PORT = 29600  # differs from the port that innet's own jobs use; in namespaces of the run
_LOOPBACK = "127.0.0.1"
_ASSEMBLY_S = 90.0
_INTERFACE = "stable0"
_OTHER_END = "stable1"


class ContenderLauncher(Protocol):
    """The processes of one contender."""

    async def start(self) -> None:
        """Start a worker on every host."""
        ...

    async def failure(self) -> str | None:
        """The report of a worker that failed, after all have ended; ``None`` if none failed.

        The team must have been dismissed.
        """
        ...

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Kill the workers of a dismissed team that do not end within ``grace_s``."""
        ...


def make_launcher(
    contender: str,
    methods: Sequence[Method],
    socket_path: Path,
    network: Network,
    session: Session | None,
) -> ContenderLauncher:
    """The launcher of a contender."""
    calls = [method.call for method in methods]
    module = "innet.lab.compare.contender"
    command = [sys.executable, "-m", module, contender, str(socket_path), *calls]
    if contender == OWN:
        if session is None:
            raise EmulationError("innet's own methods need a session, not a bare network")
        return SessionRanks(session, command)
    if contender == GLOO:
        return GlooLauncher(network, command)
    if network.mode == "netns":
        return OpenMpiLauncher(network, command)
    return LocalOpenMpiLauncher(network, command, contender)


def missing_requirement(contender: str, mode: Mode) -> str | None:
    """The requirement of a contender that this machine or mode lacks; ``None``: it can run."""
    if contender == GLOO and not extras.is_installed("torch"):
        return f"PyTorch is not installed ({extras.install_command('torch')})"
    if contender == OPENMPI_SHARED and mode != "local":
        return "hosts in namespaces share no memory. Compare in local mode (--mode local)"
    if contender in (OPENMPI, OPENMPI_SHARED):
        if mode == "netns" and os.geteuid() != 0:
            return "mpirun enters the hosts' namespaces, which only root may"
        needed = ("mpirun", "nsenter", "setpriv") if mode == "netns" else ("mpirun",)
        for program in needed:
            if shutil.which(program) is None:
                return f"{program} is not installed (apt-get install openmpi-bin util-linux)"
    return None


class ProcessLauncher:
    """A contender whose workers are plain processes on the network's hosts."""

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
        """Wait for the processes, and kill those that remain."""
        await self._wait(grace_s)
        for process in self._processes:
            await kill(process)

    async def _wait(self, timeout_s: float) -> None:
        waits = [asyncio.ensure_future(process.wait()) for process in self._processes]
        if waits:
            await asyncio.wait(waits, timeout=timeout_s)

    def _spawn(self, host: str, command: Sequence[str], **environment: str) -> None:
        label = f"{host}-{self._command[3]}"
        spec = ProcessSpec(label, tuple(command), environment=environment)
        self._processes.append(self._network.start(host, spec))


class GlooLauncher(ProcessLauncher):
    """PyTorch's Gloo: rank r on host r, at the host's stable address; in local mode on loopback."""

    async def start(self) -> None:
        """Start one process on each host."""
        hosts = self._network.topology.hosts
        local = self._network.mode == "local"
        addresses = [_LOOPBACK if local else _address(self._network, host) for host in hosts]
        port = free_port() if local else _GLOO_PORT
        for rank, (host, address) in enumerate(zip(hosts, addresses, strict=True)):
            self._spawn(
                host,
                self._command,
                RANK=str(rank),
                WORLD_SIZE=str(len(hosts)),
                MASTER_ADDR=addresses[0],
                MASTER_PORT=str(port),
                **{ADDRESS_VARIABLE: address},
            )


class OpenMpiLauncher(ProcessLauncher):
    """Open MPI, whose ``mpirun`` starts daemons in the namespaces of the other hosts."""

    async def start(self) -> None:
        """Start ``mpirun`` on the first host."""
        hosts = self._network.topology.hosts
        await asyncio.gather(*(self._name_interface(host) for host in hosts))
        agent = _write_launch_agent(self._network)
        self._spawn(hosts[0], [*_mpirun_arguments(hosts, agent), *self._command])

    async def _name_interface(self, host: str) -> None:
        argv = (sys.executable, "-m", "innet.lab.compare.launchers", _address(self._network, host))
        process = self._network.start(host, ProcessSpec(f"{host}-interface", argv))
        if await process.wait() != 0:
            raise EmulationError(f"no interface for Open MPI: {process.failure_report()}")


class LocalOpenMpiLauncher(ProcessLauncher):
    """Open MPI without namespaces: ``mpirun`` starts all ranks, over loopback or shared memory."""

    def __init__(self, network: Network, command: Sequence[str], contender: str) -> None:
        super().__init__(network, command)
        self._transport = "vader" if contender == OPENMPI_SHARED else "tcp"

    async def start(self) -> None:
        """Start ``mpirun``."""
        hosts = self._network.topology.hosts
        parameters = _OPENMPI_PARAMETERS | {
            "btl": f"{self._transport},self",
            "btl_tcp_if_include": "lo",
        }
        placement = ["--bind-to", "none", "--oversubscribe", "-n", str(len(hosts))]
        self._spawn(hosts[0], [*_mpirun(parameters), *placement, *self._command])


def _address(network: Network, host: str) -> str:
    address = network.config(host).ip_address
    if address is None:
        raise EmulationError(f"host {host} has no IP address. Compare in netns mode.")
    return address


_AGENT = """#!/bin/sh
# Called by mpirun as: agent HOST COMMAND...
host=$1
shift
case "$host" in
{cases}
*) echo "no namespace for $host" >&2; exit 1;;
esac
mkdir -p {directory}/$host
export TMPDIR={directory}/$host
exec setpriv --pdeathsig KILL nsenter --net="$namespace" unshare --uts \\
    sh -c 'hostname "$0" && eval exec "$@"' "$host" "$@"
"""


def _write_launch_agent(network: Network) -> Path:
    """Write the script by which ``mpirun`` enters a host's namespace; returns its path."""
    directory = network.run_dir / "openmpi"
    directory.mkdir(exist_ok=True)
    namespaces = find_run(network.run_id).namespaces
    cases = "\n".join(
        f"{host}) namespace={shlex.quote(namespaces[host])};;" for host in network.topology.hosts
    )
    agent = directory / "launch-agent"
    agent.write_text(_AGENT.format(cases=cases, directory=shlex.quote(str(directory))))
    agent.chmod(0o700)
    return agent


_OPENMPI_PARAMETERS = {
    "pml": "ob1",
    # All hosts share the machine's few cores: a rank that waits must let the others run.
    "mpi_yield_when_idle": "1",
}


def _mpirun_arguments(hosts: Sequence[str], agent: Path) -> list[str]:
    """The ``mpirun`` command up to the program; rank r runs on host r."""
    parameters = _OPENMPI_PARAMETERS | {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "btl": "tcp,self",
        "oob_tcp_if_include": _INTERFACE,
        "btl_tcp_if_include": _INTERFACE,
    }
    placement = ["--leave-session-attached", "--bind-to", "none", "--host", ",".join(hosts)]
    return [*_mpirun(parameters), *placement]


def _mpirun(parameters: Mapping[str, str]) -> list[str]:
    options = [word for key, value in parameters.items() for word in ("--mca", key, value)]
    permission = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *permission, *options]


class Teams:
    """The teams of a comparison on its running network, each started when it is needed.

    Attributes:
        probe: reads the network's counters.
        versions: of each contender that has had a team.
    """

    def __init__(
        self,
        network: Network,
        session: Session | None,
        conductor: Conductor,
        methods: Sequence[Method],
    ) -> None:
        self.probe = Probe(network, session)
        self.versions: dict[str, str] = {}
        self._network = network
        self._session = session
        self._conductor = conductor
        self._methods: dict[str, list[Method]] = {}
        for method in methods:
            self._methods.setdefault(method.contender, []).append(method)
        self._started: dict[str, tuple[ContenderLauncher, Team]] = {}

    async def team(self, contender: str) -> Team:
        """The contender's team; starts it if necessary."""
        if contender not in self._started:
            methods = self._methods[contender]
            launcher = make_launcher(
                contender, methods, self._conductor.path, self._network, self._session
            )
            await launcher.start()
            self._started[contender] = (launcher, await self._assemble(contender, launcher))
        team = self._started[contender][1]
        self.versions[contender] = team.version
        return team

    async def drop(self, method: Method, error: EmulationError) -> str:
        """Leave out a method that failed; the contender's other methods get a new team.

        Returns:
            The reason: the error, and the report of a worker that ended.
        """
        self._methods[method.contender] = [
            other for other in self._methods[method.contender] if other != method
        ]
        report = None
        entry = self._started.pop(method.contender, None)
        if entry is not None:
            launcher, team = entry
            team.dismiss()  # first, so that the workers that did not fail end as well
            report = await launcher.failure()
            await launcher.end()
        return str(error) if report is None else f"{error}: {report}"

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Dismiss all teams."""
        while self._started:
            _contender, (launcher, team) = self._started.popitem()
            team.dismiss()
            await launcher.end(grace_s)

    async def _assemble(self, contender: str, launcher: ContenderLauncher) -> Team:
        ranks = len(self._network.topology.hosts)
        try:
            return await self._conductor.assemble(contender, ranks, _ASSEMBLY_S)
        except EmulationError as error:
            report = await launcher.failure()
            await launcher.end()
            raise EmulationError(str(error) if report is None else f"{error}: {report}") from None
        except BaseException:  # cancelled: do not wait for the workers
            await launcher.end(grace_s=0)
            raise


@asynccontextmanager
async def open_teams(
    topology: Topology,
    mode: Mode,
    methods: Sequence[Method],
    settings: Settings,
    output: OutputSink | None,
) -> AsyncIterator[Teams]:
    """Launch the network, with innet's switches if a method of innet takes part."""
    async with AsyncExitStack() as stack:
        session = None
        if any(method.contender == OWN for method in methods):
            from innet.cluster.launch.session import Session  # baselines alone need no engine

            session = await stack.enter_async_context(
                Session(topology, mode=mode, settings=settings, output=output)
            )
            network = session.network
        else:
            network = await stack.enter_async_context(Network(topology, mode, output=output))
        conductor = await stack.enter_async_context(Conductor(network.run_dir / "turns.sock"))
        teams = Teams(network, session, conductor, methods)
        try:
            yield teams
        except BaseException:
            await teams.end(grace_s=0)
            raise
        await teams.end()


def main() -> None:
    """Add an interface to this network namespace, with the address of the command line.

    Open MPI uses only the first address of an interface, and a host's stable address is the second
    of its loopback interface. Hence one end of a veth pair gets the address.
    """
    (address,) = sys.argv[1:]
    with IPRoute() as netlink:
        if netlink.link_lookup(ifname=_INTERFACE):
            return  # an earlier start of Open MPI has made it
        netlink.link("add", kind="veth", ifname=_INTERFACE, peer={"ifname": _OTHER_END})
        for name in (_INTERFACE, _OTHER_END):
            netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")
        (index,) = netlink.link_lookup(ifname=_INTERFACE)
        netlink.addr("add", index=index, address=address, prefixlen=32)


if __name__ == "__main__":
    main()
