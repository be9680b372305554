"""A node's control socket: serves requests on a thread of its own, beside a user's program."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from innet.errors import ControlError
from innet.node.requests import MAX_REQUEST_BYTES, Handler, reply_to

_BACKLOG = 256
_RECEIVE_BYTES = 1 << 16
_SEND_BYTES = 1 << 18
_RESERVE_TIMEOUT_S = 0.5
"""Timeout of a client that is served with the last descriptor: all others wait for it."""
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    unread: bytearray = field(default_factory=bytearray)
    scanned_bytes: int = 0
    """Unread bytes that are known to contain no end of a line."""
    unsent: bytearray = field(default_factory=bytearray)
    """The rest of the reply that the client is reading."""

    def next_request(self) -> bytes | None:
        """The next whole line, if there is one."""
        end = self.unread.find(b"\n", self.scanned_bytes)
        self.scanned_bytes = len(self.unread) if end < 0 else 0
        if end < 0:
            return None
        line = bytes(self.unread[:end])
        del self.unread[: end + 1]
        return line

    def send(self) -> bool:
        """Send what the client takes of its reply now; whether that was all.

        Raises:
            OSError: the client is gone.
        """
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent[:_SEND_BYTES])]
        return not self.unsent


class ControlServer:
    """A node's socket: replies to one request after the other (see :func:`reply_to`).

    A user's program may use up all file descriptors. The server keeps one in reserve and then
    serves one client at a time with it.
    A client that does not read its reply delays no other: its next request is read after it has
    read the whole reply.
    """

    def __init__(self, path: Path, handlers: Mapping[str, Handler], *, who: str) -> None:
        self._handlers = dict(handlers)
        self._who = who
        self._path = path
        try:
            self._listener = _listen(path)
            self._stop = os.eventfd(0, os.EFD_CLOEXEC)
            self._reserve: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            self._selector = selectors.DefaultSelector()
        except OSError as error:
            raise ControlError(
                f"{who} cannot open its control socket {path}: {error.strerror}. Has the run "
                "ended, or does `ulimit -n` allow too few descriptors?"
            ) from error
        self._selector.register(self._stop, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"control-{who}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._stop:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._serve(key.data)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_DESCRIPTORS:
                self._accept_in_reserve()
            return
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, _Connection(connection))

    def _accept_in_reserve(self) -> None:
        """Serve one client with the reserved descriptor, and close it."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        with suppress(OSError):
            accepted, _ = self._listener.accept()
            with accepted:
                accepted.settimeout(_RESERVE_TIMEOUT_S)
                connection = _Connection(accepted)
                while b"\n" not in connection.unread:
                    _receive(connection)
                accepted.shutdown(socket.SHUT_RD)  # a further request fails at once
                while self._reply_next(connection):
                    pass
        with suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _serve(self, connection: _Connection) -> None:
        """Continue the reply that a client is reading, or serve its next requests."""
        try:
            if not connection.unsent:
                _receive(connection)
            all_sent = connection.send()
            while all_sent and self._reply_next(connection):
                all_sent = not connection.unsent
        except OSError:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            return
        awaited = selectors.EVENT_READ if all_sent else selectors.EVENT_WRITE
        self._selector.modify(connection.socket, awaited, connection)

    def _reply_next(self, connection: _Connection) -> bool:
        """Begin to reply to the next whole request; whether there was one.

        Raises:
            OSError: the client is gone.
        """
        request = connection.next_request()
        if request is None:
            return False
        reply = reply_to(request, self._handlers, self._who)
        connection.unsent += reply.encoded(self._who) + b"\n"
        connection.send()
        return True

    def close(self) -> None:
        """Stop serving and remove the socket file. Safe to call twice."""
        if not self._thread.is_alive():
            return
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._stop)
        if self._reserve is not None:
            os.close(self._reserve)
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _receive(connection: _Connection) -> None:
    """Receive bytes from a client.

    Raises:
        OSError: the client is gone, or its request is too long.
    """
    received = connection.socket.recv(_RECEIVE_BYTES)
    if not received or len(connection.unread) > MAX_REQUEST_BYTES:
        raise ConnectionResetError
    connection.unread += received


def _listen(path: Path) -> socket.socket:
    """A listening socket, in place of one that a dead process may have left.

    Raises:
        OSError: it cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
