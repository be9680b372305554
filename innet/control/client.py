"""Asks a control socket. Blocking; use it from threads, never inside an event loop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import zmq
from pydantic import ValidationError

from innet.control.protocol import Answer, Request
from innet.errors import ControlError, NoAnswer

DEFAULT_TIMEOUT_S = 10.0
_GIVE_UP_INTERVAL_S = 0.1


class ControlClient:
    """A connection to one control socket, such as ``ipc:///run/innet/x/s0.ctl``.

    >>> with ControlClient("ipc:///nowhere/s0.ctl", who="s0") as client:   # doctest: +SKIP
    ...     client.ask("status")
    """

    def __init__(self, address: str, *, who: str) -> None:
        self._address = address
        self._who = who
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket: zmq.Socket[bytes] | None = None
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
        request = Request(method=method, params=params).model_dump_json().encode()
        with self._lock:
            document = self._exchange(request, timeout_s, give_up)
        if document is None:
            raise NoAnswer(
                f"{self._who} did not answer {method!r} within {timeout_s:g} s. "
                "Is it still running? `innet status` tells."
            )
        return self._result(method, document)

    def _exchange(
        self, request: bytes, timeout_s: float, give_up: Callable[[], bool]
    ) -> bytes | None:
        if self._socket is None:
            self._socket = self._context.socket(zmq.REQ)
            self._socket.linger = 0
            self._socket.connect(self._address)
        self._socket.send(request)
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0 and not give_up():
            if self._socket.poll(math.ceil(min(left_s, _GIVE_UP_INTERVAL_S) * 1000)):
                return self._socket.recv()
        self._disconnect()  # the answer may yet come, and would be taken for the next one's
        return None

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

    def __exit__(self, *_: object) -> None:
        self.close()


def ipc_address(path: object) -> str:
    """The ZeroMQ address of a Unix socket's path."""
    return f"ipc://{path}"
