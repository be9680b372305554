"""Requests and replies between the processes of a run: one JSON document a line, on a Unix socket.

    {"method": "status", "params": {}}
    {"ok": true, "result": {...}}
    {"ok": false, "error": "no group named g7; ..."}

Nodes answer with :class:`ControlServer`, on a thread of their own beside a user's program;
:class:`ControlClient` blocks. The launcher's event loop has the same in
:mod:`innet.cluster.requests`. The controller takes the same documents over ZeroMQ
(:mod:`innet.node.controller_client`).
"""

from __future__ import annotations

import errno
import logging
import math
import os
import select
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from innet.errors import ControlError, HostTaken, InnetError, NoAnswer, RankFailed

DEFAULT_TIMEOUT_S = 10.0
MAX_REQUEST_BYTES = 64 << 20

_GIVE_UP_INTERVAL_S = 0.1
_CONNECT_PAUSE_S = 0.02
_BACKLOG = 256
_RECEIVE_BYTES = 1 << 16
_SEND_BYTES = 1 << 18
_RESERVE_TIMEOUT_S = 0.5
"""For a client that is served with the last descriptor: all others wait for it."""
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_log = logging.getLogger(__name__)

Handler = Callable[..., Any]
ErrorKind = Literal["control", "ended", "host_taken", "rank_failed"]


class ControlRequest(BaseModel):
    """A method that a client calls on a server."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    method: str
    params: dict[str, Any] = {}

    @classmethod
    def parsed(cls, document: bytes) -> Self:
        """Read a document."""
        try:
            return cls.model_validate_json(document)
        except ValidationError as error:
            raise ControlError(f"not a control request: {error}") from error


class ControlReply(BaseModel):
    """A server's result, or its error for people.

    Attributes:
        error_kind: which exception the client raises.
        rank: the failed rank of a ``rank_failed`` error.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ok: bool
    result: Any = None
    error: str = ""
    error_kind: ErrorKind = "control"
    rank: int | None = None

    @classmethod
    def of_error(cls, error: Exception, who: str, method: str) -> Self:
        """The refusal that makes the client raise ``error``, or a :class:`ControlError`.

        An error that no handler of ``who`` should raise is a defect in ``method``: it is logged,
        and must not end the server.
        """
        if not isinstance(error, EXPECTED_ERRORS):
            _log.error("%s: %s failed", who, method, exc_info=error)
            return cls(ok=False, error=f"{type(error).__name__}: {error}")
        if isinstance(error, HostTaken):
            return cls(ok=False, error=str(error), error_kind="host_taken")
        if isinstance(error, RankFailed):
            return cls(ok=False, error=str(error), error_kind="rank_failed", rank=error.rank)
        return cls(ok=False, error=str(error))

    @classmethod
    def of_end(cls, who: str, method: str) -> Self:
        """The server ends before ``method`` does; its successor may be asked again."""
        return cls(ok=False, error=f"{who} ended before {method!r} did", error_kind="ended")

    def encoded(self, who: str) -> bytes:
        """The document; an error document if JSON cannot express the result of ``who``."""
        try:
            return self.model_dump_json().encode()
        except PydanticSerializationError as error:
            _log.exception("%s: a reply is not JSON", who)
            return ControlReply(ok=False, error=f"the reply is not JSON: {error}").encoded(who)

    def value(self, who: str) -> Any:
        """The result.

        Raises:
            HostTaken: another process has the host's node.
            RankFailed: a rank failed that the caller waits for.
            NoAnswer: ``who`` ended first.
            ControlError: ``who`` refused the request for another reason.
        """
        if self.error_kind == "ended":
            raise NoAnswer(self.error)
        if self.error_kind == "host_taken":
            raise HostTaken(self.error)
        if self.error_kind == "rank_failed":
            raise RankFailed(self.error, rank=self.rank)
        if not self.ok:
            raise ControlError(f"{who}: {self.error}")
        return self.result


EXPECTED_ERRORS: Final = (InnetError, TypeError, ValueError, ValidationError)
"""Errors by which a handler refuses a request; any other error is a defect of the server."""


def reply_to(document: bytes, handlers: Mapping[str, Handler], who: str) -> ControlReply:
    """Call ``handlers[method](**params)``.

    An :class:`InnetError` or wrong parameters become a refusal. Any other error is logged and
    refused too: a defect in one handler must not end the server.
    """
    method = "a request"
    try:
        request = ControlRequest.parsed(document)
        method = request.method
        return ControlReply(ok=True, result=handler_of(method, handlers)(**request.params))
    except Exception as error:
        return ControlReply.of_error(error, who, method)


def handler_of(method: str, handlers: Mapping[str, Handler]) -> Handler:
    """The handler of a method."""
    if method not in handlers:
        raise ControlError(f"unknown method {method!r}; known: {', '.join(sorted(handlers))}")
    return handlers[method]


def no_message(who: str, method: str) -> ControlError:
    """The error of a malformed reply."""
    return ControlError(
        f"{who} replied to {method!r} with something else than a control message; are all nodes of "
        "this run of the same version of innet?"
    )


def result_of(document: bytes, who: str, method: str) -> Any:
    """The result in the reply of ``who`` to ``method``.

    Raises:
        ControlError: the reply refuses the request (see :meth:`ControlReply.value`), or is not a
            valid reply.
    """
    try:
        reply = ControlReply.model_validate_json(document)
    except ValidationError as error:
        raise no_message(who, method) from error
    return reply.value(who)


def no_answer(who: str, method: str, timeout_s: float | None, obstacle: OSError | None) -> NoAnswer:
    """The error of a request without a reply in time."""
    why = f" ({obstacle.strerror})" if obstacle else ""
    within = "" if timeout_s is None else f" within {timeout_s:g} s"
    return NoAnswer(
        f"{who} did not answer {method!r}{within}{why}. Is it still running? `innet status` tells."
    )


class Wait:
    """How long to wait for a reply, and what was in the way of one."""

    def __init__(self, timeout_s: float, give_up: Callable[[], bool]) -> None:
        self._deadline_s = time.monotonic() + timeout_s
        self._give_up = give_up
        self.obstacle: OSError | None = None

    def is_over(self) -> bool:
        """Whether time is up, or the caller has given up."""
        return time.monotonic() >= self._deadline_s or self._give_up()

    def pause(self, pause_s: float = _GIVE_UP_INTERVAL_S) -> None:
        """Sleep for so long, but not beyond the end."""
        time.sleep(self._bounded(pause_s))

    def slice_s(self) -> float:
        """How long to wait before :meth:`is_over` is checked again."""
        return self._bounded(_GIVE_UP_INTERVAL_S)

    def _bounded(self, time_s: float) -> float:
        return max(0.0, min(time_s, self._deadline_s - time.monotonic()))


class RequestSender(ABC):
    """Sends requests to one server, one after the other. Blocking."""

    def __init__(self, path: Path, *, who: str) -> None:
        """
        Args:
            who: answers, for people.
        """
        self._path = path
        self._who = who
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        give_up: Callable[[], bool] = lambda: False,
        **params: Any,
    ) -> Any:
        """The result of ``method``; requests of several threads are sent one after the other.

        Raises:
            NoAnswer: no reply within ``timeout_s``, or until ``give_up``, which is called now and
                then.
            ControlError: the reply is a refusal.
            HostTaken, RankFailed: as the reply says.
        """
        request = ControlRequest(method=method, params=params).model_dump_json().encode()
        wait = Wait(timeout_s, give_up)
        with self._lock:
            document = self._exchange(request, wait)
        if document is None:
            raise no_answer(self._who, method, timeout_s, wait.obstacle)
        return result_of(document, self._who, method)

    @abstractmethod
    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        """The reply; ``None`` without one in time."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one."""

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ControlClient(RequestSender):
    """Sends requests to one control socket, such as ``/run/innet/x/s0.ctl``. Blocking.

    The first request connects. A later request connects again when the server has been replaced.
    A request whose server ended without a reply is not sent again and raises :class:`NoAnswer`:
    only the caller knows whether it may be repeated.

    >>> with ControlClient(Path("/nowhere/s0.ctl"), who="s0") as client:   # doctest: +SKIP
    ...     client.request("status")
    """

    def __init__(self, path: Path, *, who: str) -> None:
        super().__init__(path, who=who)
        self._socket: socket.socket | None = None

    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        while not wait.is_over():
            try:
                connection = self._connected()
                _send(connection, request + b"\n", wait)
            except OSError as error:  # no server listens yet, or no longer
                self._disconnect()
                wait.obstacle = error
                wait.pause(_CONNECT_PAUSE_S)
                continue
            try:
                document = _receive_line(connection, wait)
            except OSError:
                document = None
            if document is None:
                self._disconnect()  # the reply may yet come, and would be taken for the next one's
            while document is None and not wait.is_over():
                wait.pause()  # the server may have ended with the request
            return document
        return None

    def _connected(self) -> socket.socket:
        if self._socket is not None and _is_readable(self._socket, 0.0):
            self._disconnect()  # nothing is outstanding: the server has ended
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


ConnectToNode = Callable[[str], ControlClient]
"""Makes a client of a node's control socket, given the node's name."""


def _send(connection: socket.socket, document: bytes, wait: Wait) -> None:
    rest = memoryview(document)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            if wait.is_over():
                raise
            _wait_for(connection, select.POLLOUT, wait.slice_s())


def _receive_line(connection: socket.socket, wait: Wait) -> bytes | None:
    parts: list[bytes] = []
    while not wait.is_over():
        if not _is_readable(connection, wait.slice_s()):
            continue
        part = connection.recv(_RECEIVE_BYTES)
        if not part:
            return None
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)
    return None


def _is_readable(connection: socket.socket, timeout_s: float) -> bool:
    return _wait_for(connection, select.POLLIN, timeout_s)


def _wait_for(connection: socket.socket, event: int, timeout_s: float) -> bool:
    poller = select.poll()  # needs no descriptor of its own
    poller.register(connection, event)
    return bool(poller.poll(math.ceil(timeout_s * 1000)))


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
