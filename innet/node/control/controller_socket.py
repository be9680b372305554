"""The controller's socket and its clients: ZeroMQ, because a controller dies and has a successor.

All workers of a run, its launcher and its users ask there. Their sockets connect again by
themselves when another process listens, nobody holds up the others by not reading, and messages are
whole.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from uuid import uuid4

import zmq

from innet.errors import ControlError
from innet.node.control.answering import Answering, Handler
from innet.node.control.asking import Asker, Wait

CONTROLLER_SOCKET_NAME = "controller.ctl"
"""In the directory of its run."""

_MAX_REQUEST_BYTES = 64 << 20
_NEEDED_DESCRIPTORS = 8
"""Of a socket and, the first time, of what a process needs for all of them."""


class ControllerServer:
    """Answers one request after the other (see :class:`Answering`), on a thread of its own.

    libzmq ends a process that has no descriptor left for a client. A controller runs no user's
    program and takes as many as the system allows; at worst it is started again.

    Raises:
        ControlError: the socket cannot be bound.
    """

    def __init__(self, path: Path, handlers: Mapping[str, Handler], *, who: str) -> None:
        self._path = path
        self._answering = Answering(handlers, who=who)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.maxmsgsize = _MAX_REQUEST_BYTES
        try:
            self._socket.bind(_address(path))
        except zmq.ZMQError as error:
            self._socket.close()
            raise ControlError(
                f"{who} cannot open its socket {path}: {error.strerror}. Has the run ended?"
            ) from error
        self._stop_address = f"inproc://stop-{uuid4().hex}"
        self._stop: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self._stop.bind(self._stop_address)
        self._thread = threading.Thread(target=self._run, name=f"control-{who}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        stop: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        stop.connect(self._stop_address)
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(stop, zmq.POLLIN)
        while stop not in dict(poller.poll()):
            frames = self._socket.recv_multipart()
            request = frames[0] if len(frames) == 1 else b""
            self._socket.send(self._answering.answer(request))
        stop.close()
        self._socket.close()

    def close(self) -> None:
        """Stop answering and remove the socket file. Safe to call twice."""
        if self._thread.is_alive():
            self._stop.send(b"")
            self._thread.join()
        self._stop.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ControllerClient(Asker):
    """Asks the controller of a run, or the one that takes its place meanwhile.

    A question that has reached one which then ends is not asked again, but ends with
    :class:`NoAnswer`: only its caller knows whether it may be asked twice.

    >>> with ControllerClient(Path("/nowhere/controller.ctl")) as client:   # doctest: +SKIP
    ...     client.ask("groups")
    """

    def __init__(self, path: Path, *, who: str = "the controller of this run") -> None:
        super().__init__(who=who)
        self._path = path
        self._socket: zmq.Socket[bytes] | None = None

    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        try:
            asked = self._connected()
            asked.send(request)
            while not wait.is_over():
                if asked.poll(math.ceil(wait.slice_s() * 1000)):
                    return asked.recv()
        except zmq.ZMQError as error:
            wait.obstacle = OSError(error.errno, error.strerror)
        self._disconnect()  # the answer may yet come, and would be taken for the next one's
        return None

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            self._require_descriptors()
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
            self._socket = context.socket(zmq.REQ)
            self._socket.linger = 0
            self._socket.connect(_address(self._path))
        return self._socket

    def _require_descriptors(self) -> None:
        """libzmq would end the process, rather than say that it cannot open anything.

        Raises:
            ControlError: there are too few descriptors left.
        """
        opened: list[int] = []
        try:
            opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_NEEDED_DESCRIPTORS))
        except OSError as error:
            raise ControlError(
                f"{self._who} cannot be asked: {error.strerror}. This process has too few file "
                "descriptors left; `ulimit -n` shows and changes how many it may have."
            ) from error
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address(path: Path) -> str:
    return f"ipc://{path}"
