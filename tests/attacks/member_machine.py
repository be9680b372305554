"""A network on two machines in one process, for tests; the second machine sends what it likes."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.emulation.runs import remove_run
from innet.cluster.launch.cluster_network import ClusterOptions
from innet.cluster.launch.session import Session
from innet.cluster.machines import agent
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.connection import LauncherConnection
from innet.topology import Topology
from innet.topology.loading import load_topology

MACHINE = "m1"
"""The machine that lies; h1 is its host, h0 and h2 are on the launcher's machine."""
TOPOLOGY = """
name: lies
topology:
  nodes:
    h0: {kind: host, machine: launcher}
    h1: {kind: host, machine: m1}
    h2: {kind: host, machine: launcher}
    s0: {kind: switch, machine: launcher}
  links:
    - endpoints: ["h0:eth0", "s0:eth0"]
    - endpoints: ["h1:eth0", "s0:eth1"]
    - endpoints: ["h2:eth0", "s0:eth2"]
"""


class Stream:
    """A stream to a socket of the launcher, of which the member makes each frame."""

    def __init__(self, connection: LauncherConnection, name: str) -> None:
        self._relay = connection._tunnel._relay
        self._number = self._relay.streams.open(name)
        self._relay._ends[self._number] = self  # type: ignore[assignment]
        self._received = bytearray()
        self._news = asyncio.Event()
        self.is_over = False

    def send(self, content: bytes) -> None:
        self._relay.streams.send(self._number, content)

    def end(self) -> None:
        self._relay.streams.end(self._number)

    def reset(self) -> None:
        self._relay.streams.reset(self._number, "")

    async def line(self) -> Any:
        """The next document that the launcher sends; ``None``: it has closed the stream."""
        while b"\n" not in self._received and not self.is_over:
            self._news.clear()
            await self._news.wait()
        if b"\n" not in self._received:
            return None
        line, _, rest = self._received.partition(b"\n")
        self._received = bytearray(rest)
        return json.loads(line)

    async def request(self, method: str, **params: Any) -> Any:
        self.send(request(method, **params))
        return await self.line()

    # As the relay calls the ends of streams

    def write(self, data: bytes) -> None:
        self._received += data
        self._relay.streams.consumed(self._number, len(data))
        self._news.set()

    def write_end(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_over = True
        self._news.set()

    def flush(self) -> None:
        pass

    def abort(self) -> None:
        pass


def request(method: str, **params: Any) -> bytes:
    return json.dumps({"method": method, "params": params}).encode() + b"\n"


class Member:
    """The machine that lies.

    Attributes:
        run_dir: of its part of the network.
    """

    def __init__(self, connection: LauncherConnection, run_dir: Path) -> None:
        self._connection = connection
        self.run_dir = run_dir

    def stream(self, name: str) -> Stream:
        return Stream(self._connection, name)


def topology_of(text: str, folder: Path) -> Topology:
    path = folder / "lies.yaml"
    path.write_text(text)
    return load_topology(str(path))


@asynccontextmanager
async def two_machines(
    monkeypatch: pytest.MonkeyPatch, topology: str = TOPOLOGY
) -> AsyncIterator[tuple[Session, Member]]:
    """A session, and the machine ``m1`` of it."""
    # Short enough for the paths of sockets.
    with tempfile.TemporaryDirectory(prefix="innet-m-") as name:
        folder = Path(name)
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        listens = asyncio.Event()

        def output(_label: str, line: str) -> None:
            if "machines joined" in line:
                listens.set()

        options = ClusterOptions(listen="127.0.0.1:0", token_file=folder / "token")
        described = topology_of(topology, folder)
        session = Session(described, mode="cluster", run_id="net", cluster=options, output=output)
        entering = asyncio.ensure_future(session.__aenter__())
        waiting = asyncio.ensure_future(listens.wait())
        await asyncio.wait([entering, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        connection = LauncherConnection(
            folder / "token",
            Address.parsed("127.0.0.1:0"),
            machine=MACHINE,
            patience_s=60.0,
            say=lambda _line: None,
        )
        async with connection as launcher:
            record = agent._entered("net", MACHINE)
            serving = asyncio.ensure_future(agent._serve_in(record, launcher, lambda _line: None))
            try:
                await entering
                try:
                    yield session, Member(launcher, record.run_dir)
                finally:
                    await session.__aexit__(None, None, None)
            finally:
                serving.cancel()
                await asyncio.gather(entering, serving, return_exceptions=True)
                await asyncio.to_thread(remove_run, record)
