"""How large the segments of an operation are."""

from __future__ import annotations

from typing import NamedTuple

_ALIGNMENT_BYTES = 64
_LEAST_SEGMENTS = 64
_LEAST_SEGMENTS_OF_SHARD = 8


class SegmentRoom(NamedTuple):
    """How many bytes of a tensor a segment carries.

    Attributes:
        packet_bytes: in a packet that fits into one datagram of each link.
        bulk_bytes: the most, in a packet that may span datagrams.
    """

    packet_bytes: int
    bulk_bytes: int

    def of(self, size_bytes: int, shards: int) -> int:
        """Content of a full segment of an operation on ``size_bytes``, a multiple of 64.

        Segments of several datagrams save processor time. An operation still has enough of them to
        keep all links on the way busy at once.
        """
        least_segments = max(_LEAST_SEGMENTS, _LEAST_SEGMENTS_OF_SHARD * shards)
        wanted_bytes = size_bytes // least_segments
        return max(self.packet_bytes, min(aligned(wanted_bytes), self.bulk_bytes))


def aligned(size_bytes: int) -> int:
    """The largest content of a segment within ``size_bytes``."""
    return size_bytes // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES
