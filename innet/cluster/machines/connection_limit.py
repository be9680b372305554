"""Bounds the open connections of strangers to a launcher."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

MAX_STRANGERS: Final = 256

_ENDPOINT: Final = "inproc://connections"
_EVENTS_AT_ONCE: Final = 256
_WARNING_PAUSE_S: Final = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Connection:
    local_port: int
    address: str
    port: int

    @property
    def source(self) -> str:
        """Whom the connection counts for: an IPv4 address, or an IPv6 network of one site."""
        address = ipaddress.ip_address(self.address.partition("%")[0])
        if isinstance(address, ipaddress.IPv4Address):
            return str(address)
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))


class ConnectionLimit:
    """Closes connections of strangers, when too many are open; machines keep theirs.

    ZeroMQ accepts every connection, and holds its descriptor until the handshake succeeds or times
    out. The address that has the most connections loses its oldest one. ZeroMQ closes none on
    request, but removes a connection that the kernel has shut down.
    """

    def __init__(
        self,
        context: zmq.asyncio.Context,
        listener: zmq.asyncio.Socket,
        machines: Callable[[], Collection[int]],
    ) -> None:
        """
        Args:
            listener: the socket, before it is bound.
            machines: returns the descriptors of connections that belong to machines.
        """
        self._listener = listener
        self._machines = machines
        self._limit = MAX_STRANGERS
        self._open: dict[int, _Connection] = {}
        """By descriptor, the oldest first."""
        self._closed = 0
        """Connections closed since the last warning."""
        self._warned_at_s = -_WARNING_PAUSE_S
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.rcvhwm = 0  # a full queue would stop ZeroMQ's thread
        listener.monitor(_ENDPOINT, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._monitor.connect(_ENDPOINT)

    async def watch(self) -> None:
        """Count connections, and close those of strangers when there are too many."""
        events: zmq.Socket[bytes] = zmq.Socket.shadow(self._monitor)
        while True:
            await self._monitor.poll()
            for _ in range(_EVENTS_AT_ONCE):  # then the event loop has its turn
                try:
                    frames = events.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                self._take(frames)
            self._close_strangers()

    def _take(self, frames: list[bytes]) -> None:
        event = parse_monitor_message(frames)
        descriptor = int(event["value"])
        self._open.pop(descriptor, None)
        if event["event"] == zmq.EVENT_ACCEPTED:
            with _copy_of(descriptor) as connection:
                ends = None if connection is None else _ends(connection)
            if ends is not None and ends.local_port == self._port:
                self._open[descriptor] = ends  # otherwise it is closed again

    @property
    def _port(self) -> int:
        return int(self._listener.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def _close_strangers(self) -> None:
        excess = len(self._open) - self._limit
        if excess <= 0:
            return
        machines = self._machines()
        strangers = {fd: each.source for fd, each in self._open.items() if fd not in machines}
        of_source = Counter(strangers.values())
        for _ in range(len(strangers) - self._limit):
            source, _ = of_source.most_common(1)[0]
            oldest = next(fd for fd, its in strangers.items() if its == source)
            del strangers[oldest]
            of_source[source] -= 1
            self.close_connection(oldest)
            self._closed += 1
        self._warn()

    def close_connection(self, descriptor: int) -> None:
        """Close one connection, if it is open."""
        expected = self._open.pop(descriptor, None)
        with _copy_of(descriptor) as connection, contextlib.suppress(OSError):
            if expected and connection and _ends(connection) == expected:
                connection.shutdown(socket.SHUT_RDWR)

    def _warn(self) -> None:
        now_s = monotonic()
        if self._closed and now_s - self._warned_at_s >= _WARNING_PAUSE_S:
            endpoint = self._listener.getsockopt_string(zmq.LAST_ENDPOINT)
            _log.warning(
                "%d connections to %s that belong to no machine are closed, because more than %d "
                "are open. Machines keep theirs. Let a firewall admit the addresses of machines "
                "alone. More are closed without a message for %g s",
                self._closed,
                endpoint,
                self._limit,
                _WARNING_PAUSE_S,
            )
            self._closed, self._warned_at_s = 0, now_s

    def close(self) -> None:
        """Count no longer."""
        self._listener.disable_monitor()
        self._monitor.close(linger=0)


@contextlib.contextmanager
def _copy_of(descriptor: int) -> Iterator[socket.socket | None]:
    """A copy of a socket of ZeroMQ; ``None`` if it is closed.

    ZeroMQ's thread may close the descriptor, and another thread open it, at any moment. The copy
    refers to one connection all the time, so that the caller can check which.
    """
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        copy = socket.socket(fileno=os.dup(descriptor)) if is_socket else None
    except OSError:
        copy = None
    if copy is None:
        yield None
        return
    with copy:
        yield copy


def _ends(connection: socket.socket) -> _Connection | None:
    """``None``: it is no TCP connection, or not any more."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        address, port = connection.getpeername()[:2]
        return _Connection(connection.getsockname()[1], address, port)
    except OSError:
        return None
