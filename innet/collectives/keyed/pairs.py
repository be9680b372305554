"""Key-value pairs as the wire has them: sorted by mixed key, one run per segment.

A segment's content is the number of its pairs (32 bits), their mixed keys in strictly ascending
order, and their values in the same order, all little-endian (docs/protocol.md, Pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from innet.collectives.keyed.mixing import MIXERS, KeyMixer
from innet.collectives.keyed.partition import KeyPartition
from innet.errors import CollectiveError, ReductionOverflow

Array = npt.NDArray[Any]

COUNT_BYTES = 4
"""What the number of pairs takes in a segment."""

_KEY_TYPES = ("uint64", "uint32", "int64", "int32")
_VALUE_TYPES = {"float32": "f32", "float64": "f64", "int64": "i64"}

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "prod": np.multiply,
}


@dataclass(frozen=True)
class PairType:
    """What pairs are made of.

    Attributes:
        key: the caller's type of keys.
        value: type of the values.
    """

    key: np.dtype[Any]
    value: np.dtype[Any]

    @classmethod
    def of(cls, keys: Array, values: Array) -> PairType:
        """The type of two arrays of equal length.

        Raises:
            CollectiveError: they are no pairs that can be reduced.
        """
        if keys.ndim != 1 or values.ndim != 1 or len(keys) != len(values):
            raise CollectiveError(
                f"keys of shape {keys.shape} and values of shape {values.shape} are no pairs; "
                "pass two one-dimensional arrays of equal length"
            )
        if keys.dtype.name not in _KEY_TYPES:
            raise CollectiveError(
                f"keys of {keys.dtype} cannot be reduced; types: {', '.join(_KEY_TYPES)}. Hash "
                "words to uint64 first."
            )
        if values.dtype.name not in _VALUE_TYPES:
            raise CollectiveError(
                f"values of {values.dtype} cannot be reduced; types: {', '.join(_VALUE_TYPES)}. "
                "Convert with values.astype()."
            )
        if keys.dtype.kind == "i" and len(keys) and keys.min() < 0:
            raise CollectiveError(f"key {keys.min()} is negative; keys are numbers from 0 on")
        return cls(keys.dtype, values.dtype)

    @property
    def mixer(self) -> KeyMixer:
        """How keys are mixed."""
        return MIXERS[self.key.itemsize]

    @property
    def name(self) -> str:
        """The wire's name, such as ``u64-f32``."""
        return f"u{self.mixer.bits}-{_VALUE_TYPES[self.value.name]}"

    @property
    def pair_bytes(self) -> int:
        """Bytes of a pair."""
        return self.key.itemsize + self.value.itemsize

    def capacity(self, segment_bytes: int) -> int:
        """Pairs that fit into a segment."""
        return max(0, segment_bytes - COUNT_BYTES) // self.pair_bytes


@dataclass(frozen=True)
class Pairs:
    """Pairs of one rank, or of a result: mixed keys, strictly ascending, and their values."""

    type: PairType
    mixed: Array
    values: Array

    @classmethod
    def combined(cls, keys: Array, values: Array, op: str) -> Pairs:
        """Sort pairs and reduce those of equal keys, in the order in which they are given.

        Raises:
            CollectiveError: unknown operation, or no pairs.
            ReductionOverflow: an integer left its type.
        """
        if op not in _COMBINE:
            raise CollectiveError(f"unknown reduction {op!r}; known: {', '.join(_COMBINE)}")
        pair_type = PairType.of(keys, values)
        mixer = pair_type.mixer
        mixed = mixer.mix(np.ascontiguousarray(keys).view(mixer.dtype))
        order = np.argsort(mixed, kind="stable")
        mixed, values = mixed[order], values[order]
        is_first = np.ones(len(mixed), bool)
        is_first[1:] = mixed[1:] != mixed[:-1]
        if not is_first.all():
            values = _reduce_runs(values, is_first, op)
            mixed = mixed[is_first]
        return cls(pair_type, mixed, values)

    def unmixed(self) -> tuple[Array, Array]:
        """Keys, ascending, and their values."""
        keys = self.type.mixer.unmix(self.mixed)
        order = np.argsort(keys)
        return keys[order].view(self.type.key), self.values[order]

    def pack(self, partition: KeyPartition) -> tuple[npt.NDArray[np.uint8], Array]:
        """The contents of all segments, one behind the other, and where each ends (uint64)."""
        ends = partition.ends(self.mixed)
        counts = np.diff(ends, prepend=0)
        byte_ends = np.cumsum(COUNT_BYTES + counts * self.type.pair_bytes).astype(np.uint64)
        contents = np.empty(int(byte_ends[-1]), np.uint8)
        keys, values = _bytes_of(self.mixed), _bytes_of(self.values)
        place = 0
        for begin, end in zip(ends - counts, ends, strict=True):
            header = np.array([end - begin], "<u4")
            for part in (_bytes_of(header), keys[begin:end], values[begin:end]):
                contents[place : place + part.size] = part.reshape(-1)
                place += part.size
        return contents, byte_ends

    @classmethod
    def unpack(cls, pair_type: PairType, segments: Array, sizes: Array) -> Pairs:
        """The pairs of all segments.

        Args:
            segments: a row of bytes for each segment.
            sizes: how many bytes of each row came.

        Raises:
            CollectiveError: a segment does not hold what a segment of pairs must.
        """
        keys, values = [], []
        for row, size in zip(segments, sizes, strict=True):
            content = row[:size]
            count = int(content[:COUNT_BYTES].view("<u4")[0]) if size >= COUNT_BYTES else -1
            values_begin = COUNT_BYTES + count * pair_type.key.itemsize
            if size != COUNT_BYTES + count * pair_type.pair_bytes:
                raise CollectiveError(f"a segment of {size} bytes does not hold {count} pairs")
            keys.append(content[COUNT_BYTES:values_begin])
            values.append(content[values_begin:])
        mixed = np.concatenate(keys).view(pair_type.mixer.dtype)
        if len(mixed) and not (mixed[1:] > mixed[:-1]).all():
            raise CollectiveError("the segments of a result have keys that do not ascend")
        return cls(pair_type, mixed, np.concatenate(values).view(pair_type.value))


def _reduce_runs(values: Array, is_first: npt.NDArray[np.bool_], op: str) -> Array:
    """Each run of ``values`` reduced from left to right."""
    run = np.cumsum(is_first) - 1
    if values.dtype.kind == "i" and op in ("sum", "prod") and _may_overflow(values, run, op):
        # Python's own integers cannot wrap around.
        exact = values[is_first].astype(object)
        _COMBINE[op].at(exact, run[~is_first], values[~is_first].astype(object))
        limits = np.iinfo(values.dtype)
        if max(exact) > limits.max or min(exact) < limits.min:
            raise ReductionOverflow(
                f"the {op} of one rank's values for a key leaves the range of {values.dtype}; "
                "scale the values first"
            )
        return exact.astype(values.dtype)
    reduced: Array = values[is_first]
    # Overflow to infinity and NaN are results here, not accidents.
    with np.errstate(all="ignore"):
        _COMBINE[op].at(reduced, run[~is_first], values[~is_first])
    return reduced


def _may_overflow(values: Array, run: Array, op: str) -> bool:
    largest = max(abs(int(values.max())), abs(int(values.min())))
    longest = int(np.bincount(run).max())
    bound = largest * longest if op == "sum" else max(1, largest) ** min(longest, 64)
    return bound > np.iinfo(values.dtype).max


def _bytes_of(array: Array) -> npt.NDArray[np.uint8]:
    """A row of bytes for each element."""
    return array.view(np.uint8).reshape(len(array), array.itemsize)
