"""Messages and frames: what is written is read, anything else is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.machines.messages import (
    MAX_DATA_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_REASON_BYTES,
    Bye,
    CreditFrame,
    DataFrame,
    EndFrame,
    Frame,
    Heartbeat,
    Heartbeats,
    JoinAcceptance,
    JoinRefusal,
    JoinRequest,
    MalformedMessage,
    NumberedFrame,
    OpenFrame,
    ResetFrame,
    bye_message,
    frame_message,
    heartbeat_message,
    join_message,
    parse_frame,
    parse_message,
    reply_message,
)

numbers = st.integers(0, (1 << 64) - 1)
streams = st.integers(0, (1 << 32) - 1)
reasons = st.text(max_size=100)
frames = st.one_of(
    st.builds(OpenFrame, streams, st.text(max_size=20)),
    st.builds(DataFrame, streams, st.binary(min_size=1, max_size=100)),
    st.builds(CreditFrame, streams, streams),
    st.builds(EndFrame, streams),
    st.builds(ResetFrame, streams, reasons),
)

REQUEST = JoinRequest(
    network="prod", version="1", machines={"h1": "s" * 22}, preferred="h1", session="0" * 32
)
ACCEPTANCE = JoinAcceptance(
    machine="h1", is_resumed=True, received=7, heartbeats=Heartbeats(), sockets=("a", "b")
)


@given(frames)
def test_a_frame_round_trips(frame: Frame) -> None:
    assert parse_frame(frame.encoded()) == frame


@given(numbers, numbers, st.binary(max_size=100))
def test_a_message_round_trips(one: int, other: int, content: bytes) -> None:
    assert parse_message(frame_message(one, other, content)) == NumberedFrame(one, other, content)
    assert parse_message(heartbeat_message(one)) == Heartbeat(one)
    assert parse_message(join_message(REQUEST)) == REQUEST
    assert parse_message(reply_message(ACCEPTANCE)) == ACCEPTANCE
    refusal = JoinRefusal(reason="secret", message="no")
    assert parse_message(reply_message(refusal)) == refusal


@given(st.text(max_size=2000))
def test_a_reason_is_truncated_at_a_character(reason: str) -> None:
    parsed = parse_message(bye_message(reason))
    assert isinstance(parsed, Bye)
    assert len(parsed.reason.encode()) <= MAX_REASON_BYTES
    assert reason.encode(errors="replace").decode().startswith(parsed.reason)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_decoded_or_refused(content: bytes) -> None:
    for parse in (parse_message, parse_frame):
        with contextlib.suppress(MalformedMessage):
            parse(content)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"\x63",
        b"GET / HTTP/1.1\r\n\r\n",
        heartbeat_message(1)[:-1],
        heartbeat_message(1) + b"x",
        frame_message(1, 1, b"")[:-1],
        b"\x05" + bytes(MAX_REASON_BYTES + 1),
        b"\x05\xff",
        b"\x01{}",
        b"\x01" + b"[" * 100_000,
        join_message(REQUEST.model_copy(update={"session": "x"})),
        join_message(REQUEST.model_copy(update={"machines": {"../h1": "s"}})),
        bytes([3]) + bytes(MAX_MESSAGE_BYTES),
    ],
    ids=range(14),
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_message(message)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x02\0\0\0",
        DataFrame(1, b"").encoded(),
        DataFrame(1, bytes(MAX_DATA_BYTES + 1)).encoded(),
        EndFrame(1).encoded() + b"x",
        CreditFrame(1, 1).encoded() + b"x",
        CreditFrame(1, 1).encoded()[:-1],
        OpenFrame(1, "x" * 81).encoded(),
        OpenFrame(1, "").encoded()[:-1] + b"",
        b"\x05\0\0\0\1\xff",
        b"\x07\0\0\0\1",
    ],
    ids=range(11),
)
def test_malformed_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_frame(frame)


def test_unknown_fields_of_a_later_join_request_are_ignored() -> None:
    document = REQUEST.model_dump_json()[:-1] + ', "news": 1}'
    assert parse_message(b"\x01" + document.encode()) == REQUEST


def test_secrets_are_not_in_the_repr() -> None:
    assert "s" * 22 not in repr(REQUEST)
