"""Hands the sockets of ``local`` mode's links to processes that did not inherit them.

A process that :meth:`Network.spawn` starts inherits its node's sockets. One that such a process
starts in turn (torchrun's workers), or that opens its node for a second time, asks the launcher,
which holds all of them, and gets descriptors over a Unix socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from innet.emulation.node_config import FaceConfig, NodeConfig
from innet.errors import EmulationError

LINK_SOCKETS_NAME = "links.sock"
"""Name of the socket in the run directory."""
_MAX_NAME_BYTES = 256
_MAX_LINKS = 250
"""The kernel passes at most 253 descriptors with one message."""
_TIMEOUT_S = 10.0


class LinkSocketServer:
    """The launcher's end, in its event loop."""

    def __init__(self, path: Path, sockets_of: Callable[[str], Sequence[int]]) -> None:
        """``sockets_of`` gives the descriptors of a node's faces, in their order."""
        self._path = path
        self._sockets_of = sockets_of
        self._loop = asyncio.get_running_loop()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._loop.add_reader(self._listener, self._accept)
        self._open: set[socket.socket] = set()

    def close(self) -> None:
        """Stop answering."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in list(self._open):
            self._hang_up(connection)
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        with suppress(OSError):  # who asked may be gone by now
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._open.add(connection)
            self._loop.add_reader(connection, self._answer, connection)

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError, KeyError, UnicodeDecodeError):
            node = connection.recv(_MAX_NAME_BYTES).decode()
            socket.send_fds(connection, [b"\0"], list(self._sockets_of(node)))
        self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        self._loop.remove_reader(connection)
        connection.close()


def link_sockets(config: NodeConfig) -> list[int | None]:
    """The socket of each face: inherited, else from the launcher; ``None`` to open one.

    The caller owns the descriptors.

    Raises:
        EmulationError: the launcher does not hand them out.
    """
    faces = config.faces
    if all(face.fd is None or _is_socket_of(face.fd, face) for face in faces):
        # Copies: the inherited ones are there for whoever opens the node again in this process.
        return [None if face.fd is None else os.dup(face.fd) for face in faces]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(config.run_dir / LINK_SOCKETS_NAME))
            connection.send(config.node.encode())
            _, fds, _, _ = socket.recv_fds(connection, 1, _MAX_LINKS)
    except OSError as error:
        raise EmulationError(
            f"the launcher of {config.run_id} does not hand out the sockets of {config.node}: "
            f"{error}. Does it still run? `innet status` tells."
        ) from error
    if len(fds) != len(config.faces):
        raise EmulationError(
            f"the launcher of {config.run_id} handed out {len(fds)} of the {len(config.faces)} "
            f"sockets of {config.node}. Raise the limit on open files (ulimit -n)."
        )
    for fd in fds:
        os.set_inheritable(fd, False)
    return list(fds)


def _is_socket_of(fd: int, face: FaceConfig) -> bool:
    """Whether descriptor ``fd`` of this process is the face's socket, and not something else."""
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return False
        with socket.socket(fileno=os.dup(fd)) as found:
            return bool(found.getsockname() == (face.local_address, face.local_port))
    except OSError:
        return False
