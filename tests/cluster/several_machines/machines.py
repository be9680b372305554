"""Machines for tests: network namespaces with addresses of their own, each with a registry."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.topology import load_topology

INNET = (sys.executable, "-m", "innet")
QUICK = ("--set", "recovery.machine_timeout_s=2")
_OF_THE_NAMESPACES = ("INNET_NODE", "INNET_NODE_CONFIG", "INNET_RUN_ID")


class Program:
    """A program on a machine, and what it has printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.process: SupervisedProcess | None = None
        self._printed = asyncio.Event()

    def __call__(self, _label: str, line: str) -> None:
        self.lines.append(line)
        self._printed.set()

    @property
    def text(self) -> str:
        """All that it has printed."""
        return "\n".join(self.lines)

    async def says(self, text: str, times: int = 1) -> str:
        """Wait until it has printed a line with ``text``, so many times; returns the last one."""
        assert self.process is not None
        ended = asyncio.ensure_future(self.process.wait())
        while len(found := [line for line in self.lines if text in line]) < times:
            assert not ended.done(), f"it ended without {text!r}:\n{self.text}"
            self._printed.clear()
            printed = asyncio.ensure_future(self._printed.wait())
            await asyncio.wait([printed, ended], return_when=asyncio.FIRST_COMPLETED)
            printed.cancel()
        return found[-1]

    async def ends(self) -> int:
        """Wait for its end; returns its exit code."""
        assert self.process is not None
        return await self.process.wait()


class Machines:
    """Machines ``h0``, ``h1``, …, which reach each other at 10.0.0.1, 10.0.0.2, …."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.folder = folder
        self.address = "10.0.0.1:4711"
        self._network = network
        self._started = 0

    async def use_ipv6(self, count: int) -> None:
        """Give the machines IPv6 addresses of their own, ``fd00:1::1``, ``fd00:2::1``, …."""
        self.address = "[fd00:1::1]:4711"
        await self._run("s0", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        for number in range(count):
            network = f"fd00:{number + 1}::"
            for place, port, address in (
                (f"h{number}", "eth0", f"{network}1"),
                ("s0", f"eth{number}", f"{network}2"),
            ):
                await self._run(place, f"echo 0 > /proc/sys/net/ipv6/conf/{port}/disable_ipv6")
                await self._run(place, f"ip address add {address}/64 dev {port} nodad")
            await self._run(f"h{number}", f"ip -6 route add default via {network}2")

    async def _run(self, place: str, command: str) -> None:
        program = self.start(place, "sh", "-c", command)
        assert await program.ends() == 0, program.text

    def start(self, machine: str, *argv: str, at: str | None = None) -> Program:
        """Start a program on a machine; ``at`` the place of another one, if that is named."""
        runtime = self.folder / machine
        runtime.mkdir(mode=0o700, exist_ok=True)
        self._started += 1
        drop = [part for name in _OF_THE_NAMESPACES for part in ("-u", name)]
        spec = ProcessSpec(
            label=f"{machine}.{self._started}",
            argv=("env", *drop, *argv),
            environment={"XDG_RUNTIME_DIR": str(runtime)},
        )
        program = Program()
        program.process = self._network.start(at or machine, spec, program)
        return program

    def innet(self, machine: str, *arguments: str) -> Program:
        """Start a command of innet on a machine."""
        return self.start(machine, *INNET, *arguments)

    def join(self, machine: str, name: str | None = None, at: str | None = None) -> Program:
        """Start the agent of a machine, which joins the network of ``h0``."""
        named = () if name is None else ("--name", name)
        token_file = self.folder / machine / "token"
        token_file.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.folder / "token", token_file)
        join = (*INNET, "node", "join", self.address, "--token-file", str(token_file), *named)
        return self.start(machine, *join, at=at)

    def up(self, topology: str, *options: str, name: str = "net") -> Program:
        """Launch a network on ``h0`` that the others can join."""
        path = self.folder / "cluster.yaml"
        path.write_text(topology)
        where = ("--listen", self.address, "--token-file", str(self.folder / "token"))
        return self.innet("h0", "up", str(path), *where, "--name", name, *options)

    def leftovers(self, machine: str = "*") -> list[str]:
        """What is in the registries, and the processes of runs in them."""
        found = [str(path) for path in self.folder.glob(f"{machine}/innet/**/*")]
        ours = f"XDG_RUNTIME_DIR={self.folder}/{'' if machine == '*' else machine}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                if ours in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
        return found


@asynccontextmanager
async def machines(count: int, mtu_bytes: int = 1500) -> AsyncIterator[Machines]:
    """So many machines, the first one for the launcher."""
    topology = load_topology(f"star:{count}").with_overrides(mtu_bytes=mtu_bytes)
    # Short enough for the paths of sockets.
    with tempfile.TemporaryDirectory(prefix="innet-m-") as folder:
        previous = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = folder
        try:
            async with Network(topology, "netns") as network:
                yield Machines(network, Path(folder))
        finally:
            if previous is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = previous


async def launched(
    lab: Machines,
    topology: str,
    names: Sequence[str],
    name: str = "net",
    settings: Sequence[str] = QUICK,
) -> tuple[Program, dict[str, Program]]:
    """A network, and the agents of its machines."""
    up = lab.up(topology, *settings, name=name)
    await up.says("0 of")
    agents = {machine: lab.join(machine, machine) for machine in names}
    await up.says("is up")
    return up, agents


def kill(program: Program, signum: signal.Signals = signal.SIGKILL) -> None:
    """Signal a program and what it has started in its process group."""
    assert program.process is not None
    program.process.send_signal(signum)


def star(hosts: Sequence[str], **settings: str) -> str:
    """A topology file: hosts around the switch ``s0``, with a line for each setting of a node."""
    nodes = "".join(
        f"    {host}: {{kind: host{', ' + settings[host] if host in settings else ''}}}\n"
        for host in hosts
    )
    links = "".join(
        f'    - endpoints: ["{host}:eth0", "s0:eth{number}"]\n' for number, host in enumerate(hosts)
    )
    switch = f", {settings['s0']}" if "s0" in settings else ""
    return (
        f"name: cluster\ntopology:\n  nodes:\n{nodes}    s0: {{kind: switch{switch}}}\n"
        f"  links:\n{links}"
    )


def two_spines() -> str:
    """A topology file: two hosts, and two spines on machines of their own between them."""
    return """
name: spines
topology:
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    s0: {kind: switch}
    s1: {kind: switch}
    s2: {kind: switch, machine: h3}
    s3: {kind: switch, machine: h4}
  links:
    - endpoints: ["h1:eth0", "s0:eth0"]
    - endpoints: ["h2:eth0", "s1:eth0"]
    - endpoints: ["s0:eth1", "s2:eth0"]
    - endpoints: ["s0:eth2", "s3:eth0"]
    - endpoints: ["s1:eth1", "s2:eth1"]
    - endpoints: ["s1:eth2", "s3:eth1"]
"""
