"""Programs that open connections to the run's MQTT broker and say nothing, or too much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from innet.telemetry.broker_socket import client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.embedded_broker import EmbeddedBroker
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.mqtt_session import Listener, SessionLimits
from innet.telemetry.relay import Relay
from innet.telemetry.topics import launcher_topics, node_topics
from tests.telemetry import raw_mqtt
from tests.telemetry.raw_mqtt import DISCONNECT, PINGREQ, RawClient, embedded, raw_client

SILENT = 300
LIMITS = BrokerLimits(clients=8, clients_of_process=4, silent=16)
PATIENT = BrokerLimits(silent=SILENT, session=SessionLimits(connect_timeout_s=0.05))
ACCEPTED, UNAVAILABLE, NOT_AUTHORIZED = b"\x20\x02\0\0", b"\x20\x02\0\3", b"\x20\x02\0\5"
PINGRESP = 0xD0


@contextlib.asynccontextmanager
async def silent_connections(where: Path | int, count: int) -> AsyncIterator[list[RawClient]]:
    """Many who connect, and wait."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(raw_client(where)) for _ in range(count)]


async def is_served(broker_socket: Path) -> bool:
    """Whether a client can log in, subscribe and be told."""
    async with client_through(broker_socket, None) as client:
        await client.subscribe("a", 1)
        await client.publish("a", b"1", 1)
        return (await anext(aiter(client.messages))).payload == b"1"


@pytest.mark.parametrize("way", ["socket", "port"])
async def test_silent_connections_hold_few_descriptors_and_block_nobody(
    tmp_path: Path, way: str
) -> None:
    async with embedded(tmp_path, LIMITS) as (broker, broker_socket):
        assert broker.url is not None
        before = psutil.Process().num_fds()
        async with silent_connections(
            broker_socket if way == "socket" else broker.url.port, SILENT
        ):
            assert await is_served(broker_socket)
            assert broker.broker.connections <= LIMITS.silent + 1
            assert broker.broker.counters.silent_closed >= SILENT - LIMITS.silent - 1
            held = psutil.Process().num_fds() - before - SILENT  # the attacker's are ours, too
            assert held <= LIMITS.silent + 1


@pytest.mark.parametrize("begin", [b"", b"\x10", raw_mqtt.connect()[:-1]])
async def test_a_client_that_does_not_send_connect_in_time_is_closed(
    tmp_path: Path, begin: bytes
) -> None:
    async with embedded(tmp_path, PATIENT) as (broker, broker_socket):
        async with silent_connections(broker_socket, SILENT) as connections:
            for connection in connections:
                connection.send(begin)
            for connection in connections:
                assert await connection.until_closed() == b""
            assert broker.broker.counters.silent_closed == SILENT
            assert broker.broker.connections == 0
        assert await is_served(broker_socket)


async def test_strangers_at_the_port_do_not_close_connections_of_the_socket(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path, LIMITS) as (broker, broker_socket),
        raw_client(broker_socket) as slow,
    ):
        assert broker.url is not None
        async with silent_connections(broker.url.port, SILENT):
            slow.send(raw_mqtt.connect())
            assert await slow.read() == (ACCEPTED[0], ACCEPTED[2:])


@pytest.mark.parametrize("login", [None, ("innet", ""), ("innet", "guess"), ("ann", "guess")])
async def test_the_port_needs_the_password(tmp_path: Path, login: tuple[str, str] | None) -> None:
    async with embedded(tmp_path, LIMITS) as (broker, _):
        assert broker.url is not None
        async with raw_client(broker.url.port, raw_mqtt.connect(login=login)) as client:
            client.send(raw_mqtt.publish("a", b"1", retain=True))
            assert await client.until_closed() in (NOT_AUTHORIZED, b"")
        assert broker.broker.connections == 0


async def test_one_process_cannot_use_up_all_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "innet"):
        async with (
            embedded(tmp_path, LIMITS) as (_, broker_socket),
            contextlib.AsyncExitStack() as stack,
        ):
            hello = raw_mqtt.connect()
            clients = [
                await stack.enter_async_context(raw_client(broker_socket, hello))
                for _ in range(LIMITS.clients_of_process)
            ]
            for client in clients:
                assert await client.read() == (ACCEPTED[0], ACCEPTED[2:])
            async with raw_client(broker_socket, hello) as one_more:
                assert await one_more.until_closed() == UNAVAILABLE
            assert "Close some of them" in caplog.text
            clients[0].send(DISCONNECT)
            await clients[0].until_closed()
            async with raw_client(broker_socket, hello) as another:
                assert await another.read() == (ACCEPTED[0], ACCEPTED[2:])


async def test_a_repeatedly_refused_client_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = BrokerLimits(clients=1, retained_bytes=300)
    with caplog.at_level(logging.WARNING, "innet"):
        async with (
            embedded(tmp_path, limits) as (broker, broker_socket),
            raw_client(broker_socket) as client,
        ):
            client.send(raw_mqtt.connect())
            client.send(*[raw_mqtt.publish("a", bytes(300), retain=True)] * 50)
            await ping(client)
            for number in range(50):
                async with raw_client(broker_socket, raw_mqtt.connect(f"c{number}")) as another:
                    assert await another.until_closed() == UNAVAILABLE
            counters = broker.broker.counters
            assert (counters.not_retained, counters.refused) == (50, 50)
    assert len(caplog.records) == 2
    assert all("counted and not logged" in record.message for record in caplog.records)


async def test_a_client_with_many_subscriptions_blocks_nobody(tmp_path: Path) -> None:
    filters = [f"+/nothing-{number}" for number in range(200)]
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as other,
    ):
        other.send(*(raw_mqtt.publish(f"t/{n:x}", b"1", retain=True) for n in range(5_000)))
        await ping(other)
        async with raw_client(broker_socket, raw_mqtt.connect()) as greedy:
            greedy.send(*map(raw_mqtt.subscribe, filters))
            answer = asyncio.create_task(ping(greedy))
            for _ in range(20):
                await ping(other)
            assert not answer.done()
            assert await answer == 1 + len(filters)  # CONNACK, and a SUBACK each


async def test_a_slow_reader_receives_all_retained_messages(tmp_path: Path) -> None:
    limits = BrokerLimits(session=SessionLimits(queued_bytes=1 << 18))
    payload = bytes(1 << 16)
    topics = [f"t/{number}" for number in range(64)]
    async with embedded(tmp_path, limits) as (broker, broker_socket):
        async with raw_client(broker_socket, raw_mqtt.connect()) as source:
            source.send(*(raw_mqtt.publish(topic, payload, retain=True) for topic in topics))
            await ping(source)
            hello = raw_mqtt.connect("slow"), raw_mqtt.subscribe("#"), PINGREQ
            async with raw_client(broker_socket) as slow:
                assert isinstance(slow.writer.transport, asyncio.Transport)
                slow.writer.transport.pause_reading()
                slow.send(*hello)
                while "slow" not in broker.broker._sessions:
                    await ping(source)
                while broker.broker._sessions["slow"]._is_writable:
                    await ping(source)
                slow.writer.transport.resume_reading()
                assert await slow.messages(64) == [(topic, payload) for topic in topics]
                assert (await slow.read())[0] == PINGRESP
        assert broker.broker.counters.dropped == 0


async def test_a_slow_reader_stays_connected_while_it_reads(tmp_path: Path) -> None:
    """What it sends is not looked at before it has read what it got: so neither are its pings."""
    async with (
        embedded(tmp_path) as (broker, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as other,
        raw_client(
            broker_socket, raw_mqtt.connect("x", keepalive_s=600), raw_mqtt.subscribe("a")
        ) as slow,
    ):
        await ping(slow)
        assert isinstance(slow.writer.transport, asyncio.Transport)
        slow.writer.transport.pause_reading()
        session = broker.broker._sessions["x"]
        while session._is_writable:
            other.send(raw_mqtt.publish("a", bytes(1 << 20)))
            await ping(other)
        before = session._transport.get_write_buffer_size()
        slow.writer.transport.resume_reading()
        while session._transport.get_write_buffer_size() == before:
            await slow.reader.read(4096)
        slow.writer.transport.pause_reading()
        assert not session._is_writable
        session._on_silence()
        assert broker.broker.connections == 2
        session._on_silence()  # it has read nothing since
        assert broker.broker.connections == 1


async def test_a_port_in_use_leaves_no_socket_behind(tmp_path: Path) -> None:
    broker_socket = tmp_path / "broker.sock"
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as taken:
        port = taken.sockets[0].getsockname()[1]
        before = psutil.Process().num_fds()
        with pytest.raises(OSError, match="address already in use"):
            await EmbeddedBroker(broker_socket, port).__aenter__()
        assert not broker_socket.exists()
        assert psutil.Process().num_fds() == before


async def test_a_client_that_leaves_without_reading_keeps_no_connection_to_a_remote_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_socket = tmp_path / "broker.sock"
    accepted: list[asyncio.StreamWriter] = []
    has_unsent = asyncio.Event()
    accept = Relay._accept

    def record(relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        accept(relay, reader, writer)

    async def say_much(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while not accepted[0].transport.get_write_buffer_size():
                writer.write(bytes(1 << 16))
                await writer.drain()
            has_unsent.set()

    monkeypatch.setattr(Relay, "_accept", record)
    far = await asyncio.start_server(say_much, "127.0.0.1", 0)
    port = far.sockets[0].getsockname()[1]
    async with (
        far,
        Relay(broker_socket, BrokerUrl("127.0.0.1", port)) as relay,
        raw_client(broker_socket) as client,
    ):
        assert isinstance(client.writer.transport, asyncio.Transport)
        client.writer.transport.pause_reading()
        client.send(raw_mqtt.connect())
        await has_unsent.wait()
        [connection] = relay._connections
        client.writer.write_eof()
        await asyncio.wait([connection], timeout=60)
        assert connection.done()
        await asyncio.sleep(0)
        assert accepted[0].get_extra_info("socket").fileno() == -1


async def ping(client: RawClient) -> int:
    """How many packets the client got before the broker had done all that it sent."""
    client.send(PINGREQ)
    count = 0
    while (await client.read())[0] != PINGRESP:
        count += 1
    return count


async def test_a_client_that_leaves_without_reading_holds_no_descriptor(tmp_path: Path) -> None:
    """Nobody will ever take what the broker still has for it."""
    async with (
        embedded(tmp_path) as (broker, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as other,
        raw_client(broker_socket, raw_mqtt.connect("x"), raw_mqtt.subscribe("a")) as client,
    ):
        await ping(client)
        assert isinstance(client.writer.transport, asyncio.Transport)
        client.writer.transport.pause_reading()
        session = broker.broker._sessions["x"]
        while session._transport.get_write_buffer_size() == 0:
            other.send(raw_mqtt.publish("a", bytes(4096)))
            await ping(other)
        before = psutil.Process().num_fds()
        client.send(DISCONNECT)
        while broker.broker.connections > 1:
            await ping(other)
        await ping(other)
        assert psutil.Process().num_fds() == before - 1


async def test_one_byte_messages_are_not_retained_without_limit(tmp_path: Path) -> None:
    limits = BrokerLimits(retained_bytes=1 << 20)
    count = 10_000
    async with (
        embedded(tmp_path, limits) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as it,
    ):
        it.send(*(raw_mqtt.publish(f"{n:x}", b"1", retain=True) for n in range(count)))
        await ping(it)
        it.send(raw_mqtt.subscribe("#"))
        assert 0 < await ping(it) <= limits.retained_bytes // 256


async def test_a_large_connect_of_a_stranger_is_refused(tmp_path: Path) -> None:
    async with embedded(tmp_path, LIMITS) as (broker, _):
        assert broker.url is not None
        size = LIMITS.session.connect_bytes + 1
        async with raw_client(broker.url.port, raw_mqtt.packet(0x10, bytes(size))) as client:
            assert await client.until_closed() == b""


async def test_silent_connections_do_not_reach_a_remote_broker(tmp_path: Path) -> None:
    """One descriptor each in the launcher for a while, and none at the broker."""
    broker_socket = tmp_path / "broker.sock"
    accepted = asyncio.Semaphore(0)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.release()
        writer.write(b"served")
        writer.close()

    far = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = far.sockets[0].getsockname()[1]
    async with far, Relay(broker_socket, BrokerUrl("127.0.0.1", port), LIMITS):
        async with silent_connections(broker_socket, SILENT) as connections:
            for connection in connections[: SILENT - LIMITS.silent]:
                assert await connection.until_closed() == b""
            async with raw_client(broker_socket, raw_mqtt.connect()) as client:
                assert await client.until_closed() == b"served"
        assert accepted.locked() is False
        await accepted.acquire()
        assert accepted.locked()


@contextlib.asynccontextmanager
async def with_machines(
    tmp_path: Path, *machines: Listener, limits: BrokerLimits = LIMITS
) -> AsyncIterator[tuple[EmbeddedBroker, Path, list[Path]]]:
    """A broker with a socket for each of some other machines."""
    sockets = {tmp_path / f"broker.sock@{each.machine}": each for each in machines}
    own = tmp_path / "broker.sock"
    async with EmbeddedBroker(own, limits=limits, machines=sockets) as broker:
        yield broker, own, list(sockets)


async def test_a_machine_takes_no_places_of_others(tmp_path: Path) -> None:
    """Nor does it replace a client of the same name on another machine."""
    h1, h2 = (Listener(machine=name, clients=3) for name in ("h1", "h2"))
    async with (
        with_machines(tmp_path, h1, h2) as (_, own, (first, second)),
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(3):
            liar = await stack.enter_async_context(
                raw_client(first, raw_mqtt.connect(f"c{number}"))
            )
            assert await liar.read() == (ACCEPTED[0], ACCEPTED[2:])
        async with raw_client(first, raw_mqtt.connect("one more")) as refused:
            assert await refused.until_closed() == UNAVAILABLE
        for where in (own, second):
            for number in range(3):
                honest = await stack.enter_async_context(
                    raw_client(where, raw_mqtt.connect(f"c{number}"))
                )
                assert await honest.read() == (ACCEPTED[0], ACCEPTED[2:])
        await ping(liar)  # still there


async def test_a_machine_may_have_more_clients_than_a_process(tmp_path: Path) -> None:
    """Its clients are relayed by one process, the launcher's."""
    async with (
        with_machines(tmp_path, Listener(machine="h1", clients=100)) as (_, _, (socket,)),
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(100):
            client = await stack.enter_async_context(
                raw_client(socket, raw_mqtt.connect(f"c{number}"))
            )
            assert await client.read() == (ACCEPTED[0], ACCEPTED[2:])


async def test_a_machine_publishes_of_its_own_nodes_alone(tmp_path: Path) -> None:
    own_topic = node_topics("lab", "h1").status
    others = (launcher_topics("lab").status, node_topics("lab", "h2").counters, "innet/lab/x")
    machine = Listener(machine="h1", clients=3, topics=frozenset({own_topic}))
    async with (
        with_machines(tmp_path, machine) as (broker, own, (socket,)),
        client_through(own, None) as reader,
    ):
        await reader.subscribe("#", 1)
        for will in others:
            async with raw_client(socket, raw_mqtt.connect("liar", will=(will, b"gone"))) as liar:
                await liar.read()
                liar.send(*(raw_mqtt.publish(topic, b"lie", retain=True) for topic in others))
                await ping(liar)
        async with raw_client(socket, raw_mqtt.connect("honest")) as honest:
            await honest.read()
            honest.send(raw_mqtt.publish(own_topic, b"up"))
            message = await anext(aiter(reader.messages))
        assert (str(message.topic), message.payload) == (own_topic, b"up")
        assert broker.broker.counters.foreign_topics == len(others) ** 2
