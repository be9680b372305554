"""Streams over one connection: nothing is lost, memory is bounded, no frame harms others."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.machines.messages import (
    MAX_DATA_BYTES,
    CreditFrame,
    DataFrame,
    EndFrame,
    Frame,
    OpenFrame,
    ResetFrame,
    parse_frame,
)
from innet.cluster.machines.multiplexer import (
    MAX_STREAMS,
    WINDOW_BYTES,
    Ended,
    Event,
    Multiplexer,
    Opened,
    Received,
    WasReset,
    Writable,
    is_socket_name,
    require_socket_names,
)
from innet.errors import EmulationError

ALLOWED = {"a.sock", "b.sock"}


class Pair:
    """Two multiplexers, and the frames between them."""

    def __init__(self) -> None:
        self.to_machine: list[bytes] = []
        self.to_launcher: list[bytes] = []
        self.launcher = Multiplexer(
            self.to_machine.append, is_launcher=True, may_open=ALLOWED.__contains__
        )
        self.machine = Multiplexer(
            self.to_launcher.append, is_launcher=False, may_open=ALLOWED.__contains__
        )

    def exchange(self) -> tuple[list[Event], list[Event]]:
        """Deliver all frames; what they meant for the launcher and for the machine."""
        of_launcher: list[Event] = []
        of_machine: list[Event] = []
        while self.to_machine or self.to_launcher:
            if self.to_machine:
                of_machine += self.machine.receive(self.to_machine.pop(0))
            if self.to_launcher:
                of_launcher += self.launcher.receive(self.to_launcher.pop(0))
        return of_launcher, of_machine


def opened() -> tuple[Pair, int]:
    pair = Pair()
    stream = pair.launcher.open("a.sock")
    assert pair.exchange() == ([], [Opened(stream, "a.sock")])
    return pair, stream


def test_bytes_cross_in_both_directions_and_each_direction_ends_alone() -> None:
    pair, stream = opened()
    pair.launcher.send(stream, b"question")
    pair.launcher.end(stream)
    assert pair.exchange() == ([], [Received(stream, b"question"), Ended(stream)])
    pair.machine.send(stream, b"answer")
    pair.machine.end(stream)
    assert pair.exchange() == ([Received(stream, b"answer"), Ended(stream)], [])
    assert pair.launcher.streams == pair.machine.streams == ()


def test_a_window_limits_unconsumed_bytes() -> None:
    pair, stream = opened()
    assert pair.launcher.credit(stream) == WINDOW_BYTES
    pair.launcher.send(stream, bytes(WINDOW_BYTES))
    assert pair.launcher.credit(stream) == 0
    _, received = pair.exchange()
    sizes = [len(event.data) for event in received if isinstance(event, Received)]
    assert sum(sizes) == WINDOW_BYTES
    assert max(sizes) <= MAX_DATA_BYTES
    assert pair.launcher.credit(stream) == 0
    pair.machine.consumed(stream, WINDOW_BYTES)
    assert pair.exchange() == ([Writable(stream)], [])
    assert pair.launcher.credit(stream) == WINDOW_BYTES


def test_exceeding_the_window_resets_only_this_stream() -> None:
    pair, stream = opened()
    other = pair.launcher.open("b.sock")
    pair.launcher.send(stream, bytes(WINDOW_BYTES))
    pair.exchange()
    assert pair.machine.receive(DataFrame(stream, b"x").encoded()) == [
        WasReset(stream, "more data than the window allows")
    ]
    assert pair.exchange() == ([WasReset(stream, "more data than the window allows")], [])
    pair.launcher.send(other, b"still here")
    assert pair.exchange() == ([], [Received(other, b"still here")])
    assert pair.machine.violations == 1


@pytest.mark.parametrize("size", [1, WINDOW_BYTES, (1 << 32) - 1])
def test_credit_beyond_the_window_is_refused(size: int) -> None:
    pair, stream = opened()
    [event] = pair.launcher.receive(CreditFrame(stream, size).encoded())
    assert isinstance(event, WasReset)
    assert pair.launcher.credit(stream) == 0


@pytest.mark.parametrize(
    "name", ["c.sock", "", "..", ".", "../a.sock", "/etc/passwd", "a.sock\0", "a.sock/", "x" * 80]
)
def test_sockets_that_are_not_allowed_cannot_be_opened(name: str) -> None:
    pair = Pair()
    pair.machine.open(name)
    of_launcher, of_machine = pair.exchange()
    assert of_launcher == []
    assert [type(event) for event in of_machine] == [WasReset]
    assert pair.launcher.streams == pair.machine.streams == ()
    assert pair.launcher.violations == 1


def test_names_with_slashes_are_refused_even_where_all_are_allowed() -> None:
    sent: list[bytes] = []
    multiplexer = Multiplexer(sent.append, is_launcher=True, may_open=lambda _name: True)
    for number, name in enumerate(["../a", "a/b", "..", "\n", ""], 1):
        assert multiplexer.receive(OpenFrame(2 * number, name).encoded()) == []
    assert all(isinstance(parse_frame(frame), ResetFrame) for frame in sent)
    assert len(sent) == 5
    with pytest.raises(ValueError, match="invalid name of a socket"):
        require_socket_names(["a/b"])


def test_the_number_of_streams_is_limited_at_both_ends() -> None:
    pair = Pair()
    for _ in range(MAX_STREAMS):
        pair.launcher.open("a.sock")
    with pytest.raises(EmulationError, match="connections to another machine are open"):
        pair.launcher.open("a.sock")
    pair.exchange()
    number = 2 * MAX_STREAMS + 1
    assert pair.machine.receive(OpenFrame(number, "a.sock").encoded()) == []
    assert parse_frame(pair.to_launcher.pop()) == ResetFrame(
        number, f"{MAX_STREAMS} streams are open"
    )
    pair.launcher.reset(1, "enough")
    pair.exchange()
    pair.launcher.open("a.sock")


@pytest.mark.parametrize("stream", [1, 5, 4, 0])
def test_a_stream_is_opened_once_by_the_end_that_owns_its_number(stream: int) -> None:
    pair = Pair()
    for _ in range(2):
        pair.machine.open("a.sock")
    pair.exchange()
    assert pair.launcher.receive(OpenFrame(stream, "a.sock").encoded()) == []
    assert pair.launcher.streams == (2, 4)
    assert pair.launcher.violations == 1


def test_frames_of_unknown_streams_are_ignored() -> None:
    pair, stream = opened()
    for frame in (DataFrame(8, b"x"), EndFrame(8), CreditFrame(8, 1), ResetFrame(8, "")):
        assert pair.launcher.receive(frame.encoded()) == []
    assert pair.to_machine == []
    assert pair.launcher.violations == 4
    assert pair.launcher.streams == (stream,)


def test_frames_in_flight_at_a_reset_are_not_violations() -> None:
    pair, stream = opened()
    pair.machine.send(stream, b"late")
    pair.launcher.reset(stream, "enough")
    assert pair.exchange() == ([], [WasReset(stream, "enough")])
    assert pair.launcher.violations == 0


def test_data_after_the_end_resets_the_stream() -> None:
    pair, stream = opened()
    pair.launcher.end(stream)
    pair.exchange()
    [event] = pair.machine.receive(DataFrame(stream, b"x").encoded())
    assert isinstance(event, WasReset)


@given(st.lists(st.binary(max_size=64), max_size=40))
def test_random_frames_raise_nothing_and_leave_other_streams_alone(frames: list[bytes]) -> None:
    pair, stream = opened()
    safe = [frame for frame in frames if frame[1:5] != stream.to_bytes(4, "big")]
    for frame in safe:
        pair.launcher.receive(frame)
    pair.to_machine.clear()
    pair.machine.send(stream, b"x")
    assert pair.exchange() == ([Received(stream, b"x")], [])


frames = st.one_of(
    st.builds(OpenFrame, st.integers(0, 9), st.sampled_from(["a.sock", "x/y"])),
    st.builds(DataFrame, st.integers(0, 9), st.binary(min_size=1, max_size=MAX_DATA_BYTES)),
    st.builds(CreditFrame, st.integers(0, 9), st.integers(0, (1 << 32) - 1)),
    st.builds(EndFrame, st.integers(0, 9)),
    st.builds(ResetFrame, st.integers(0, 9), st.text(max_size=20)),
)


@given(st.lists(frames, max_size=60))
def test_unconsumed_bytes_and_streams_stay_bounded_for_any_peer(sent: list[Frame]) -> None:
    multiplexer = Multiplexer(lambda _frame: None, is_launcher=True, may_open=ALLOWED.__contains__)
    waiting: dict[int, int] = defaultdict(int)
    for frame in sent:
        for event in multiplexer.receive(frame.encoded()):
            if isinstance(event, Received):
                waiting[event.stream] += len(event.data)
                assert waiting[event.stream] <= WINDOW_BYTES
    assert len(multiplexer.streams) <= MAX_STREAMS


@given(st.integers(0, 1 << 30), st.lists(st.integers(1, 100_000), min_size=1, max_size=20))
def test_all_bytes_arrive_in_order_for_any_order_of_reads(seed: int, sizes: list[int]) -> None:
    """Streams in both directions, each as fast as its credit lets it, read in random order."""
    chance = random.Random(seed)
    pair = Pair()
    ends = {pair.launcher: pair.machine, pair.machine: pair.launcher}
    to_send: dict[tuple[Multiplexer, int], bytearray] = {}
    expected: dict[tuple[Multiplexer, int], bytes] = {}
    arrived: dict[tuple[Multiplexer, int], bytearray] = defaultdict(bytearray)
    for size in sizes:
        sender = chance.choice([pair.launcher, pair.machine])
        stream = sender.open("a.sock")
        expected[ends[sender], stream] = content = chance.randbytes(size * 8)
        to_send[sender, stream] = bytearray(content)
    unconsumed: list[tuple[Multiplexer, int, int]] = []
    while any(to_send.values()) or pair.to_machine or pair.to_launcher or unconsumed:
        for (sender, stream), rest in to_send.items():
            part = bytes(rest[: min(sender.credit(stream), chance.randint(1, 50_000))])
            del rest[: len(part)]
            sender.send(stream, part)
        of_launcher, of_machine = pair.exchange()
        for end, events in ((pair.launcher, of_launcher), (pair.machine, of_machine)):
            for event in events:
                if isinstance(event, Received):
                    arrived[end, event.stream] += event.data
                    unconsumed.append((end, event.stream, len(event.data)))
        chance.shuffle(unconsumed)
        for end, stream, size in [unconsumed.pop() for _ in unconsumed[:30]]:
            end.consumed(stream, size)
    assert arrived == expected


@given(st.text(max_size=100))
def test_a_socket_s_name_stays_in_its_folder(name: str) -> None:
    if is_socket_name(name):
        assert "/" not in name
        assert name not in ("", ".", "..")
        assert "\0" not in name
