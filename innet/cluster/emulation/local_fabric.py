"""The links of a run, and those of ``local`` mode: shared memory, or pairs of Unix sockets.

In ``local`` mode packets go through shared memory, with an eventfd at each end that wakes the
process up, or through two connected Unix datagram sockets. Neither has a name or an address, so no
other user of the machine can open it, read from it or write to it; UDP sockets on loopback would
let every user send packets with a link's source address. The launcher opens them and passes them to
the node processes as inherited descriptors. It keeps its own copies for nodes that restart.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Final

from innet.cluster.emulation.kernel_network import KernelCounters, LinkDirection
from innet.cluster.emulation.processes import Namespace
from innet.cluster.emulation.syscalls import take_all_descriptors
from innet.errors import EmulationError
from innet.node.link_descriptors import create_link_memory
from innet.node.node_config import (
    IP_UDP_HEADER_BYTES,
    Channel,
    FaceConfig,
    LinkShape,
    Mode,
    SharedMemoryChannel,
    SocketChannel,
)
from innet.settings import Settings, TransportSettings
from innet.topology import Link, Topology


class Fabric(ABC):
    """The links of one run, from their creation to :meth:`close`."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._faces: dict[str, list[FaceConfig]] = {name: [] for name in topology.nodes}
        self._opened = ExitStack()

    def faces(self, node: str) -> tuple[FaceConfig, ...]:
        """The node's ends of its links, in the order of the topology."""
        return tuple(self._faces[node])

    def ip_address(self, node: str) -> str | None:
        """The address at which foreign programs reach the node, if they can."""
        return None

    def pass_fds(self, node: str) -> tuple[int, ...]:
        """Descriptors that a process of the node must inherit: those of its faces, in order."""
        return tuple(fd for face in self._faces[node] for fd in face.channel.fds)

    def namespace(self, node: str) -> Namespace | None:
        """The namespaces that a process of the node must enter."""
        return None

    def namespace_paths(self) -> dict[str, str]:
        """A path for ``nsenter`` for each node with its own network namespace."""
        return {}

    @abstractmethod
    async def counters(self, nodes: Collection[str]) -> dict[LinkDirection, KernelCounters]:
        """The kernel's counters of the directions that begin at ``nodes``."""

    async def change(self, link: Link, *, is_up: bool) -> LinkShape:
        """Give a link other properties.

        Returns:
            The shape that both nodes at its ends model from now on.
        """
        shape = LinkShape.of(link)
        return shape if is_up else shape.cut()

    @abstractmethod
    async def close(self) -> None:
        """Remove all links."""

    def _add_memory_link(self, link: Link) -> None:
        """Join the link's ends by memory of this machine."""
        self._add_link(link, open_channels(link, self._opened))

    def _add_link(self, link: Link, channels: Sequence[Channel]) -> None:
        """Join the link's ends by channels, first that of end ``a``; all shaping is the model's."""
        for near, far, channel in zip((link.a, link.b), (link.b, link.a), channels, strict=True):
            self._add_face(link, near.node, channel, LinkShape.of(link), far.node)

    def _add_face(
        self,
        link: Link,
        node: str,
        channel: Channel,
        shape: LinkShape,
        peer: str,
        *,
        datagram_bytes: int | None = None,
    ) -> None:
        """Add a face; its datagrams are as large as the link's MTU allows by default."""
        self._faces[node].append(
            FaceConfig(
                peer=peer,
                peer_kind=self._topology.nodes[peer].kind,
                channel=channel,
                mtu_bytes=datagram_bytes or link.mtu_bytes - IP_UDP_HEADER_BYTES,
                queue_bytes=link.queue_bytes,
                shape=shape,
                trusted=isinstance(channel, SharedMemoryChannel) and not shape.shaped,
            )
        )


class LocalFabric(Fabric):
    """Links on one machine; the emulator's link model does all of the shaping."""

    def __init__(self, topology: Topology, *, shared_memory: bool = True) -> None:
        """Open all links: in shared memory, or else as sockets."""
        super().__init__(topology)
        take_all_descriptors()  # a link needs three
        with self._opened:
            for link in topology.links:
                channels = open_channels(link, self._opened, shared_memory=shared_memory)
                self._add_link(link, channels)
            self._opened = self._opened.pop_all()

    async def counters(self, nodes: Collection[str]) -> dict[LinkDirection, KernelCounters]:
        """Not available here: the nodes' own port model has the counters."""
        raise EmulationError(
            "the kernel does not count the links of local mode. Ask the nodes for the counters of "
            "their faces, or run the topology in netns mode."
        )

    async def close(self) -> None:
        """Close the launcher's copies of the descriptors."""
        self._opened.close()


def open_channels(
    link: Link, opened: ExitStack, *, shared_memory: bool = True
) -> Sequence[Channel]:
    """The channels of both ends of a link within a machine, first that of end ``a``.

    Args:
        opened: closes them.
        shared_memory: ``False``: sockets.
    """
    try:
        return _share_memory(opened) if shared_memory else _connect(opened)
    except OSError as error:
        raise EmulationError(
            f"cannot open link {link}: {error.strerror}. {_next_step(error)}"
        ) from error


def _share_memory(opened: ExitStack) -> list[SharedMemoryChannel]:
    """Both ends' channels, with memory between them."""
    name = f"innet-link-{secrets.token_hex(8)}"
    memory_fd = create_link_memory(name)
    opened.callback(os.close, memory_fd)
    event_fds = []
    for _ in range(2):
        event_fds.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        opened.callback(os.close, event_fds[-1])
    a, b = event_fds
    return [
        SharedMemoryChannel(name=name, end=0, memory_fd=memory_fd, own_event_fd=a, peer_event_fd=b),
        SharedMemoryChannel(name=name, end=1, memory_fd=memory_fd, own_event_fd=b, peer_event_fd=a),
    ]


def _connect(opened: ExitStack) -> list[SocketChannel]:
    """Both ends' channels, of sockets that are connected to each other."""
    ends = [opened.enter_context(end) for end in socket.socketpair(type=socket.SOCK_DGRAM)]
    return [SocketChannel(fd=end.fileno(), inode=os.fstat(end.fileno()).st_ino) for end in ends]


def _next_step(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "Raise the limit on open files (ulimit -n), or launch a smaller topology."
    return "Free some memory, or launch a smaller topology."


# Nothing queues on such links: packets that find no room wait at their sender. An answer is late
# only when a process waits for a processor, and a smaller window would make it wait more often.
# Packets in flight should fit into a ring and into the caches.
_OF_MEMORY: Final = {"initial_window": 16, "max_window": 64, "target_queue_delay_s": 1.0}


def has_memory_links(mode: Mode, settings: Settings) -> bool:
    """Whether links within a machine are shared memory."""
    return mode != "netns" and settings.transport.shared_memory


def has_only_memory(topology: Topology, mode: Mode, settings: Settings) -> bool:
    """Whether all links of a run are unshaped shared memory."""
    in_memory = has_memory_links(mode, settings) and is_on_one_machine(topology, mode)
    return in_memory and not any(link.is_shaped for link in topology.links)


def is_on_one_machine(topology: Topology, mode: Mode) -> bool:
    """Whether all nodes of a run are on one machine."""
    return mode != "cluster" or len(set(topology.placement.values())) == 1


def with_windows_of_memory(settings: Settings) -> Settings:
    """A copy with windows that suit links in memory, except those that differ from the defaults."""
    defaults = TransportSettings()
    chosen = {
        name: value
        for name, value in _OF_MEMORY.items()
        if getattr(settings.transport, name) == getattr(defaults, name)
    }
    transport = settings.transport.model_copy(update=chosen)
    return settings.model_copy(update={"transport": transport})


def family_of(address: str) -> socket.AddressFamily:
    """The family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port of an address of this machine that no socket has at this moment."""
    with socket.socket(family_of(address)) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
