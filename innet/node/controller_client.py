"""Requests to the controller of a run, over ZeroMQ.

All workers of a run, its nodes, its launcher and its users send requests there, and a controller
dies and has a successor: a ZeroMQ socket connects again by itself when another process listens,
holds up no other client, and keeps messages whole.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import zmq

from innet.errors import ControlError
from innet.node.requests import RequestSender, Wait

CONTROLLER_SOCKET_NAME = "controller.ctl"
"""The controller's socket in the directory of its run."""

_NEEDED_DESCRIPTORS = 8
"""Descriptors for a socket, and for ZeroMQ's own ones when it is the first."""


class _Context(zmq.Context["zmq.Socket[bytes]"]):
    """Not ``zmq.Context.instance()``, which a user's program may end: that waits for all sockets
    of the context."""

    _instance = None


class ControllerClient(RequestSender):
    """Sends requests to the controller of a run, or to its successor. Blocking.

    A request whose controller ended without a reply is not sent again and raises
    :class:`NoAnswer`: only the caller knows whether it may be repeated.

    >>> with ControllerClient(Path("/nowhere/controller.ctl")) as client:   # doctest: +SKIP
    ...     client.request("groups")
    """

    def __init__(self, path: Path, *, who: str = "the controller of this run") -> None:
        super().__init__(path, who=who)
        self._socket: zmq.Socket[bytes] | None = None
        self._pid = os.getpid()

    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        try:
            connection = self._connected()
            connection.send(request)
            while not wait.is_over():
                if connection.poll(math.ceil(wait.slice_s() * 1000)):
                    return connection.recv()
        except zmq.ZMQError as error:
            wait.obstacle = OSError(error.errno, error.strerror)
        self._disconnect()  # the reply may yet come, and would be taken for the next one's
        while not wait.is_over():
            wait.pause()  # callers retry without a pause
        return None

    def _connected(self) -> zmq.Socket[bytes]:
        if self._pid != os.getpid():  # a fork does not copy the thread that serves the socket
            self._socket, self._pid = None, os.getpid()
        if self._socket is None:
            self._require_descriptors()
            self._socket = _Context.instance().socket(zmq.REQ)
            self._socket.linger = 0
            self._socket.connect(controller_address(self._path))
        return self._socket

    def _require_descriptors(self) -> None:
        """Refuse before libzmq aborts the process because it cannot open a descriptor."""
        opened: list[int] = []
        try:
            opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_NEEDED_DESCRIPTORS))
        except OSError as error:
            raise ControlError(
                f"cannot send a request to {self._who}: {error.strerror}. This process has too few "
                "file descriptors left; `ulimit -n` shows and changes how many it may have."
            ) from error
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def controller_address(path: Path) -> str:
    """The ZeroMQ address of a controller's socket."""
    return f"ipc://{path}"
