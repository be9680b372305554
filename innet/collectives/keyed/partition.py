"""Which keys go into which segment: the same on every rank, so that every union fits one packet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError

COARSE_BUCKETS_LOG2 = 8
"""Ranges of mixed keys counted at first: 1 KiB of counts, one packet."""

_BUCKETS_PER_SEGMENT = 8
_MOST_BUCKETS_LOG2 = 24

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class KeyPartition:
    """Ranges of keys (mixed ones, or the indices of blocks), a range for each segment.

    Attributes:
        starts: first key of each segment, ascending; the first segment has all lower ones, too.
        pairs: how many pairs all ranks have together: an upper bound of the union.
    """

    starts: npt.NDArray[np.uint64]
    pairs: int

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(self.starts)

    def ends(self, keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """For each segment, where its keys end in the ascending array ``keys``."""
        firsts = np.searchsorted(keys, self.starts[1:].astype(keys.dtype))
        return np.append(firsts, len(keys))


def count_keys(mixed: npt.NDArray[Any], buckets_log2: int) -> Counts:
    """How many of the ``mixed`` keys are in each of 2 ** ``buckets_log2`` equal ranges."""
    shift = mixed.dtype.type(mixed.dtype.itemsize * 8 - buckets_log2)
    buckets = (mixed >> shift).astype(np.int64)
    return np.bincount(buckets, minlength=1 << buckets_log2).astype(np.int32)


def buckets_needed_log2(counts: Counts, capacity: int) -> int:
    """How many ranges to count before cutting: those of ``counts`` if they are fine enough.

    A segment should be filled by many ranges, as half a range stays empty in each.

    Args:
        counts: pairs of all ranks together, by range.
        capacity: pairs that fit one segment.
    """
    total = int(counts.sum(dtype=np.int64))
    wanted = max(1, _BUCKETS_PER_SEGMENT * total // capacity)
    have_log2 = len(counts).bit_length() - 1
    if counts.max() > capacity:
        have_log2 += 4
    return min(max(have_log2, (wanted - 1).bit_length()), _MOST_BUCKETS_LOG2)


def cut(counts: Counts, capacity: int, key_bits: int) -> KeyPartition:
    """As few segments as hold ``counts``, if all ranks had different keys.

    Raises:
        CollectiveError: a single range holds more than ``capacity`` pairs.
    """
    up_to = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    buckets = len(counts)
    firsts = [0]
    while True:
        room_ends = int(np.searchsorted(up_to, up_to[firsts[-1]] + capacity, side="right")) - 1
        if room_ends >= buckets:
            break
        if room_ends == firsts[-1]:
            raise CollectiveError(
                f"{int(counts[room_ends])} pairs fall into one of {buckets} ranges of keys, and "
                f"{capacity} fit into a packet: too many ranks, or keys made to collide. Use "
                "links with a larger MTU, or hash the keys with a secret first."
            )
        firsts.append(room_ends)
    shift = key_bits - (buckets.bit_length() - 1)
    starts = np.array([first << shift for first in firsts], np.uint64)
    return KeyPartition(starts, int(up_to[-1]))
