"""Key-value pairs: sorted by mixed key, each key once; and their place in segments.

All ranks put the same keys into the same segment, and every union of a segment fits one packet.
Keys are mixed so that any keys fill the space of keys evenly, and cut into segments by ranges of
mixed keys. A segment's content is the number of its pairs (32 bits), their keys in strictly
ascending order, and their values in the same order, all little-endian (docs/protocol.md, Pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.arrays import Array
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted
from innet.errors import CollectiveError, ReductionOverflow

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
        """The number of segments."""
        return len(self.starts)

    def ends(self, keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The end of each segment's keys in the ascending array ``keys``."""
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
    """Cut the keys into as few segments as hold ``counts``, if all ranks had different keys.

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


Keys = npt.NDArray[Any]
KeysAndValues = tuple[Array, Array]

_KEY_TYPES = ("uint64", "uint32", "int64", "int32")

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "prod": np.multiply,
}

VALUE_TYPES = {"float32": "f32", "float64": "f64", "int64": "i64"}
"""Names on the wire of the types that a value may have."""

_COUNT_BYTES = 4


@dataclass(frozen=True)
class KeyMixer:
    """A one-to-one map that spreads any keys evenly: factors between shifts, modulo 2 ** ``bits``.

    Segments are cut by ranges of mixed keys, which are as full as each other whether the keys were
    row numbers, vertices or hashes. The maps are finalisers of well-known hash functions: for 64
    bits that of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014, in Stafford's variant 13), for 32 bits MurmurHash3's (Appleby).

    Attributes:
        bits: of a key.
        shifts: how far the key is shifted over itself before, between and after the factors.
        factors: odd, so that each has an inverse.
    """

    bits: int
    shifts: tuple[int, int, int]
    factors: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned type of a key."""
        return np.dtype(f"u{self.bits // 8}")

    def mix(self, keys: Keys) -> Keys:
        """The mixed keys of ``keys``, which have :attr:`dtype`."""
        mixed: Keys = keys ^ (keys >> self._word(self.shifts[0]))
        for factor, shift in zip(self.factors, self.shifts[1:], strict=True):
            mixed *= self._word(factor)
            mixed ^= mixed >> self._word(shift)
        return mixed

    def unmix(self, mixed: Keys) -> Keys:
        """The keys that :meth:`mix` gives ``mixed`` for."""
        keys = self._unshift(mixed, self.shifts[2])
        for factor, shift in zip(self.factors[::-1], self.shifts[1::-1], strict=True):
            keys = keys * self._word(pow(factor, -1, 1 << self.bits))
            keys = self._unshift(keys, shift)
        return keys

    def _unshift(self, shifted: Keys, shift: int) -> Keys:
        # The upper bits are right from the start; each round makes `shift` more of them right.
        keys = shifted
        for _ in range(self.bits // shift):
            keys = shifted ^ (keys >> self._word(shift))
        return keys

    def _word(self, value: int) -> Any:
        return self.dtype.type(value)


MIXERS = {
    4: KeyMixer(32, (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)),
    8: KeyMixer(64, (30, 27, 31), (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)),
}
"""The mixers of keys, by the size of a key in bytes."""


@dataclass(frozen=True)
class PairLayout:
    """The encoding of a pair on the wire.

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
            sizes: number of bytes received of each row.

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


@dataclass(frozen=True)
class PairType:
    """The types of the keys and the values of pairs.

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
            CollectiveError: they are not pairs that can be reduced.
        """
        if keys.ndim != 1 or values.ndim != 1 or len(keys) != len(values):
            raise CollectiveError(
                f"keys of shape {keys.shape} and values of shape {values.shape} are not pairs; "
                "pass two one-dimensional arrays of equal length"
            )
        if keys.dtype.name not in _KEY_TYPES:
            raise CollectiveError(
                f"keys of {keys.dtype} cannot be reduced; types: {', '.join(_KEY_TYPES)}. Hash "
                "words to uint64 first."
            )
        if values.dtype.name not in VALUE_TYPES:
            raise CollectiveError(
                f"values of {values.dtype} cannot be reduced; types: {', '.join(VALUE_TYPES)}. "
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
    def layout(self) -> PairLayout:
        """Bytes on the wire."""
        return PairLayout(self.mixer.dtype, self.value)


@dataclass(frozen=True)
class Pairs:
    """Pairs of one rank, or of a result: mixed keys, strictly ascending, and their values."""

    type: PairType
    mixed: Array
    values: Array

    @classmethod
    def combined(cls, keys: Array, values: Array, op: str, *, wraps: bool = False) -> Pairs:
        """Sort pairs and reduce those of equal keys, in the order in which they are given.

        Raises:
            CollectiveError: unknown operation, or no pairs.
            ReductionOverflow: the sum of this rank's values for a key left its type. Not if it
                ``wraps`` around.
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
            if op == "sum" and values.dtype.kind == "i" and not wraps:
                _require_in_range(values, is_first)
            values = _reduce_runs(values, is_first, op)
            mixed = mixed[is_first]
        return cls(pair_type, mixed, values)

    def unmixed(self) -> tuple[Array, Array]:
        """Keys, ascending, and their values."""
        keys = self.type.mixer.unmix(self.mixed)
        order = np.argsort(keys)
        return keys[order].view(self.type.key), self.values[order]


def _require_in_range(values: Array, is_first: npt.NDArray[np.bool_]) -> None:
    """Check that the sum of each run of ``values`` fits their type."""
    half = 4 * values.itemsize
    starts = np.flatnonzero(is_first)
    low = np.add.reduceat(values & ((1 << half) - 1), starts)
    high = np.add.reduceat(values >> half, starts) + (low >> half)
    limits = np.iinfo(values.dtype)
    if np.any(high > limits.max >> half) or np.any(high < limits.min >> half):
        raise ReductionOverflow(
            f"the sum of one rank's values for a key leaves the range of {values.dtype}; "
            "scale the values first"
        )


def _reduce_runs(values: Array, is_first: npt.NDArray[np.bool_], op: str) -> Array:
    """Each run of ``values`` reduced from left to right."""
    run = np.cumsum(is_first) - 1
    reduced: Array = values[is_first]
    # Overflow to infinity and NaN are results here, not accidents.
    with np.errstate(all="ignore"):
        _COMBINE[op].at(reduced, run[~is_first], values[~is_first])
    return reduced


@dataclass(frozen=True)
class PairExchange:
    """Publishes a rank's pairs and fetches the union, once all ranks have cut the same segments.

    Attributes:
        what: the call, for people.
        layout: of the pairs.
        keys: of this rank, strictly ascending.
        values: one for each key.
        op: how values of equal keys are reduced.
        partition: the same on every rank; each of its segments has room for the union.
        elements: must be the same on every rank.
        wanted_here: this rank gets the result; otherwise it only contributes.
    """

    what: str
    layout: PairLayout
    keys: Array
    values: Array
    op: str
    partition: KeyPartition
    elements: int
    wanted_here: bool = True

    def operation(self, variants: Variants, segment_bytes: int) -> Operation[KeysAndValues | None]:
        """The operation of one rank; ``segment_bytes`` is the content of a full segment."""
        layout, wanted_here = self.layout, self.wanted_here
        variant = variants.for_size(self.partition.pairs * layout.pair_bytes)
        contents, ends = layout.pack(self.keys, self.values, self.partition)
        segments = np.empty(
            (self.partition.segments if wanted_here else 0, segment_bytes), np.uint8
        )
        sizes = np.zeros(len(segments), np.uint32)

        def finish() -> KeysAndValues | None:
            return layout.unpack(segments, sizes) if wanted_here else None

        return Operation(
            what=self.what,
            variant=variant,
            kind=f"{self.op}.{layout.name}",
            elements=self.elements,
            block_bytes=self.partition.segments * segment_bytes,
            publishes=contents,
            segment_ends=ends,
            wants=(Wanted(variant.roots, segments, sizes=sizes),) if wanted_here else (),
            finish=finish,
            synchronising=wanted_here,
            fixed_segments=True,
        )
