"""What another user of the machine can do to the links of nodes: nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

NOBODY = 65534
ADDRESS = "127.0.0.1"
REUSE = {
    "neither": (),
    "address": (socket.SO_REUSEADDR,),
    "port": (socket.SO_REUSEPORT,),
    "both": (socket.SO_REUSEADDR, socket.SO_REUSEPORT),
}
"""What the other user's socket sets to share an address."""
WORKER = Path(__file__).parent / "workers" / "sums_when_told.py"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start a process of another user"
)


def by_another_user(function: Callable[..., str], *arguments: object) -> str:
    """What ``function`` returns in a process of the user nobody."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_as_nobody, args=(theirs, function, arguments))
    process.start()
    said = str(ours.recv())
    process.join()
    return said


def _run_as_nobody(pipe: Any, function: Callable[..., str], arguments: tuple[object, ...]) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    pipe.send(function(*arguments))


def bind(address: str, port: int, reuse: str, *, peer: int | None = None) -> str:
    """Bind a UDP socket, and connect it to ``peer``."""
    with socket.socket(type=socket.SOCK_DGRAM) as opened:
        for option in REUSE[reuse]:
            opened.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            opened.bind((address, port))
        except OSError as error:
            return str(error.strerror)
        if peer is not None:
            opened.connect((ADDRESS, peer))
        return "bound"


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


@pytest.mark.parametrize("reuse", REUSE)
@pytest.mark.parametrize("address", [ADDRESS, "0.0.0.0"])
def test_another_user_cannot_bind_to_the_address_of_a_link(
    wire: Wire, address: str, reuse: str
) -> None:
    peer = int(wire.neighbour.getsockname()[1])
    refused = by_another_user(lambda: bind(address, wire.port, reuse, peer=peer))
    assert refused == "Address already in use"
    assert wire.carries_packets()


@pytest.mark.parametrize("reuse", REUSE)
def test_a_link_does_not_share_an_address_that_another_user_has(reuse: str) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_hold, args=(theirs, reuse))
    process.start()
    port = ours.recv()
    with running_node() as node, pytest.raises(RuntimeError, match=r"bind .*Address already"):
        node.add_link(
            local_address=ADDRESS,
            local_port=port,
            peer_address=ADDRESS,
            peer_port=port,
            beside_listener=True,
        )
    ours.send("end")
    process.join()


def _hold(pipe: Any, reuse: str) -> None:
    os.setuid(NOBODY)
    with socket.socket(type=socket.SOCK_DGRAM) as opened:
        for option in REUSE[reuse]:
            opened.setsockopt(socket.SOL_SOCKET, option, 1)
        opened.bind((ADDRESS, 0))
        pipe.send(opened.getsockname()[1])
        pipe.recv()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shared_memory", [True, False])
def test_another_user_finds_no_socket_or_file_of_a_local_run_s_shaped_links(
    tmp_path: Path, shared_memory: bool
) -> None:
    async def run() -> list[str]:
        said = Said()
        settings = Settings().with_assignments(
            [f"transport.shared_memory={str(shared_memory).lower()}"]
        )
        topology = load_topology("star:2").with_overrides(rate_bps=200e6)
        async with Session(topology, settings=settings, output=said) as session:
            command = [sys.executable, str(WORKER), str(tmp_path / "go")]
            job = asyncio.ensure_future(session.run_workers(command, algorithm="inc"))
            await said.until(("h0", "open"), ("h1", "open"))
            record = find_run(session.network.run_id)
            pids = [os.getpid(), *(process.identity.pid for process in record.processes)]
            assert [port for pid in pids for port in udp_ports(pid)] == []
            assert await asyncio.to_thread(by_another_user, reach, pids, record.run_dir) == ""
            (tmp_path / "go").touch()
            await job
        return said.by("h0")

    assert asyncio.run(run())[-1] == "3.0"


def udp_ports(pid: int) -> list[object]:
    """Where a process receives datagrams that any user can send."""
    return [found.laddr for found in psutil.Process(pid).net_connections("udp")]


def reach(pids: list[int], run_dir: Path) -> str:
    """What of a run's links the calling user can open."""
    opened = []
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with connection, suppress(PermissionError):
        connection.connect(str(run_dir / LINKS_SOCKET_NAME))
        opened.append("the launcher's socket")
    for pid in pids:
        with suppress(PermissionError):
            opened += [f"descriptor {fd} of {pid}" for fd in os.listdir(f"/proc/{pid}/fd")]
    return ", ".join(opened)
