"""The size of the segments of tensors and blocks on a topology."""

from __future__ import annotations

from innet.cluster.emulation.kernel_network import TokenBucket
from innet.errors import EmulationError
from innet.node.node_config import IP_UDP_HEADER_BYTES, Mode
from innet.plans.segment_room import aligned
from innet.topology import Link, Topology
from innet.topology.parts import MAX_MTU_BYTES
from innet.worker.job_file import SEGMENT_OVERHEAD_BYTES

MAX_DATAGRAM_BYTES = 65507
"""The most that the kernel takes as one message, which it cuts into datagrams."""
MAX_DATAGRAMS = 64
FRAGMENT_HEADER_BYTES = 24

MAX_SEGMENT_BYTES = 32768
"""Largest segment in frames: two such packets fit into one run of segmentation offload."""
MEMORY_SEGMENT_BYTES = 65216
"""Where all links are shared memory without limits. The packet still fits into a UDP datagram, in
which captures show it."""


def segment_bytes(
    topology: Topology, most_bytes: int = MAX_SEGMENT_BYTES, *, in_memory: bool = False
) -> int:
    """Content bytes of a full segment: the smallest MTU less headers, a multiple of 64.

    It is at most ``most_bytes``. With ``in_memory``, links without limits are shared memory, which
    has no frames: only an MTU that was set counts.
    """
    frames = [link for link in topology.links if not (in_memory and _has_no_frames(link))]
    if in_memory and not frames:
        return MEMORY_SEGMENT_BYTES
    mtu_bytes = min((link.mtu_bytes for link in frames), default=MAX_MTU_BYTES)
    room = min(mtu_bytes - IP_UDP_HEADER_BYTES - SEGMENT_OVERHEAD_BYTES, most_bytes)
    content_bytes = aligned(room)
    if content_bytes <= 0:
        raise EmulationError(
            f"a link of {topology.name} has an MTU of {mtu_bytes} bytes; a segment with its name "
            "and signature needs at least 576"
        )
    return content_bytes


def _has_no_frames(link: Link) -> bool:
    return not link.is_shaped and "mtu_bytes" not in link.given


def bulk_segment_bytes(topology: Topology, mode: Mode) -> int:
    """The most content bytes of a segment whose packet spans several datagrams of each link.

    0 where packets have one datagram each. Several need links of the kernel that carry the
    fragments of a packet together: one that takes them apart, or loses some of them, loses packets
    more often than datagrams.
    """
    if mode == "local" or not all(_carries_superpackets(link, mode) for link in topology.links):
        return 0
    room = min((_fragments_bytes(link) for link in topology.links), default=0)
    return aligned(max(0, room - SEGMENT_OVERHEAD_BYTES))


def _carries_superpackets(link: Link, mode: Mode) -> bool:
    if mode == "cluster" or link.in_memory:  # the emulator's model shapes packets, not datagrams
        return not link.is_shaped
    bucket = TokenBucket.for_link(link)
    return not link.loss and (bucket is None or bucket.passes_superpackets)


def _fragments_bytes(link: Link) -> int:
    datagram_bytes = link.mtu_bytes - IP_UDP_HEADER_BYTES
    datagrams = min(MAX_DATAGRAMS, MAX_DATAGRAM_BYTES // datagram_bytes)
    return datagrams * (datagram_bytes - FRAGMENT_HEADER_BYTES)


def block_segment_bytes(topology: Topology, mode: Mode) -> int:
    """Content bytes of a full segment of a pool's block: as many as a packet has room for.

    Nobody computes with them while they come, so they may be larger than segments of sums.
    """
    single = segment_bytes(topology, MAX_MTU_BYTES)
    return max(single, bulk_segment_bytes(topology, mode))
