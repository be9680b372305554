"""Machines that are network namespaces, for benchmarks of `cluster` mode.

Each has an address and links whose rate the kernel limits. All that machines send each other passes
these links.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.errors import EmulationError
from innet.topology import Topology

NETWORK: Final = "bench"
"""Name of innet's network on the machines."""
_INNET: Final = (sys.executable, "-m", "innet")
_LISTEN_PORT: Final = 4711
# Of the namespace, as a node; a machine's own programs know nothing of it.
_VARIABLES: Final = ("INNET_NODE", "INNET_NODE_CONFIG", "INNET_RUN_ID")


@dataclass
class Program:
    """A program on a machine, and what it has printed."""

    lines: list[str] = field(default_factory=list)
    printed: asyncio.Event = field(default_factory=asyncio.Event)
    process: SupervisedProcess | None = None

    def take(self, _label: str, line: str) -> None:
        """Take a line that it prints."""
        self.lines.append(line)
        self.printed.set()

    async def says(self, text: str) -> None:
        """Wait until it has printed ``text``.

        Raises:
            EmulationError: it has ended before.
        """
        assert self.process is not None
        ended = asyncio.ensure_future(self.process.wait())
        while not any(text in line for line in self.lines):
            if ended.done():
                raise EmulationError(f"{self.process.describe()}: {'; '.join(self.lines[-5:])}")
            self.printed.clear()
            printed = asyncio.ensure_future(self.printed.wait())
            await asyncio.wait([printed, ended], return_when=asyncio.FIRST_COMPLETED)
            printed.cancel()
        ended.cancel()


class Machines:
    """The machines, and innet's network on them; made by :func:`machines_of`."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self._labels = count(1)

    def start(self, machine: str, *argv: str, **environment: str) -> Program:
        """Start a program on a machine, which has a registry of its own."""
        runtime = self.folder / machine
        runtime.mkdir(mode=0o700, exist_ok=True)
        program = Program()
        variables = {"XDG_RUNTIME_DIR": str(runtime), **environment}
        drop = [part for name in _VARIABLES for part in ("-u", name)]
        spec = ProcessSpec(
            f"{machine}.{next(self._labels)}", ("env", *drop, *argv), environment=variables
        )
        program.process = self.network.start(machine, spec, program.take)
        return program

    def address(self, machine: str) -> str:
        """The address of a machine."""
        return str(self.network.config(machine).ip_address)

    async def launch(self, topology: str, launcher: str, others: Collection[str]) -> None:
        """Bring up innet's network, described by YAML, and join it on the other machines."""
        (self.folder / "bench.yaml").write_text(topology)
        listen, token = f"{self.address(launcher)}:{_LISTEN_PORT}", self.folder / "token"
        up = self.start(
            *(launcher, *_INNET, "up", str(self.folder / "bench.yaml"), "--listen", listen),
            *("--token-file", str(token), "--name", NETWORK),
        )
        await up.says("0 of")
        for machine in others:
            own = self.folder / machine / "token"
            own.parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(token, own)
            join = ("node", "join", listen, "--token-file", str(own), "--name", machine)
            self.start(machine, *_INNET, *join)
        await up.says("is up")

    def run(self, launcher: str, *argv: str) -> Program:
        """Start a job on innet's network."""
        return self.start(launcher, *_INNET, "run", "--on", NETWORK, "--", *argv)

    async def down(self, launcher: str) -> None:
        """Take innet's network down."""
        down = self.start(launcher, *_INNET, "down", NETWORK)
        assert down.process is not None
        await down.process.wait()


@asynccontextmanager
async def machines_of(links: Topology) -> AsyncIterator[Machines]:
    """Machines with links of a topology."""
    # Short enough for the paths of sockets.
    with tempfile.TemporaryDirectory(prefix="innet-b-") as folder:
        async with Network(links, "netns") as network:
            yield Machines(network, Path(folder))
