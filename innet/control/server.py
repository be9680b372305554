"""Answers on a control socket, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import zmq
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from innet.control.client import ipc_address
from innet.control.protocol import Answer, Request
from innet.errors import ControlError, InnetError

Handler = Callable[..., Any]

_log = logging.getLogger(__name__)


class ControlServer:
    """Calls ``handlers[method](**params)`` for each request, one after the other.

    A handler's :class:`InnetError` (or wrong parameters) becomes a refusal with its text; whatever
    else goes wrong in one is logged and refused too: the server goes on.

    Raises:
        ControlError: the socket cannot be bound.
    """

    def __init__(self, path: Path, handlers: Mapping[str, Handler], *, who: str) -> None:
        self._handlers = dict(handlers)
        self._path = path
        self._who = who
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        try:
            self._socket.bind(ipc_address(path))
        except zmq.ZMQError as error:
            self._socket.close()
            raise ControlError(
                f"{who} cannot open its control socket {path}: {error.strerror}. "
                "Is the same node running already? `innet status` tells."
            ) from error
        self._stop_address = f"inproc://stop-{id(self)}"
        self._stopped: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self._stopped.bind(self._stop_address)
        self._thread = threading.Thread(target=self._run, name=f"control-{who}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        stop: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        stop.connect(self._stop_address)
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(stop, zmq.POLLIN)
        while stop not in dict(poller.poll()):
            self._socket.send(self._encoded_answer(self._socket.recv()))
        stop.close()
        self._socket.close()

    def _encoded_answer(self, document: bytes) -> bytes:
        try:
            return self._answer(document).model_dump_json().encode()
        except PydanticSerializationError as error:
            _log.exception("%s: an answer is no JSON", self._who)
            refusal = Answer(ok=False, error=f"the answer is no JSON: {error}")
            return refusal.model_dump_json().encode()

    def _answer(self, document: bytes) -> Answer:
        try:
            request = Request.model_validate_json(document)
            handler = self._handlers[request.method]
        except ValidationError as error:
            return Answer(ok=False, error=f"not a control request: {error}")
        except KeyError:
            known = ", ".join(sorted(self._handlers))
            return Answer(ok=False, error=f"unknown method {request.method!r}; known: {known}")
        try:
            return Answer(ok=True, result=handler(**request.params))
        except (InnetError, TypeError, ValueError, ValidationError) as error:
            return Answer(ok=False, error=str(error))
        except Exception as error:  # a defect in one handler must not end the node's control
            _log.exception("%s: %s failed", self._who, request.method)
            return Answer(ok=False, error=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Stop answering and remove the socket file. Safe to call twice."""
        if self._thread.is_alive():
            self._stopped.send(b"")
            self._thread.join()
        self._stopped.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
