"""What another user of the machine can do to the links of nodes: nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from innet._native import _core
from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.node.link_descriptors import LINKS_SOCKET_NAME
from innet.observe.packets.layers import interest
from innet.observe.packets.outline import Outline
from innet.security.key_dealer import deal_keys
from innet.settings import Settings
from innet.topology import load_topology
from tests.said import Said

ADDRESS = "127.0.0.1"
WORKERS = Path(__file__).parent / "workers"
ANOTHER_USER = [sys.executable, str(WORKERS / "another_user.py")]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start a process of another user"
)


def by_another_user(*arguments: object) -> list[str]:
    """The lines that ``workers/another_user.py`` prints as the user nobody."""
    command = [*ANOTHER_USER, *(str(argument) for argument in arguments)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return ended.stdout.splitlines()


@contextmanager
def running_node() -> Iterator[_core.Node]:
    """A node without links that is stopped in the end."""
    keys = deal_keys(["s0"], "hmac")["s0"]
    settings = _core.NodeSettings()
    settings.own_name = "/n/s0"
    node = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
    try:
        yield node
    finally:
        node.stop("the test is over")


@dataclass
class Wire:
    """A node with a link over UDP, whose other end is the test's."""

    port: int
    neighbour: socket.socket

    def carries_packets(self) -> bool:
        """Whether the node takes an Interest from the link, and its answer comes back."""
        self.neighbour.settimeout(20)
        self.neighbour.send(bytes(interest("/nowhere", nonce=1)))
        while Outline.of(self.neighbour.recv(1 << 16)).kind != "nack":
            pass
        return True


@pytest.fixture(params=[False, True], ids=["alone", "beside a listener"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    """A node's link over UDP; for one of the two, the node listens on the port as well."""
    with running_node() as node, socket.socket(type=socket.SOCK_DGRAM) as neighbour:
        neighbour.bind((ADDRESS, 0))
        with socket.socket(type=socket.SOCK_DGRAM) as free:
            free.bind((ADDRESS, 0))
            port = int(free.getsockname()[1])
        neighbour.connect((ADDRESS, port))
        node.add_link(
            local_address=ADDRESS,
            local_port=port,
            peer_address=ADDRESS,
            peer_port=neighbour.getsockname()[1],
            beside_listener=request.param,
        )
        if request.param:
            node.listen(f"udp4://0.0.0.0:{port}", beside_links=True)
        node.start()
        yield Wire(port, neighbour)


@pytest.mark.parametrize("address", [ADDRESS, "0.0.0.0"])
def test_another_user_cannot_bind_to_the_address_of_a_link(wire: Wire, address: str) -> None:
    refused = by_another_user("bind", address, wire.port, wire.neighbour.getsockname()[1])
    assert refused == 4 * ["Address already in use"]
    assert wire.carries_packets()


def test_a_link_does_not_share_an_address_that_another_user_has() -> None:
    with (
        running_node() as node,
        subprocess.Popen(
            [*ANOTHER_USER, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder,
    ):
        assert holder.stdout is not None
        ports = [int(port) for port in holder.stdout.readline().split()]
        assert len(ports) == 4
        for port in ports:
            with pytest.raises(RuntimeError, match=r"bind .*Address already"):
                node.add_link(
                    local_address=ADDRESS,
                    local_port=port,
                    peer_address=ADDRESS,
                    peer_port=port,
                    beside_listener=True,
                )
        holder.communicate()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_another_user_finds_no_socket_or_file_of_a_local_run_s_shaped_links(
    tmp_path: Path, shared_memory: bool
) -> None:
    async def run() -> list[str]:
        said = Said()
        # Other tests of this process may have left some.
        opened_before = udp_ports(os.getpid())
        settings = Settings().with_assignments(
            [f"transport.shared_memory={str(shared_memory).lower()}"]
        )
        topology = load_topology("star:2").with_overrides(rate_bps=200e6)
        async with Session(topology, settings=settings, output=said) as session:
            command = [sys.executable, str(WORKERS / "sums_when_told.py"), str(tmp_path / "go")]
            job = asyncio.ensure_future(session.run_workers(command, algorithm="inc"))
            await said.until(("h0", "open"), ("h1", "open"))
            record = find_run(session.network.run_id)
            pids = [os.getpid(), *(process.identity.pid for process in record.processes)]
            opened = [port for pid in pids for port in udp_ports(pid)]
            assert [port for port in opened if port not in opened_before] == []
            path = record.run_dir / LINKS_SOCKET_NAME
            assert await asyncio.to_thread(by_another_user, "reach", path, *pids) == []
            (tmp_path / "go").touch()
            await job
        return said.by("h0")

    assert asyncio.run(run())[-1] == "3.0"


def udp_ports(pid: int) -> list[object]:
    """Where a process receives datagrams that any user can send."""
    return [found.laddr for found in psutil.Process(pid).net_connections("udp")]
