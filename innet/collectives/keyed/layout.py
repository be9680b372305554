"""How keys and their values lie in the segments of an operation.

A segment's content is the number of its pairs (32 bits), their keys in strictly ascending order,
and their values in the same order, all little-endian (docs/protocol.md, Pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.arrays import Array
from innet.collectives.keyed.partition import KeyPartition
from innet.errors import CollectiveError

VALUE_TYPES = {"float32": "f32", "float64": "f64", "int64": "i64"}
"""Names on the wire of the types that a value may have."""

_COUNT_BYTES = 4


@dataclass(frozen=True)
class PairLayout:
    """What a pair takes on the wire.

    Attributes:
        key: unsigned, of 4 or 8 bytes.
        value: type of an element.
        width: elements of a value; values are arrays of shape ``(n,)`` where it is 1, and
            ``(n, width)`` otherwise.
    """

    key: np.dtype[Any]
    value: np.dtype[Any]
    width: int = 1

    @property
    def name(self) -> str:
        """The wire's name, such as ``u64-f32`` or ``u32-f32x32``."""
        several = "" if self.width == 1 else f"x{self.width}"
        return f"u{8 * self.key.itemsize}-{VALUE_TYPES[self.value.name]}{several}"

    @property
    def pair_bytes(self) -> int:
        """Bytes of a pair."""
        return self.key.itemsize + self.width * self.value.itemsize

    def capacity(self, segment_bytes: int) -> int:
        """Pairs that fit into a segment."""
        return max(0, segment_bytes - _COUNT_BYTES) // self.pair_bytes

    def pack(
        self, keys: Array, values: Array, partition: KeyPartition
    ) -> tuple[npt.NDArray[np.uint8], Array]:
        """The contents of all segments, one behind the other, and where each ends (uint64).

        Args:
            keys: strictly ascending.
            values: one for each key.
            partition: which keys go into which segment.
        """
        ends = partition.ends(keys)
        counts = np.diff(ends, prepend=0)
        byte_ends = np.cumsum(_COUNT_BYTES + counts * self.pair_bytes).astype(np.uint64)
        contents = np.empty(int(byte_ends[-1]), np.uint8)
        key_bytes, value_bytes = _bytes_of(keys), _bytes_of(values)
        place = 0
        for begin, end in zip(ends - counts, ends, strict=True):
            header = np.array([end - begin], "<u4")
            for part in (_bytes_of(header), key_bytes[begin:end], value_bytes[begin:end]):
                contents[place : place + part.size] = part.reshape(-1)
                place += part.size
        return contents, byte_ends

    def unpack(self, segments: Array, sizes: Array) -> tuple[Array, Array]:
        """The keys of all segments, strictly ascending, and their values.

        Args:
            segments: a row of bytes for each segment.
            sizes: how many bytes of each row came.

        Raises:
            CollectiveError: a segment does not hold what a segment of pairs must.
        """
        key_parts, value_parts = [], []
        for row, size in zip(segments, sizes, strict=True):
            content = row[:size]
            count = int(content[:_COUNT_BYTES].view("<u4")[0]) if size >= _COUNT_BYTES else -1
            values_begin = _COUNT_BYTES + count * self.key.itemsize
            if size != _COUNT_BYTES + count * self.pair_bytes:
                raise CollectiveError(f"a segment of {size} bytes does not hold {count} pairs")
            key_parts.append(content[_COUNT_BYTES:values_begin])
            value_parts.append(content[values_begin:])
        keys = np.concatenate(key_parts).view(self.key)
        if len(keys) and not (keys[1:] > keys[:-1]).all():
            raise CollectiveError("the segments of a result have keys that do not ascend")
        values = np.concatenate(value_parts).view(self.value)
        return keys, values if self.width == 1 else values.reshape(-1, self.width)


SPARSE_BLOCKS = PairLayout(
    np.dtype(np.uint32), np.dtype(np.float32), width=_core.SPARSE_BLOCK_ELEMENTS
)
"""Blocks of a tensor: their indices and their elements."""


def _bytes_of(array: Array) -> npt.NDArray[np.uint8]:
    """A row of bytes for each element, or for each row."""
    row_bytes = array.itemsize * (array.shape[1] if array.ndim > 1 else 1)
    return array.view(np.uint8).reshape(len(array), row_bytes)
