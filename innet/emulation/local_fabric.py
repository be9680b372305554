"""The links of ``local`` mode: pairs of connected UDP sockets on loopback.

The launcher opens them, so no port is ever free at one moment and taken at the next, and hands
them to the node processes as inherited descriptors. It keeps its own copies: a restarted node gets
the same sockets again.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from contextlib import ExitStack

from innet.emulation.link_counters import DirectedLink, LinkCounters
from innet.emulation.node_config import IP_UDP_HEADER_BYTES, FaceConfig, LinkShape
from innet.emulation.processes import Namespace
from innet.errors import EmulationError
from innet.topology import Link, Topology

_LOOPBACK = "127.0.0.1"


class LocalFabric:
    """Links on loopback; the emulator's link model does all of the shaping."""

    def __init__(self, topology: Topology) -> None:
        """Open the sockets of all links.

        Raises:
            EmulationError: the kernel has no port or descriptor left.
        """
        self._kinds = {name: node.kind for name, node in topology.nodes.items()}
        self._faces: dict[str, list[FaceConfig]] = {name: [] for name in topology.nodes}
        with ExitStack() as sockets:
            for link in topology.links:
                self._open_link(link, sockets)
            self._sockets = sockets.pop_all()

    def faces(self, node: str) -> tuple[FaceConfig, ...]:
        """The node's ends of its links, in the order of the topology."""
        return tuple(self._faces[node])

    def ip_address(self, node: str) -> str | None:
        """Always ``None``: all nodes share loopback."""
        return None

    def pass_fds(self, node: str) -> tuple[int, ...]:
        """The sockets of the node's faces."""
        return tuple(face.fd for face in self._faces[node] if face.fd is not None)

    def namespace(self, node: str) -> Namespace | None:
        """Always ``None``: nodes run where the launcher runs."""
        return None

    def namespace_paths(self) -> dict[str, str]:
        """Always empty."""
        return {}

    async def counters(self, nodes: Collection[str]) -> dict[DirectedLink, LinkCounters]:
        """Not available here.

        Raises:
            EmulationError: always; the nodes' own port model has the counters.
        """
        raise EmulationError(
            "the kernel does not count the links of local mode. Ask the nodes for the counters of "
            "their faces, or run the topology in netns mode."
        )

    async def close(self) -> None:
        """Close the launcher's copies of the sockets."""
        self._sockets.close()

    def _open_link(self, link: Link, sockets: ExitStack) -> None:
        try:
            a = sockets.enter_context(_bound_socket())
            b = sockets.enter_context(_bound_socket())
            a.connect(b.getsockname())
            b.connect(a.getsockname())
        except OSError as error:
            raise EmulationError(
                f"cannot open the sockets of link {link}: {error.strerror}. {_next_step(error)}"
            ) from error
        shape = LinkShape(
            rate_bps=link.rate_bps,
            delay_s=link.delay_s,
            loss=link.loss,
            queue_bytes=link.queue_bytes,
            mark_bytes=link.mark_threshold_bytes,
            jitter_s=link.jitter_s,
            reorder=link.reorder,
            reorder_delay_s=link.reorder_delay_s,
            duplicate=link.duplicate,
            corrupt=link.corrupt,
        )
        for near, far, mine, other in ((link.a, link.b, a, b), (link.b, link.a, b, a)):
            self._faces[near.node].append(
                FaceConfig(
                    peer=far.node,
                    peer_kind=self._kinds[far.node],
                    local_address=_LOOPBACK,
                    local_port=mine.getsockname()[1],
                    peer_address=_LOOPBACK,
                    peer_port=other.getsockname()[1],
                    fd=mine.fileno(),
                    mtu_bytes=link.mtu_bytes - IP_UDP_HEADER_BYTES,
                    queue_bytes=link.queue_bytes,
                    shape=shape,
                )
            )


def _bound_socket() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.bind((_LOOPBACK, 0))
    except OSError:
        opened.close()
        raise
    return opened


def _next_step(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "Raise the limit on open files (ulimit -n), or launch a smaller topology."
    if error.errno in (errno.EADDRINUSE, errno.EAGAIN):
        return "All ports are in use: end other runs (innet down), or use netns mode."
    return "Check that the loopback interface is up (ip link set lo up)."
