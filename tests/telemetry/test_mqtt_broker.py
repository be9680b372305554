"""The embedded broker keeps what MQTT 3.1.1 promises to its clients."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.telemetry.broker_socket import client_through
from innet.telemetry.mqtt_broker import BrokerLimits, Subscriptions, matches
from innet.telemetry.mqtt_packets import MalformedMqttPacket, Packet, PacketParser
from innet.telemetry.mqtt_session import SessionLimits

from . import raw_mqtt
from .raw_mqtt import DISCONNECT, PINGREQ, RawClient, embedded, raw_client

needs_mosquitto_clients = pytest.mark.skipif(
    shutil.which("mosquitto_sub") is None,
    reason="mosquitto_sub is not installed (Debian: apt-get install mosquitto-clients)",
)

EVENT = "innet/lab/nodes/s0/event"
CONNACK, PINGRESP, SUBACK = 0x20, 0xD0, 0x90


async def retain_some(broker_socket: Path) -> None:
    """Messages as the nodes of a run retain them on its broker."""
    async with raw_client(broker_socket, raw_mqtt.connect()) as nodes:
        for number in range(50):
            topic = f"innet/lab/nodes/n{number}/status"
            nodes.send(raw_mqtt.publish(topic, b"up" * 500, retain=True))
        await ping(nodes)


async def ping(client: RawClient) -> list[int]:
    """Wait until all that a client has sent is done; the first bytes of what it got before."""
    client.send(PINGREQ)
    firsts: list[int] = []
    while (packet := await client.read())[0] != PINGRESP:
        firsts.append(packet[0])
    return firsts


@pytest.mark.parametrize("topic_filter", ["innet/lab/#", "innet/+/nodes/s0/event", "#", EVENT])
async def test_the_last_messages_of_a_client_reach_all_subscribers(
    tmp_path: Path, topic_filter: str
) -> None:
    async with embedded(tmp_path) as (_, broker_socket):
        await retain_some(broker_socket)
        async with raw_client(broker_socket, raw_mqtt.connect()) as viewer:
            viewer.send(raw_mqtt.subscribe(topic_filter))
            await ping(viewer)
            for number in range(8):
                said = raw_mqtt.publish(EVENT, b"%d" % number)
                async with raw_client(
                    broker_socket, raw_mqtt.connect(), said, DISCONNECT
                ) as source:
                    await source.until_closed()
            assert await viewer.messages(8) == [(EVENT, b"%d" % n) for n in range(8)]


async def test_clients_without_a_subscription_receive_nothing(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (_, broker_socket):
        await retain_some(broker_socket)
        async with raw_client(
            broker_socket, raw_mqtt.connect(), raw_mqtt.subscribe("innet/#")
        ) as viewer:
            await viewer.messages(50)
            async with raw_client(broker_socket, raw_mqtt.connect()) as client:
                assert await ping(client) == [CONNACK]
                client.send(raw_mqtt.subscribe("innet/lab/nodes/n7/+"))
                assert await client.messages(1) == [("innet/lab/nodes/n7/status", b"up" * 500)]
                assert await ping(client) == []


@needs_mosquitto_clients
@pytest.mark.parametrize("way", ["socket", "port"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
async def test_mosquitto_clients_work_with_the_broker(tmp_path: Path, way: str, qos: str) -> None:
    async def run(program: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            program, *where, "-q", qos, *arguments, stdout=asyncio.subprocess.PIPE
        )

    async with embedded(tmp_path) as (broker, broker_socket):
        assert broker.url is not None
        assert broker.url.password is not None
        port = ("-p", str(broker.url.port), "-u", "innet", "-P", broker.url.password)
        where = ("--unix", str(broker_socket)) if way == "socket" else ("-h", "127.0.0.1", *port)
        retained = await run("mosquitto_pub", "-t", "innet/lab/kept", "-m", "kept", "-r")
        assert await retained.wait() == 0
        viewer = await run("mosquitto_sub", "-v", "-t", "innet/lab/#", "-C", "9")
        assert viewer.stdout is not None
        assert await viewer.stdout.readline() == b"innet/lab/kept kept\n"  # it has subscribed
        for number in range(8):
            source = await run("mosquitto_pub", "-t", EVENT, "-m", str(number))
            assert await source.wait() == 0
        said = await viewer.stdout.read()
        assert said.decode().splitlines() == [f"{EVENT} {number}" for number in range(8)]
        assert await viewer.wait() == 0


async def test_the_will_is_sent_for_a_lost_client_and_not_after_a_disconnect(
    tmp_path: Path,
) -> None:
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as viewer,
    ):
        viewer.send(raw_mqtt.subscribe("will/+"))
        await ping(viewer)
        hello = raw_mqtt.connect(will=("will/parts", b"gone"))
        async with raw_client(broker_socket, hello, DISCONNECT) as client:
            await client.until_closed()
        async with raw_client(
            broker_socket, raw_mqtt.connect("x", will=("will/lost", b"gone"))
        ) as client:
            await ping(client)
        assert await viewer.messages(1) == [("will/lost", b"gone")]


async def test_a_client_silent_beyond_its_keep_alive_is_lost(tmp_path: Path) -> None:
    hello = raw_mqtt.connect(will=("will/silent", b"gone"), keepalive_s=1)
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as viewer,
    ):
        viewer.send(raw_mqtt.subscribe("will/#"))
        await ping(viewer)
        async with raw_client(broker_socket, hello) as client:
            assert await viewer.messages(1) == [("will/silent", b"gone")]
            await client.until_closed()


async def test_the_will_of_a_client_precedes_messages_of_its_successor(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as viewer,
    ):
        viewer.send(raw_mqtt.subscribe("s0"))
        await ping(viewer)
        hello = raw_mqtt.connect("s0", will=("s0", b"gone"))
        async with raw_client(broker_socket, hello) as first:
            await ping(first)
            async with raw_client(broker_socket, hello, raw_mqtt.publish("s0", b"up")) as second:
                assert await viewer.messages(2) == [("s0", b"gone"), ("s0", b"up")]
                await first.until_closed()
                assert await ping(second) == [CONNACK]


async def test_a_client_that_does_not_read_costs_a_bounded_queue_and_no_messages_of_others(
    tmp_path: Path,
) -> None:
    limits = BrokerLimits(session=SessionLimits(queued_bytes=1 << 20))
    payload = bytes(1 << 16)
    count = 64
    async with embedded(tmp_path, limits) as (broker, broker_socket):
        hello = raw_mqtt.connect(), raw_mqtt.subscribe("#")
        async with (
            raw_client(broker_socket, *hello) as stuck,
            raw_client(broker_socket, *hello) as viewer,
        ):
            assert isinstance(stuck.writer.transport, asyncio.Transport)
            stuck.writer.transport.pause_reading()
            await ping(viewer)
            for number in range(count):
                async with raw_client(broker_socket, raw_mqtt.connect()) as source:
                    source.send(raw_mqtt.publish(f"t/{number}", payload), DISCONNECT)
                    assert await viewer.messages(1) == [(f"t/{number}", payload)]
            assert 0 < broker.broker.counters.dropped < count


async def test_a_malformed_packet_ends_only_its_connection(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as other,
    ):
        for junk in (b"\xff" * 8, b"GET / HTTP/1.1\r\n\r\n", raw_mqtt.publish("a/+", b"")):
            async with raw_client(broker_socket, raw_mqtt.connect(), junk) as client:
                assert await client.until_closed() in (b"\x20\x02\0\0", b"")
        assert await ping(other) == [CONNACK]


async def test_another_version_of_mqtt_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (_, broker_socket):
        hello = raw_mqtt.packet(0x10, raw_mqtt.text("MQTT") + b"\5\2\0\0\0\0\0")
        async with raw_client(broker_socket, hello) as client:
            assert await client.until_closed() == b"\x20\x02\x00\x01"


async def test_a_client_can_end_its_subscription(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path) as (_, broker_socket),
        client_through(broker_socket, None) as viewer,
    ):
        await viewer.subscribe("a/#")
        await viewer.subscribe("b/#", 1)
        await viewer.unsubscribe("a/#")
        await viewer.publish("a/1", b"not wanted", 1)
        await viewer.publish("b/1", b"wanted", 1)
        message = await anext(aiter(viewer.messages))
        assert (str(message.topic), message.payload) == ("b/1", b"wanted")


async def test_a_cleared_message_is_not_retained(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path) as (_, broker_socket),
        raw_client(broker_socket, raw_mqtt.connect()) as client,
    ):
        client.send(
            raw_mqtt.publish("a", b"1", retain=True), raw_mqtt.publish("a", b"", retain=True)
        )
        client.send(raw_mqtt.subscribe("#"))
        assert await ping(client) == [CONNACK, SUBACK]


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$s"]), min_size=1, max_size=4)
FILTER_LEVELS = st.lists(st.sampled_from(["a", "b", "", "$s", "+"]), min_size=1, max_size=4)


@given(topic=LEVELS, levels=FILTER_LEVELS, ends_open=st.booleans())
def test_filters_match_as_in_the_standard(
    topic: list[str], levels: list[str], ends_open: bool
) -> None:
    """Section 4.7 as a regular expression."""
    pattern = "/".join("[^/]*" if level == "+" else re.escape(level) for level in levels)
    pattern += "(/.*)?" if ends_open else ""
    name, topic_filter = "/".join(topic), "/".join([*levels, *(["#"] if ends_open else [])])
    hidden = name.startswith("$") and topic_filter[:1] == "+"
    expected = re.fullmatch(pattern, name) is not None and not hidden
    assert matches(topic_filter, name) == expected
    subscriptions: Subscriptions[str] = Subscriptions()
    subscriptions.add("viewer", topic_filter, 1)
    subscriptions.add("viewer", name, 0)
    assert dict(subscriptions.of(name)) == {"viewer": int(expected or topic_filter == name)} or (
        name == topic_filter and dict(subscriptions.of(name)) == {"viewer": 0}
    )
    subscriptions.forget("viewer")
    assert not dict(subscriptions.of(name))


@given(cuts=st.lists(st.integers(0, 200), max_size=10))
def test_packets_are_parsed_for_any_split_of_the_stream(cuts: list[int]) -> None:
    hello = raw_mqtt.connect("x", login=("innet", "secret"), will=("w", b"gone"))
    stream = hello + raw_mqtt.publish("a/b", b"c" * 130) + raw_mqtt.subscribe("#", 1) + PINGREQ
    whole = list(PacketParser(1000).feed(stream))
    parser, parts = PacketParser(1000), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(stream)], strict=True):
        parts += list(parser.feed(stream[start:end]))
    assert parts == whole
    assert len(whole) == 4
    assert "secret" not in repr(whole)


@given(stream=st.binary(max_size=300))
def test_arbitrary_bytes_are_packets_or_malformed(stream: bytes) -> None:
    found: list[Packet] = []
    parser = PacketParser(1000)
    try:
        found += parser.feed(stream)
    except MalformedMqttPacket:
        return
    assert len(found) <= len(stream) // 2
