"""Requests and replies between the processes of a run: one JSON document a line, on a Unix socket.

    {"method": "status", "params": {}}
    {"ok": true, "result": {...}}
    {"ok": false, "error": "no group named g7; ..."}

Nodes answer with :class:`innet.node.control_server.ControlServer`; :class:`ControlClient` blocks.
The launcher's event loop has the same in :mod:`innet.cluster.requests`. The controller takes the
same documents over ZeroMQ (:mod:`innet.node.controller_client`).
"""

from __future__ import annotations

import logging
import math
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError

from innet.errors import ControlError, HostTaken, InnetError, NoAnswer, RankFailed
from innet.validation_messages import first_message

DEFAULT_TIMEOUT_S = 10.0
MAX_REQUEST_BYTES = 64 << 20
_MAX_ERROR = 1 << 16
"""Characters of an error."""

_GIVE_UP_INTERVAL_S = 0.1
_CONNECT_PAUSE_S = 0.02
_RECEIVE_BYTES = 1 << 16

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
            raise ControlError(f"not a control request: {first_message(error)}") from None


class ControlReply(BaseModel):
    """A server's result, or its error for people.

    Attributes:
        error_kind: which exception the client raises.
        rank: the failed rank of a ``rank_failed`` error.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ok: bool
    result: Any = None
    error: str = Field(default="", max_length=_MAX_ERROR)
    error_kind: ErrorKind = "control"
    rank: int | None = Field(default=None, ge=0)

    @classmethod
    def of_error(cls, error: Exception, who: str, method: str) -> Self:
        """The refusal that makes the client raise ``error``, or a :class:`ControlError`.

        An error that no handler of ``who`` should raise is a defect in ``method``: it is logged,
        and must not end the server.
        """
        text = str(error)[:_MAX_ERROR]
        if not isinstance(error, EXPECTED_ERRORS):
            _log.error("%s: %s failed", who, method, exc_info=error)
            return cls(ok=False, error=f"{type(error).__name__}: {error}"[:_MAX_ERROR])
        if isinstance(error, HostTaken):
            return cls(ok=False, error=text, error_kind="host_taken")
        if isinstance(error, RankFailed):
            return cls(ok=False, error=text, error_kind="rank_failed", rank=error.rank)
        return cls(ok=False, error=text)

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
            raise NoAnswer(self.error, has_ended=True)
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
        f"{who} did not answer {method!r}{within}{why}. Check with `innet status` that it runs."
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
