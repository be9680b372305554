"""Hands the descriptors of ``local`` mode's links to processes that did not inherit them.

A process that :meth:`Network.spawn` starts inherits the descriptors of its node: sockets, and
memory that it shares with the other ends. Other processes ask the launcher, which holds all
descriptors and sends copies over a Unix socket: workers of torchrun, which such a process starts,
and a process that opens its node for a second time.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from innet.errors import EmulationError
from innet.node.node_config import (
    Channel,
    NodeConfig,
    SharedMemoryChannel,
    SocketChannel,
    UdpChannel,
)

LINKS_SOCKET_NAME = "links.sock"
"""Name of the socket in the run directory."""
_MAX_NAME_BYTES = 256
_MAX_DESCRIPTORS = 250
"""The kernel passes at most 253 with one message."""
_TIMEOUT_S = 10.0


class LinkDescriptorServer:
    """The launcher's end, in its event loop."""

    def __init__(self, path: Path, descriptors_of: Callable[[str], Sequence[int]]) -> None:
        """``descriptors_of`` returns the descriptors of a node's faces, in their order."""
        self._path = path
        self._descriptors_of = descriptors_of
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
            descriptors = self._descriptors_of(node)
            for first in range(0, len(descriptors), _MAX_DESCRIPTORS):
                some = descriptors[first : first + _MAX_DESCRIPTORS]
                socket.send_fds(connection, [b"\0"], list(some))
        self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        self._loop.remove_reader(connection)
        connection.close()


def link_descriptors(config: NodeConfig) -> list[tuple[int, ...]]:
    """For each face, the descriptors of its channel: inherited, else from the launcher.

    The caller owns them.
    """
    channels = [face.channel for face in config.faces]
    if all(_inherited(channel) for channel in channels):
        # Copies: the inherited ones are there for whoever opens the node again in this process.
        found = _copied(config, [fd for channel in channels for fd in channel.fds])
    else:
        found = _handed_out(config, sum(len(channel.fds) for channel in channels))
    left = iter(found)
    return [tuple(islice(left, len(channel.fds))) for channel in channels]


def _copied(config: NodeConfig, fds: Iterable[int]) -> list[int]:
    found: list[int] = []
    try:
        for fd in fds:
            found.append(os.dup(fd))
    except OSError as error:
        _close(found)
        raise EmulationError(
            f"cannot open the links of {config.node}: {error.strerror}. "
            "Raise the limit on open files (ulimit -n)."
        ) from error
    return found


def _handed_out(config: NodeConfig, wanted: int) -> list[int]:
    found: list[int] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(config.run_dir / LINKS_SOCKET_NAME))
            connection.send(config.node.encode())
            while len(found) < wanted:
                message, some, _, _ = socket.recv_fds(connection, 1, _MAX_DESCRIPTORS)
                found += some
                if not message:
                    break
    except OSError as error:
        _close(found)
        raise EmulationError(
            f"the launcher of {config.run_id} does not hand out the links of {config.node}: "
            f"{error}. Check with `innet status` that it runs."
        ) from error
    if len(found) != wanted:
        _close(found)
        raise EmulationError(
            f"the launcher of {config.run_id} handed out {len(found)} of the {wanted} descriptors "
            f"of {config.node}'s links. Raise the limit on open files (ulimit -n)."
        )
    for fd in found:
        os.set_inheritable(fd, False)
    return found


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _inherited(channel: Channel) -> bool:
    """Whether this process has inherited what the channel names."""
    if isinstance(channel, SharedMemoryChannel):
        return is_link_memory(channel.memory_fd, channel.name)
    return isinstance(channel, UdpChannel) or _is_socket_of(channel)


def _is_socket_of(channel: SocketChannel) -> bool:
    """Whether the descriptor is the channel's socket in this process, and nothing else."""
    try:
        found = os.fstat(channel.fd)
    except OSError:
        return False
    # Unique among the sockets that are open: the launcher keeps this one open.
    return stat.S_ISSOCK(found.st_mode) and found.st_ino == channel.inode


_HEADER_BYTES: Final = 4096
_RING_BYTES: Final = 2 << 20
"""Ring of each direction; only the part that packets have touched uses memory."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create_link_memory(name: str) -> int:
    """The descriptor of new memory, all zero; the caller owns it.

    Raises:
        OSError: the kernel has no descriptor left.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, _HEADER_BYTES + 2 * _RING_BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def is_link_memory(fd: int, name: str) -> bool:
    """Whether descriptor ``fd`` of this process is the memory of that name, and nothing else."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == f"/memfd:{name} (deleted)"
    except OSError:
        return False
