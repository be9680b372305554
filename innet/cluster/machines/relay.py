"""Relays byte streams between Unix sockets and a multiplexer.

In a folder, this end serves sockets of the other end; each accepted connection becomes a stream. A
stream that the other end opens is connected to the socket that this end offers it under that name.
The server of a socket that is offered to one machine alone knows by that whose clients it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, cast

from innet.cluster.machines.multiplexer import (
    Ended,
    Event,
    Multiplexer,
    Opened,
    Received,
    WasReset,
    Writable,
    require_socket_names,
)
from innet.errors import EmulationError

CONNECT_PATIENCE_S: Final = 10.0
"""How long a stream waits for a socket on which nobody listens yet, as local clients do."""

_CONNECT_PAUSE_S: Final = 0.02
_WRITE_BUFFER_BYTES: Final = 1 << 16
_BACKLOG: Final = 256
_NOT_LISTENING: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN)


class Relay:
    """The local ends of the streams of one connection to another machine."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        *,
        is_launcher: bool,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Args:
            send: takes each frame for the other end, in order.
            has_room: whether new streams may be opened.
        """
        self._multiplexer = Multiplexer(send, is_launcher=is_launcher, may_open=self._may_open)
        self._has_room = has_room
        self._offered: dict[str, Path] = {}
        self._servers: dict[Path, asyncio.Server] = {}
        self._ends: dict[int, _LocalEnd] = {}
        self._connections: set[_LocalEnd] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def offer(self, sockets: Mapping[str, Path]) -> None:
        """Let the other end open streams to these sockets, by the names that it uses."""
        require_socket_names(sockets)
        self._offered.update(sockets)

    def withdraw(self, names: Iterable[str]) -> None:
        """Let the other end open no more streams to these sockets; open ones go on."""
        for name in names:
            self._offered.pop(name, None)

    async def listen(self, folder: Path, names: Iterable[str]) -> None:
        """Accept connections on sockets of these names in ``folder``, for the other end.

        Raises:
            EmulationError: a socket cannot be made.
        """
        loop = asyncio.get_running_loop()
        for name in require_socket_names(names):
            path = folder / name
            if path in self._servers:
                continue
            try:
                path.unlink(missing_ok=True)  # a dead process may have left it
                self._servers[path] = await loop.create_unix_server(
                    partial(_LocalEnd, self, name), path, backlog=_BACKLOG
                )
            except OSError as error:
                raise EmulationError(
                    f"cannot open the socket {path} for another machine: {error.strerror}. Has the "
                    "run ended?"
                ) from error

    def receive(self, frame: bytes) -> None:
        """Take a frame of the other end."""
        for event in self._multiplexer.receive(frame):
            self._on_event(event)

    async def close(self) -> None:
        """Close all sockets and connections."""
        self._is_closed = True
        for path, server in self._servers.items():
            server.close()
            path.unlink(missing_ok=True)
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._servers.clear()
        self._ends.clear()
        for end in list(self._connections):
            end.abort()

    @property
    def violations(self) -> int:
        """Frames of the other end that broke the rules."""
        return self._multiplexer.violations

    # Of the multiplexer

    def _may_open(self, name: str) -> bool:
        return name in self._offered and not self._is_closed

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._on_opened(event)
            return
        end = self._ends.get(event.stream)
        if end is None:
            return
        match event:
            case Received():
                end.write(event.data)
            case Writable():
                end.flush()
            case Ended():
                end.write_end()
            case WasReset():
                del self._ends[event.stream]
                end.close()

    def _on_opened(self, event: Opened) -> None:
        end = _LocalEnd(self, event.name, event.stream)
        self._ends[event.stream] = end
        task = asyncio.ensure_future(self._connect(end, event))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, end: _LocalEnd, event: Opened) -> None:
        """Connect a stream to its socket."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + CONNECT_PATIENCE_S
        while event.stream in self._ends:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                connection.connect(os.fspath(self._offered[event.name]))
                await loop.create_unix_connection(lambda: end, sock=connection)
            except (OSError, KeyError) as error:
                connection.close()
                if not _is_patient(error) or loop.time() >= until_s:
                    why = getattr(error, "strerror", None) or "no longer offered"
                    self.reset(event.stream, f"socket {event.name}: {why}")
                    return
                await asyncio.sleep(_CONNECT_PAUSE_S)
            else:
                return

    # Of local connections

    def opened(self, end: _LocalEnd, name: str) -> int | None:
        """A local client has connected: open a stream; ``None``: it cannot be served."""
        if self._is_closed or not self._has_room():
            return None
        try:
            stream = self._multiplexer.open(name)
        except EmulationError:
            return None
        self._ends[stream] = end
        return stream

    @property
    def streams(self) -> Multiplexer:
        """The streams that local ends send on."""
        return self._multiplexer

    def reset(self, stream: int, reason: str) -> None:
        """A local connection cannot go on."""
        if self._ends.pop(stream, None) is not None:
            self._multiplexer.reset(stream, reason)

    def connected(self, end: _LocalEnd) -> None:
        """A local connection has begun."""
        self._connections.add(end)

    def closed(self, end: _LocalEnd, stream: int | None) -> None:
        """A local connection is closed."""
        self._connections.discard(end)
        if stream is not None:
            self._ends.pop(stream, None)


class _LocalEnd(asyncio.Protocol):
    """One local connection, and the stream that it is relayed to."""

    def __init__(self, relay: Relay, name: str, stream: int | None = None) -> None:
        """``stream``: that the other end has opened; ``None``: a local client connects."""
        self._relay = relay
        self._name = name
        self._stream = stream
        self._transport: asyncio.Transport | None = None
        self._unsent = bytearray()
        """Read from the client, while the other end takes no more."""
        self._unwritten = bytearray()
        """From the other end, while the connection is being made."""
        self._unconsumed_bytes = 0
        self._is_write_paused = False
        self._has_read_end = False
        self._has_write_end = False

    # Of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a stream, or begin to carry the one that is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._relay.connected(self)
        if self._stream is None:
            self._stream = self._relay.opened(self, self._name)
            if self._stream is None:
                self._transport.abort()
            return
        if self._is_over:
            self._transport.abort()
            return
        if self._unwritten:
            waiting, self._unwritten = bytes(self._unwritten), bytearray()
            self._unconsumed_bytes -= len(waiting)
            self.write(waiting)
        if self._has_write_end:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        """Send the client's bytes, as far as the other end's window allows."""
        self._unsent += data
        self.flush()

    def eof_received(self) -> bool:
        """The client writes no more, and may still read."""
        self._has_read_end = True
        self.flush()
        return True

    def pause_writing(self) -> None:
        """The client does not read: the other end gets no more credit."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_write_paused = False
        self._consume()

    def connection_lost(self, _error: Exception | None) -> None:
        """The connection is closed; unless both ends have ended, the stream is reset."""
        self._transport = None
        if self._stream is not None and not self._is_over:
            self._relay.reset(self._stream, "the connection was closed")
        self._relay.closed(self, self._stream)

    # Of the stream

    def write(self, data: bytes) -> None:
        """Write what the other end has sent."""
        self._unconsumed_bytes += len(data)
        if self._transport is None:
            self._unwritten += data
        else:
            self._transport.write(data)
            self._consume()

    def write_end(self) -> None:
        """The other end sends no more."""
        self._has_write_end = True
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError):  # the client is gone
                self._transport.write_eof()
            self._close_if_over()

    def flush(self) -> None:
        """Send the bytes read so far, as far as the other end's window allows."""
        if self._stream is None:
            return
        streams = self._relay.streams
        credit = streams.credit(self._stream)
        if self._unsent and credit:
            part = bytes(self._unsent[:credit])
            del self._unsent[:credit]
            streams.send(self._stream, part)
        if self._unsent:
            self._pause_reading()
        elif self._has_read_end:
            streams.end(self._stream)
            self._close_if_over()
        elif self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """The stream was reset: close the connection once the client has read what has come."""
        self._has_read_end = self._has_write_end = True
        self._unsent.clear()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.close()
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_over(self) -> bool:
        return self._has_read_end and self._has_write_end and not self._unsent

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._has_read_end:
            self._transport.pause_reading()

    def _consume(self) -> None:
        if self._stream is not None and not self._is_write_paused and self._unconsumed_bytes:
            self._relay.streams.consumed(self._stream, self._unconsumed_bytes)
            self._unconsumed_bytes = 0

    def _close_if_over(self) -> None:
        if self._is_over and self._transport is not None:
            self._transport.close()  # once all has been written


def _is_patient(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _NOT_LISTENING
