"""Asks the control socket of a node."""

from __future__ import annotations

import math
import select
import socket
from pathlib import Path

from innet.node.control.asking import Asker, Wait

_CONNECT_PAUSE_S = 0.02
_RECEIVE_BYTES = 1 << 16


class ControlClient(Asker):
    """A connection to the control socket of one node, such as ``/run/innet/x/s0.ctl``.

    It is made with the first question, and made anew when the server has been.

    >>> with ControlClient(Path("/nowhere/s0.ctl"), who="s0") as client:   # doctest: +SKIP
    ...     client.ask("status")
    """

    def __init__(self, path: Path, *, who: str) -> None:
        super().__init__(who=who)
        self._path = path
        self._socket: socket.socket | None = None

    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        while not wait.is_over():
            try:
                connection = self._connected()
                _send(connection, request + b"\n", wait)
            except OSError as error:  # nobody listens yet, or no longer
                self._disconnect()
                wait.obstacle = error
                wait.pause(_CONNECT_PAUSE_S)
                continue
            try:
                document = _receive(connection, wait)
            except OSError:
                document = None
            if document is None:
                self._disconnect()  # the answer may yet come, and would be taken for the next one's
            while document is None and not wait.is_over():
                wait.pause()  # whoever had heard the question may have ended
            return document
        return None

    def _connected(self) -> socket.socket:
        if self._socket is not None and _readable(self._socket, 0.0):
            self._disconnect()  # nothing was asked: it is the end of who listened
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                raise
            self._socket = connection
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _send(connection: socket.socket, document: bytes, wait: Wait) -> None:
    rest = memoryview(document)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            if wait.is_over():
                raise
            _wait_for(connection, select.POLLOUT, wait.slice_s())


def _receive(connection: socket.socket, wait: Wait) -> bytes | None:
    parts: list[bytes] = []
    while not wait.is_over():
        if not _readable(connection, wait.slice_s()):
            continue
        part = connection.recv(_RECEIVE_BYTES)
        if not part:
            return None
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)
    return None


def _readable(connection: socket.socket, timeout_s: float) -> bool:
    return _wait_for(connection, select.POLLIN, timeout_s)


def _wait_for(connection: socket.socket, event: int, timeout_s: float) -> bool:
    poller = select.poll()  # needs no descriptor of its own
    poller.register(connection, event)
    return bool(poller.poll(math.ceil(timeout_s * 1000)))
