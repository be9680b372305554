"""Frames arrive once and in order over connections that lose what they carried last."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.machines.messages import Heartbeat, NumberedFrame, parse_message
from innet.cluster.machines.resumption import BrokenSession, ResumableSession


def numbered(message: bytes) -> NumberedFrame:
    parsed = parse_message(message)
    assert isinstance(parsed, NumberedFrame)
    return parsed


def acknowledged(message: bytes) -> int:
    parsed = parse_message(message)
    assert isinstance(parsed, Heartbeat)
    return parsed.acknowledged


@given(st.integers(0, 1 << 30), st.integers(1, 200))
def test_each_frame_arrives_once_and_in_order(seed: int, count: int) -> None:
    chance = random.Random(seed)
    sender, receiver = ResumableSession(), ResumableSession()
    sent = [number.to_bytes(4, "big") for number in range(count)]
    under_way: list[bytes] = []
    arrived: list[bytes] = []
    rest = list(sent)
    while rest or under_way or sender.backlog:
        if rest:
            under_way.append(sender.message_of(rest.pop(0)))
        if under_way and chance.random() < 0.6:
            arrived.append(receiver.take(numbered(under_way.pop(0))))
        if receiver.is_acknowledgement_due or chance.random() < 0.2:
            sender.on_acknowledgement(acknowledged(receiver.heartbeat()))
        if chance.random() < 0.1:  # the connection breaks with what is under way
            under_way = sender.resumed(receiver.received)
    assert arrived == sent


def test_acknowledged_frames_are_dropped() -> None:
    sender, receiver = ResumableSession(), ResumableSession()
    for _ in range(3):
        receiver.take(numbered(sender.message_of(b"x")))
    assert sender.backlog == 3
    sender.take(numbered(receiver.message_of(b"y")))
    assert sender.backlog == 0
    assert receiver.backlog == 1


@pytest.mark.parametrize(
    "message",
    [NumberedFrame(number, acknowledged, b"") for number, acknowledged in [(2, 0), (0, 0), (1, 1)]],
)
def test_gaps_and_false_acknowledgements_end_a_session(message: NumberedFrame) -> None:
    with pytest.raises(BrokenSession):
        ResumableSession().take(message)


def test_a_session_whose_frames_were_dropped_is_not_resumed() -> None:
    sender = ResumableSession()
    for _ in range(3):
        sender.message_of(b"x")
    sender.on_acknowledgement(2)
    with pytest.raises(BrokenSession, match="frame 2 is needed again, the oldest kept is 3"):
        sender.resumed(1)
    with pytest.raises(BrokenSession):
        sender.resumed(4)
