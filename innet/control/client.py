"""Asks a control socket. Blocking; use it from threads, never inside an event loop."""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from innet.control.protocol import Answer, Request
from innet.errors import ControlError, NoAnswer

DEFAULT_TIMEOUT_S = 10.0
_GIVE_UP_INTERVAL_S = 0.1
_CONNECT_PAUSE_S = 0.02
_RECEIVE_BYTES = 1 << 16


class ControlClient:
    """A connection to one control socket, such as ``/run/innet/x/s0.ctl``.

    It is made with the first question, and made anew when the server has been.

    >>> with ControlClient(Path("/nowhere/s0.ctl"), who="s0") as client:   # doctest: +SKIP
    ...     client.ask("status")
    """

    def __init__(self, path: Path, *, who: str) -> None:
        self._path = path
        self._who = who
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        give_up: Callable[[], bool] = lambda: False,
        **params: Any,
    ) -> Any:
        """The result of ``method``; threads that ask at once are answered one after the other.

        Raises:
            NoAnswer: nobody answers within ``timeout_s``, or until ``give_up``, which is called now
                and then.
            ControlError: the answer is a refusal.
        """
        request = Request(method=method, params=params).model_dump_json().encode() + b"\n"
        wait = _Wait(timeout_s, give_up)
        with self._lock:
            document = self._exchange(request, wait)
        if document is None:
            obstacle = f" ({wait.obstacle.strerror})" if wait.obstacle else ""
            raise NoAnswer(
                f"{self._who} did not answer {method!r} within {timeout_s:g} s{obstacle}. "
                "Is it still running? `innet status` tells."
            )
        return self._result(method, document)

    def _exchange(self, request: bytes, wait: _Wait) -> bytes | None:
        """The answer; ``None`` when there is none in time, after which the connection is closed."""
        while not wait.is_over():
            try:
                connection = self._connected()
                _send(connection, request, wait)
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
                wait.pause(_GIVE_UP_INTERVAL_S)  # whoever had heard the question may have ended
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

    def _result(self, method: str, document: bytes) -> Any:
        try:
            answer = Answer.model_validate_json(document)
        except ValidationError as error:
            raise ControlError(
                f"{self._who} answered {method!r} with something else than a control message; "
                "are all nodes of this run of the same version of innet?"
            ) from error
        if not answer.ok:
            raise ControlError(f"{self._who}: {answer.error}")
        return answer.result

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Wait:
    """How long to wait for an answer, and what was in the way of one."""

    def __init__(self, timeout_s: float, give_up: Callable[[], bool]) -> None:
        self._deadline_s = time.monotonic() + timeout_s
        self._give_up = give_up
        self.obstacle: OSError | None = None

    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline_s or self._give_up()

    def pause(self, pause_s: float) -> None:
        time.sleep(self._bounded(pause_s))

    def slice_s(self) -> float:
        """How long to wait until :meth:`is_over` is to be asked again."""
        return self._bounded(_GIVE_UP_INTERVAL_S)

    def _bounded(self, time_s: float) -> float:
        return max(0.0, min(time_s, self._deadline_s - time.monotonic()))


def _send(connection: socket.socket, document: bytes, wait: _Wait) -> None:
    rest = memoryview(document)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            if wait.is_over():
                raise
            _wait_for(connection, select.POLLOUT, wait.slice_s())


def _receive(connection: socket.socket, wait: _Wait) -> bytes | None:
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
