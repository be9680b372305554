"""Strangers at the port where the machines of a cluster join, and machines that lie."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
import zmq
import zmq.asyncio

from innet.cluster.machines import connection_limit, resumption, sockets
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.agent_key import KeyPair
from innet.cluster.machines.messages import (
    MAX_MESSAGE_BYTES,
    JoinAcceptance,
    JoinRefusal,
    JoinRequest,
    Message,
    NumberedFrame,
    OpenFrame,
    ResetFrame,
    bye_message,
    frame_message,
    heartbeat_message,
    join_message,
    own_version,
    parse_frame,
    parse_message,
)
from innet.cluster.machines.multiplexer import WINDOW_BYTES
from innet.cluster.machines.token_file import TokenFile
from tests.cluster.machines.cluster import Cluster, cluster_of

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3"
"""How ZeroMQ greets: the first bytes of a message without content, and a version."""
MACHINES = ("h1", "h2")


@asynccontextmanager
async def attacked(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A network whose machines join as ever afterwards."""
    async with cluster_of(tmp_path, *MACHINES, offered=("session.sock",)) as cluster:
        yield cluster
        async with cluster.connection("h1") as connection:
            assert connection.machine == "h1"


class Peer:
    """A CURVE client that knows the launcher's key, and sends what it likes."""

    def __init__(self, cluster: Cluster, identity: bytes = b"") -> None:
        self.token = TokenFile.load(cluster.token)
        self._context = zmq.asyncio.Context()
        self.socket = sockets.dealer(
            self._context, KeyPair.made(), self.token.public_key, timeout_s=5.0
        )
        if identity:
            self.socket.routing_id = identity
        self.socket.connect(cluster.listener.address.endpoint)

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def request(self, *machines: str, **changes: object) -> JoinRequest:
        values = {
            "network": "prod",
            "version": own_version(),
            "machines": {name: self.token.machines[name] for name in machines},
            "session": secrets.token_hex(16),
        }
        return JoinRequest.model_validate(values | changes)

    async def send(self, *messages: bytes) -> None:
        for message in messages:
            await self.socket.send(message)

    async def receive(self) -> Message:
        return parse_message(await self.socket.recv())

    async def join(self, *machines: str, **changes: object) -> Message:
        await self.send(join_message(self.request(*machines, **changes)))
        return await self.receive()

    async def received_nothing(self, cluster: Cluster) -> bool:
        """Whether nothing came until a machine that knocked later was answered."""
        async with cluster.connection("h2"):
            pass
        return not await self.socket.poll(0)


async def answer_to(address: Address, content: bytes) -> bytes:
    """All that the port sends until it closes the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(content)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # TLS
        b"SSH-2.0-scan\r\n",
        secrets.token_bytes(4096),
        b"\1\0",  # ZMTP 1
        GREETING[:10] + b"\1\0",  # ZMTP 2
        GREETING + b"\1NULL" + bytes(16 + 32),
        GREETING + b"\1PLAIN" + bytes(15 + 32) + b"\4\x0c\5HELLO\1a\1b",
        GREETING + b"\1CURVE" + bytes(15 + 32) + b"\4\xc8\5HELLO" + bytes(194),
    ],
    ids=[
        *("nothing", "zero", "http", "tls", "ssh", "random"),
        *("zmtp1", "zmtp2", "null", "plain", "curve"),
    ],
)
async def test_a_scanner_learns_at_most_that_zeromq_listens(
    tmp_path: Path, monkeypatch, content: bytes
) -> None:
    monkeypatch.setattr(sockets, "_HANDSHAKE_MS", 200)
    async with attacked(tmp_path) as cluster:
        answer = await answer_to(cluster.listener.address, content)
        greeting, rest = answer[:64], answer[64:]
        assert greeting[:11] == GREETING[: len(greeting)]
        assert greeting[12:].rstrip(b"\0") in (b"", b"CURVE", b"CURVE" + bytes(15) + b"\1")
        assert rest in (b"", b"\4\6\5ERROR")  # a handshake that cannot go on, without a reason


async def test_the_launcher_listens_at_one_address_and_agents_nowhere(tmp_path: Path) -> None:
    def listening() -> set[tuple[str, int]]:
        found = psutil.Process().net_connections(kind="inet")
        addresses = [each.laddr for each in found if each.status == psutil.CONN_LISTEN]
        return {(address.ip.removeprefix("::ffff:"), address.port) for address in addresses}

    before = listening()
    async with (
        cluster_of(tmp_path, "h1", offered=("session.sock",)) as cluster,
        cluster.connection("h1") as connection,
    ):
        await connection.serve(tmp_path)
        await (await cluster.listener.joined("h1")).serve(["h1.agent"])
        address = cluster.listener.address
        assert listening() - before == {(address.host, address.port)}
    assert listening() <= before


async def test_a_client_without_curve_gets_no_answer(tmp_path: Path) -> None:
    context = zmq.asyncio.Context()
    try:
        async with attacked(tmp_path) as cluster:
            client = context.socket(zmq.DEALER)
            client.connect(cluster.listener.address.endpoint)
            async with Peer(cluster) as peer:
                with contextlib.suppress(zmq.Again):  # the handshake has failed already
                    await client.send(join_message(peer.request("h1")), zmq.DONTWAIT)
                assert await peer.received_nothing(cluster)
            assert not await client.poll(0)
    finally:
        context.destroy(linger=0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}",
        heartbeat_message(0),
        frame_message(1, 0, OpenFrame(2, "session.sock").encoded()),
        bye_message("x"),
        b"\1{}",
        b"\2{}",
        secrets.token_bytes(1000),
    ],
    ids=["empty", "json", "heartbeat", "frame", "bye", "join", "reply", "random"],
)
async def test_messages_before_a_join_request_are_not_answered(
    tmp_path: Path, message: bytes
) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        await peer.send(message, message)
        assert await peer.received_nothing(cluster)


async def test_a_wrong_secret_is_refused_once_per_connection(tmp_path: Path) -> None:
    """And the refusal tells nothing that the stranger has not said."""
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        refusal = await peer.join(machines={"h1": "x" * 22})
        assert isinstance(refusal, JoinRefusal)
        assert refusal.reason == "secret"
        for known in ("prod", "h1", "h2", own_version(), *peer.token.machines.values()):
            assert known not in refusal.message
        await peer.send(*[join_message(peer.request("h1"))] * 100)
        assert await peer.received_nothing(cluster)
        assert "h1" in cluster.listener.missing


async def test_a_refused_machine_opens_no_stream(tmp_path: Path) -> None:
    connected: list[object] = []
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        session = cluster.run_dir / "session.sock"
        await asyncio.start_unix_server(lambda *_: connected.append(1), session)
        assert isinstance(await peer.join(machines={"h1": "x" * 22}), JoinRefusal)
        await peer.send(frame_message(1, 0, OpenFrame(2, "session.sock").encoded()))
        assert await peer.received_nothing(cluster)
    assert connected == []


async def test_an_identity_that_a_peer_has_chosen_is_not_answered(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster, identity=b"machine") as peer:
        await peer.send(join_message(peer.request("h1")))
        assert await peer.received_nothing(cluster)


async def test_a_recorded_join_request_is_useless_with_another_key(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer, Peer(cluster) as thief:
        recorded = join_message(peer.request("h2"))
        await peer.send(recorded)
        assert isinstance(await peer.receive(), JoinAcceptance)
        await thief.send(recorded)
        refusal = await thief.receive()
        assert isinstance(refusal, JoinRefusal)
        assert refusal.reason == "other-key"
        assert "h2" not in cluster.listener.missing


async def test_a_message_that_is_too_large_ends_only_its_connection(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        monitor = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        await peer.send(bytes(MAX_MESSAGE_BYTES + 1))
        await monitor.recv_multipart()
        peer.socket.disable_monitor()


@pytest.mark.parametrize("name", ["controller.ctl", "../session.sock", "/etc/passwd", "", ".."])
async def test_a_machine_opens_no_socket_that_is_not_offered(tmp_path: Path, name: str) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        await peer.send(frame_message(1, 0, OpenFrame(2, name).encoded()))
        while not isinstance(message := await peer.receive(), NumberedFrame):
            pass
        frame = parse_frame(message.frame)
        assert isinstance(frame, ResetFrame)
        assert "may be opened" in frame.reason


async def test_only_a_machine_that_skips_frames_is_lost(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        machine = await cluster.listener.joined("h2")
        await peer.send(frame_message(7, 0, b"x"))
        assert "lost messages" in await machine.lost()


async def test_a_machine_that_never_reads_holds_a_window_of_each_stream(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        await peer.send(join_message(peer.request("h2")))
        machine = await cluster.listener.joined("h2")
        await machine.serve(["h2.ctl"])
        _, writer = await asyncio.open_unix_connection(cluster.run_dir / "h2.ctl")
        writer.write(bytes(20 * WINDOW_BYTES))
        async with cluster.connection("h1"):  # the launcher has had time to read
            pass
        assert writer.transport.get_write_buffer_size() > 15 * WINDOW_BYTES
        writer.transport.abort()


async def test_a_machine_that_acknowledges_nothing_is_lost(tmp_path: Path, monkeypatch) -> None:
    """Each stream that it may not open provokes a reset, which the launcher keeps."""
    monkeypatch.setattr(resumption, "MAX_BACKLOG", 100)
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        machine = await cluster.listener.joined("h2")
        for number in range(1, 300):
            opened = OpenFrame(2 * number, "controller.ctl").encoded()
            await peer.send(frame_message(number, 0, opened))
        assert "without an acknowledgement" in await machine.lost()


async def test_a_connection_full_of_unread_messages_is_closed(tmp_path: Path, monkeypatch) -> None:
    """Heartbeats answer frames, and ZeroMQ would keep them all."""
    monkeypatch.setattr(sockets, "_UNSENT_MESSAGES", 100)
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        machine = await cluster.listener.joined("h2")
        monitor = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        closed = asyncio.ensure_future(monitor.recv_multipart())
        while (transmit := machine.tunnel._transmit) is not None:  # until it is interrupted
            transmit(bytes(100_000))

        async def read() -> None:
            while True:
                await peer.socket.recv()

        reading = asyncio.ensure_future(read())  # the peer notices after what was on its way
        await closed
        reading.cancel()
        peer.socket.disable_monitor()
        assert not machine.is_lost


async def test_refusals_without_end_are_printed_a_few_times(tmp_path: Path) -> None:
    said: list[str] = []
    async with attacked(tmp_path) as cluster:
        cluster.listener.on_refused(lambda _address, reason: said.append(reason))
        for number in range(40):
            async with Peer(cluster) as peer:
                refusal = await peer.join(machines={f"x{number}": "x" * 22})
                assert isinstance(refusal, JoinRefusal)
    assert len(said) == 20


async def test_silent_connections_hold_few_descriptors_and_end_no_session(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(sockets, "_HANDSHAKE_MS", 600_000)
    monkeypatch.setattr(connection_limit, "MAX_STRANGERS", 8)
    lost: list[str] = []
    async with attacked(tmp_path) as cluster, cluster.connection("h2") as connection:
        cluster.listener.on_lost(lambda machine, _reason: lost.append(machine.name))
        machine = await cluster.listener.joined("h2")
        address = cluster.listener.address
        strangers = [await asyncio.open_connection(address.host, address.port) for _ in range(20)]
        for reader, writer in strangers[:9]:
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        await connection.serve(tmp_path)
        session = cluster.run_dir / "session.sock"
        await asyncio.start_unix_server(lambda _, writer: writer.close(), session)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "session.sock")
        assert await reader.read() == b""
        assert not machine.is_lost
        assert lost == []
        for _, writer in strangers:
            writer.close()


async def test_the_reason_of_an_end_imitates_no_line_of_the_launcher(tmp_path: Path) -> None:
    async with attacked(tmp_path) as cluster, Peer(cluster) as peer:
        assert isinstance(await peer.join("h2"), JoinAcceptance)
        machine = await cluster.listener.joined("h2")
        await peer.send(bye_message("x\n[innet] all is well\x1b[2J"))
        reason = await machine.lost()
        assert "\n" not in reason
        assert "\x1b" not in reason
