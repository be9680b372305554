"""Answers of handlers that are no answers: one is dropped, and the client's connection goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from innet.errors import MalformedPacket, TransportError
from innet.ndn import Client, Refusal, encode_data, encode_interest
from innet.ndn.wire import encode_lp_packet, parse_data, parse_lp_packet
from tests.ndn.scripted_forwarder import ScriptedForwarder


@pytest.fixture
async def forwarder(tmp_path):
    async with ScriptedForwarder(tmp_path / "ndn.sock") as forwarder:
        yield forwarder


@pytest.fixture
async def client(forwarder):
    async with Client(forwarder.uri) as client:
        await client.register("/good", lambda interest: encode_data(interest.name, b"good"))
        yield client


class Odd:
    """Neither a packet nor anything else that a client knows."""


async def coroutine() -> bytes:
    return encode_data("/bad/x")


def of_coroutine() -> Any:
    async def outer() -> Any:
        return coroutine()

    return outer()


NOT_ANSWERS: dict[str, tuple[str, Any]] = {
    "text": ("type", "hello"),
    "number": ("type", 7),
    "list": ("type", [1, 2]),
    "class": ("type", bytes),
    "object": ("type", Odd()),
    "true": ("type", True),
    "empty": ("malformed", b""),
    "random": ("malformed", b"\xff" * 40),
    "content": ("malformed", b"hello"),
    "interest": ("malformed", encode_interest("/bad/x")),
    "link packet": ("malformed", encode_lp_packet(encode_data("/bad/x"), pit_token=b"t")),
    "two packets": ("malformed", encode_data("/bad/x") * 2),
    "half a packet": ("malformed", encode_data("/bad/x", bytes(100))[:-1]),
    "oversized": ("size", encode_data("/bad/x", bytes(9000))),
    "one byte too large": ("size", encode_data("/bad/x", bytes(8744))),
    "enormous": ("size", encode_data("/bad/x", bytes(200_000))),
    "another name": ("name", encode_data("/other/x")),
    "longer name": ("name", encode_data("/bad/x/y")),
    "shorter name": ("name", encode_data("/bad")),
    "unknown reason": ("type", Refusal(-1)),
    "reason of a wrong type": ("type", Refusal("no")),  # type: ignore[arg-type]
    "enormous reason": ("type", Refusal(1 << 80)),
}


def test_the_packet_that_is_one_byte_too_large_is_so() -> None:
    assert len(NOT_ANSWERS["one byte too large"][1]) == 8801


@pytest.mark.parametrize("token", [b"", b"token"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", NOT_ANSWERS)
async def test_what_is_no_answer_is_dropped_and_other_prefixes_are_served(
    client, forwarder, caplog, case, is_async, token
):
    reason, answer = NOT_ANSWERS[case]

    async def later(interest: Any) -> Any:
        await asyncio.sleep(0)
        return answer

    await client.register("/bad", later if is_async else lambda interest: answer)
    forwarder.send(encode_lp_packet(encode_interest("/bad/x"), pit_token=token))
    await until(lambda: client.dropped_answers)
    forwarder.send(encode_interest("/good/x"))
    assert await forwarder.received.get() == encode_data("/good/x", b"good")
    assert client.dropped_answers == {reason: 1}
    assert "/bad/x" in caplog.text
    assert "lost" not in caplog.text


@pytest.mark.parametrize(
    ("error", "is_async"),
    [
        (ValueError("no"), False),
        (ValueError("no"), True),
        (StopIteration(), True),
        (StopIteration(), False),
        (asyncio.CancelledError(), False),
        (GeneratorExit(), False),
    ],
)
async def test_a_handler_that_raises_ends_neither_connection_nor_client(
    client, forwarder, error, is_async
):
    def fails(interest: Any) -> Any:
        raise error

    async def fails_later(interest: Any) -> Any:
        raise error

    await client.register("/bad", fails_later if is_async else fails)
    forwarder.send(encode_interest("/bad/x"))
    await until(lambda: client.dropped_answers)
    forwarder.send(encode_interest("/good/x"))
    assert parse_data(await forwarder.received.get()).content == b"good"
    assert client.dropped_answers == {"exception": 1}


async def test_a_coroutine_that_a_coroutine_returns_is_named(client, forwarder, caplog):
    await client.register("/bad", lambda interest: of_coroutine())
    forwarder.send(encode_interest("/bad/x"))
    with pytest.warns(RuntimeWarning, match="never awaited"):
        await until(lambda: client.dropped_answers)
    assert "it is of type coroutine, expected bytes" in caplog.text


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_answers_are_packets_of_the_name_or_of_a_prefix_s_longer_names(
    client, forwarder, kind
):
    await client.register("/p", lambda interest: kind(encode_data("/p/x/y", b"content")))
    for interest in (encode_interest("/p/x/y"), encode_interest("/p", can_be_prefix=True)):
        forwarder.send(interest)
        assert parse_data(await forwarder.received.get()).content == b"content"
    assert not client.dropped_answers


async def test_a_packet_of_8800_bytes_is_an_answer(client, forwarder):
    await client.register("/p", lambda interest: encode_data("/p/x", bytes(8745)))
    forwarder.send(encode_interest("/p/x"))
    assert len(await forwarder.received.get()) == 8800


async def test_what_a_client_cannot_send_is_an_error_of_the_caller(client, forwarder):
    with pytest.raises(TransportError, match="would be a packet of"):
        await client.express("/x", parameters=bytes(9000))
    with pytest.raises(TransportError, match="would be a packet of"):
        client.send(encode_data("/x", bytes(9000)))
    for packet in (b"", b"hello", encode_data("/x") * 2):
        with pytest.raises(MalformedPacket):
            client.send(packet)
    forwarder.send(encode_interest("/good/x"))
    assert parse_lp_packet(await forwarder.received.get()).payload == encode_data(
        "/good/x", b"good"
    )


async def test_the_log_says_which_answer_was_dropped_and_why(client, forwarder, caplog):
    caplog.set_level(logging.ERROR)
    await client.register("/bad", lambda interest: "text")
    forwarder.send(encode_interest("/bad/x"))
    await until(lambda: client.dropped_answers)
    assert (
        "dropped the answer of the producer of /bad/x: it is of type str, expected bytes (a Data "
        "packet, see encode_data), Refusal or None"
    ) in caplog.text


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 (a counter has no event)
            await asyncio.sleep(0.001)
