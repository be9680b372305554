"""Byte streams over one connection, without input and output.

Each stream is opened to a named socket and has a window in each direction, which bounds the buffers
of each end. A frame that breaks the rules affects only its own stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from innet.cluster.machines.messages import (
    MAX_DATA_BYTES,
    MAX_SOCKET_NAME_BYTES,
    CreditFrame,
    DataFrame,
    EndFrame,
    Frame,
    MalformedMessage,
    OpenFrame,
    ResetFrame,
    parse_frame,
)
from innet.errors import EmulationError

WINDOW_BYTES: Final = 1 << 18
MAX_STREAMS: Final = 512
"""Limit of streams that one end opened; with their windows, at most 128 MiB are buffered."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The other end has opened a stream to a socket that it may use."""

    stream: int
    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes of a stream; :meth:`Multiplexer.consumed` lets the other end send more."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Writable:
    """The other end takes more bytes of a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The other end sends no more on a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class WasReset:
    """A stream is over in both directions, without a proper end."""

    stream: int
    reason: str


Event = Opened | Received | Writable | Ended | WasReset


@dataclass(slots=True)
class _Stream:
    send_credit: int = WINDOW_BYTES
    receive_credit: int = WINDOW_BYTES
    unreported_bytes: int = 0
    """Consumed here, and not yet credited to the other end."""
    has_ended_here: bool = False
    has_ended_there: bool = False


class Multiplexer:
    """The streams of one connection.

    Attributes:
        violations: frames that broke the rules, by which nothing changed or one stream was reset.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        *,
        is_launcher: bool,
        may_open: Callable[[str], bool],
    ) -> None:
        """
        Args:
            send: takes each frame for the other end, in order.
            is_launcher: the launcher opens streams of odd numbers, a machine those of even ones.
            may_open: whether the other end may open streams to the socket of a name.
        """
        self._send_frame = send
        self._may_open = may_open
        self._next_own = 1 if is_launcher else 2
        self._last_of_peer = 0
        self._parity_of_peer = 0 if is_launcher else 1
        self._streams: dict[int, _Stream] = {}
        self._own = 0
        self.violations = 0

    # What this end does

    def open(self, name: str) -> int:
        """Open a stream to a socket of the other end.

        Raises:
            EmulationError: too many streams are open.
        """
        if self._own >= MAX_STREAMS:
            raise EmulationError(
                f"{MAX_STREAMS} connections to another machine are open; close some first"
            )
        stream, self._next_own = self._next_own, self._next_own + 2
        self._streams[stream] = _Stream()
        self._own += 1
        self._send(OpenFrame(stream, name))
        return stream

    def credit(self, stream: int) -> int:
        """How many bytes may be sent on a stream now."""
        found = self._streams.get(stream)
        return 0 if found is None or found.has_ended_here else found.send_credit

    def send(self, stream: int, data: bytes) -> None:
        """Send bytes, not more than :meth:`credit`; on a stream that is over, nothing."""
        found = self._streams.get(stream)
        if found is None:
            return
        assert len(data) <= found.send_credit
        assert not found.has_ended_here
        found.send_credit -= len(data)
        for begin in range(0, len(data), MAX_DATA_BYTES):
            self._send(DataFrame(stream, data[begin : begin + MAX_DATA_BYTES]))

    def end(self, stream: int) -> None:
        """Send no more on a stream."""
        found = self._streams.get(stream)
        if found is not None and not found.has_ended_here:
            found.has_ended_here = True
            self._send(EndFrame(stream))
            self._forget_if_over(stream, found)

    def reset(self, stream: int, reason: str) -> None:
        """End a stream in both directions at once."""
        if self._forget(stream):
            self._send(ResetFrame(stream, reason))

    def consumed(self, stream: int, size_bytes: int) -> None:
        """Bytes that were received have left this end; the other may send as many more."""
        found = self._streams.get(stream)
        if found is None or found.has_ended_there:
            return
        found.unreported_bytes += size_bytes
        if found.unreported_bytes >= WINDOW_BYTES // 4:  # not a frame for each little piece
            found.receive_credit += found.unreported_bytes
            self._send(CreditFrame(stream, found.unreported_bytes))
            found.unreported_bytes = 0

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that are open."""
        return tuple(self._streams)

    # What the other end does

    def receive(self, frame: bytes) -> list[Event]:
        """Receive a frame of the other end; return its events."""
        try:
            parsed = parse_frame(frame)
        except MalformedMessage:
            return self._violation()
        if isinstance(parsed, OpenFrame):
            return self._on_open(parsed)
        found = self._streams.get(parsed.stream)
        if found is None:
            # Frames of a stream that was reset here were under way; those of others are wrong.
            return [] if self._has_been(parsed.stream) else self._violation()
        return self._on_frame(parsed, found)

    def _on_open(self, frame: OpenFrame) -> list[Event]:
        stream = frame.stream
        if stream % 2 != self._parity_of_peer or stream <= self._last_of_peer:
            return self._violation()
        self._last_of_peer = stream
        if not is_socket_name(frame.name) or not self._may_open(frame.name):
            self._send(ResetFrame(stream, f"no socket {frame.name!r} may be opened here"))
            return self._violation()
        if len(self._streams) - self._own >= MAX_STREAMS:
            self._send(ResetFrame(stream, f"{MAX_STREAMS} streams are open"))
            return self._violation()
        self._streams[stream] = _Stream()
        return [Opened(stream, frame.name)]

    def _on_frame(self, frame: Frame, found: _Stream) -> list[Event]:
        match frame:
            case DataFrame():
                return self._on_data(frame, found)
            case CreditFrame():
                return self._on_credit(frame, found)
            case EndFrame():
                if found.has_ended_there:
                    return self._reset_for(frame.stream, "the stream has ended before")
                found.has_ended_there = True
                self._forget_if_over(frame.stream, found)
                return [Ended(frame.stream)]
            case ResetFrame():
                self._forget(frame.stream)
                return [WasReset(frame.stream, frame.reason)]
        raise AssertionError(frame)

    def _on_data(self, frame: DataFrame, found: _Stream) -> list[Event]:
        if found.has_ended_there:
            return self._reset_for(frame.stream, "data after the end of the stream")
        if len(frame.data) > found.receive_credit:
            return self._reset_for(frame.stream, "more data than the window allows")
        found.receive_credit -= len(frame.data)
        return [Received(frame.stream, frame.data)]

    def _on_credit(self, frame: CreditFrame, found: _Stream) -> list[Event]:
        if found.send_credit + frame.size_bytes > WINDOW_BYTES:
            return self._reset_for(frame.stream, "more credit than the window has")
        found.send_credit += frame.size_bytes
        return [] if found.has_ended_here else [Writable(frame.stream)]

    # Bookkeeping

    def _send(self, frame: Frame) -> None:
        self._send_frame(frame.encoded())

    def _violation(self) -> list[Event]:
        self.violations += 1
        return []

    def _reset_for(self, stream: int, reason: str) -> list[Event]:
        self.violations += 1
        self.reset(stream, reason)
        return [WasReset(stream, reason)]

    def _has_been(self, stream: int) -> bool:
        if stream % 2 == self._parity_of_peer:
            return stream <= self._last_of_peer
        return stream < self._next_own

    def _forget_if_over(self, stream: int, found: _Stream) -> None:
        if found.has_ended_here and found.has_ended_there:
            self._forget(stream)

    def _forget(self, stream: int) -> bool:
        if self._streams.pop(stream, None) is None:
            return False
        if stream % 2 != self._parity_of_peer:
            self._own -= 1
        return True


def is_socket_name(name: str) -> bool:
    """Whether a name is that of a file in one folder."""
    return (
        0 < len(name.encode(errors="replace")) <= MAX_SOCKET_NAME_BYTES
        and name not in (".", "..")
        and "/" not in name
        and name.isprintable()
    )


def require_socket_names(names: Iterable[str]) -> frozenset[str]:
    """Check names of sockets, of one's own program."""
    checked = frozenset(names)
    for name in checked:
        if not is_socket_name(name):
            raise ValueError(f"invalid name of a socket: {name!r}; expected that of a file")
    return checked
