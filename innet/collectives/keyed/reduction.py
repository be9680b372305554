"""Reductions by key: the union of all ranks' keys, with the values of equal keys reduced.

First the ranks add up how many pairs each range of mixed keys has; from that each of them cuts the
key space into the same segments, none of which can overflow a packet. Then each publishes its pairs
and fetches their union, as an allreduce does.

Sums of block-sparse tensors work likewise: first the ranks unite which blocks are not zero, a bit
for each, and cut the union into full segments; then each publishes its blocks and fetches the
union.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from innet.collectives.arrays import (
    Array,
    Output,
    as_input,
    output_like,
    plain_array,
    require_array,
)
from innet.collectives.group import Variants
from innet.collectives.keyed.pairs import (
    COARSE_BUCKETS_LOG2,
    SPARSE_BLOCKS,
    KeyPartition,
    KeysAndValues,
    PairExchange,
    Pairs,
    buckets_needed_log2,
    count_keys,
    cut,
)
from innet.collectives.operation import Operation, allreduce, describe, rooted
from innet.collectives.runner import OperationRunner, Steps
from innet.collectives.work import Work
from innet.errors import CollectiveError

_MOST_BLOCK_STEPS = 2
"""Operations of a sum of blocks: which blocks, and the blocks."""

_MOST_BLOCKS = 1 << 32


@dataclass(frozen=True)
class SparseBlocks:
    """The blocks of one rank's tensor that are not zero.

    Attributes:
        size: elements of the tensor.
        indices: of the blocks, ascending; ``(n,)`` of uint32.
        blocks: their elements, ``(n, B)`` of float32; the tensor's last is filled up with zeros.
    """

    size: int
    indices: Array
    blocks: Array

    @classmethod
    def of(cls, array: Array) -> SparseBlocks:
        """The blocks of a dense array, copied. NaN and infinity are not zero, ``-0.0`` is.

        Raises:
            CollectiveError: it is not of float32, or has more than 2**32 blocks.
        """
        require_array(array)
        if array.dtype != np.float32:
            raise CollectiveError(
                f"arrays of {array.dtype} cannot be added as blocks; convert with "
                "array.astype(numpy.float32)"
            )
        width = SPARSE_BLOCKS.width
        if array.size > _MOST_BLOCKS * width:
            raise CollectiveError(
                f"{array.size} elements are more than {_MOST_BLOCKS} blocks; add them in parts"
            )
        flat = as_input(array).reshape(-1)
        in_whole_blocks = flat.size // width * width
        rows = flat[:in_whole_blocks].reshape(-1, width)
        indices = np.flatnonzero(rows.any(axis=1))
        blocks = rows[indices]
        if flat[in_whole_blocks:].any():
            last = np.zeros((1, width), np.float32)
            last[0, : flat.size - in_whole_blocks] = flat[in_whole_blocks:]
            indices = np.append(indices, len(rows))
            blocks = np.concatenate([blocks, last])
        return cls(flat.size, indices.astype(SPARSE_BLOCKS.key), blocks)

    def presence(self) -> npt.NDArray[np.uint8]:
        """A bit for each block of the tensor: whether it is here."""
        present = np.zeros(-(-self.size // SPARSE_BLOCKS.width), bool)
        present[self.indices] = True
        return np.packbits(present)

    def write(self, memory: Array) -> None:
        """Lay the tensor out in contiguous ``memory`` of ``size`` elements."""
        flat = memory.reshape(-1)
        width = SPARSE_BLOCKS.width
        rows = flat[: flat.size // width * width].reshape(-1, width)
        flat[:] = 0
        whole = self.indices < len(rows)
        rows[self.indices[whole]] = self.blocks[whole]
        if not whole.all():
            flat[rows.size :] = self.blocks[-1, : flat.size - rows.size]


def allreduce_blocks(
    variants: Variants, segment_bytes: int, mine: SparseBlocks, output: Output, what: str
) -> Steps[Array]:
    """The steps of one rank.

    Args:
        variants: plans of the group.
        segment_bytes: content of a full segment.
        mine: what this rank adds.
        output: where the result goes, of ``mine.size`` elements.
        what: for people.
    """
    mine_present = mine.presence()
    uniting = allreduce(variants, mine_present, "bor", mine_present)
    present = yield replace(uniting, what=f"{what}, uniting block numbers")
    union = np.flatnonzero(np.unpackbits(present))
    exchange = PairExchange(
        what=what,
        layout=SPARSE_BLOCKS,
        keys=mine.indices,
        values=mine.blocks,
        op="sum",
        partition=cut_union(union, segment_bytes),
        elements=mine.size,
    )
    indices, blocks = yield exchange.operation(variants, segment_bytes)
    if not np.array_equal(indices, union):
        raise CollectiveError("a sum has other blocks than the ranks announced; run it again")
    SparseBlocks(mine.size, indices, blocks).write(output.memory)
    return output.finish()


def cut_union(indices: Array, segment_bytes: int) -> KeyPartition:
    """Cut the ascending ``indices`` of blocks into as few segments as hold the blocks."""
    full = SPARSE_BLOCKS.capacity(segment_bytes)
    starts = indices[::full].astype(np.uint64) if len(indices) else np.zeros(1, np.uint64)
    return KeyPartition(starts, len(indices))


def require_room(segment_bytes: int) -> None:
    """Refuse segments that no block fits into.

    Raises:
        CollectiveError: they are too small.
    """
    if SPARSE_BLOCKS.capacity(segment_bytes) == 0:
        raise CollectiveError(
            f"a block of {SPARSE_BLOCKS.pair_bytes} bytes does not fit into a segment of "
            f"{segment_bytes}; use links with a larger MTU"
        )


_MOST_STEPS = 3
"""Operations of one reduction: counts, finer counts where there are many, pairs."""


class KeyedReductions:
    """The reductions by key of one communicator; the calls are documented there."""

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner
        self._variants = runner.variants
        self._segment_bytes = runner.segment_bytes

    def reduce_by_key(
        self, keys: Array, values: Array, op: str, root: int | None
    ) -> Work[KeysAndValues | None]:
        """Start a reduction of key-value pairs."""
        with self._runner.calls.call("reduce_by_key", _MOST_STEPS):
            pairs = Pairs.combined(
                plain_array(keys), plain_array(values), op, wraps=self._runner.wraps
            )
            if root is not None:
                self._runner.require_rank(root)
            to_root = "" if root is None else f", root={root}"
            call = _KeyedCall(
                what=f"reduce_by_key({op}.{pairs.type.layout.name}{to_root})",
                pairs=pairs,
                op=op,
                wanted_here=root is None or root == self._runner.rank,
                root=root,
            )
            steps = _reduce_by_key(self._variants, self._segment_bytes, call)
            return self._runner.start_steps(steps, _MOST_STEPS, call.what)

    def allreduce_sparse(self, indices: Array, values: Array, size: int) -> Work[Array]:
        """Start a sum of sparse vectors: a reduction whose keys are indices into the vector."""
        with self._runner.calls.call("allreduce_sparse", _MOST_STEPS):
            indices, values = plain_array(indices), plain_array(values)
            pairs = Pairs.combined(_as_keys(indices, size), values, "sum", wraps=self._runner.wraps)
            call = _KeyedCall(
                what=f"allreduce_sparse({pairs.type.layout.name}, {size} elements)",
                pairs=pairs,
                elements=size,
            )
            summed = _reduce_by_key(self._variants, self._segment_bytes, call)
            steps = _as_vector(summed, size, values.dtype)
            return self._runner.start_steps(steps, _MOST_STEPS, call.what)

    def allreduce_blocks(self, array: Array, out: Array | None) -> Work[Array]:
        """Start a sum of a block-sparse tensor."""
        with self._runner.calls.call("allreduce_blocks", _MOST_BLOCK_STEPS):
            require_room(self._segment_bytes)
            mine = SparseBlocks.of(array)
            output = output_like(out, array.shape, array.dtype)
            what = describe("allreduce_blocks", f"sum.{SPARSE_BLOCKS.name}", array)
            steps = allreduce_blocks(self._variants, self._segment_bytes, mine, output, what)
            return self._runner.start_steps(steps, _MOST_BLOCK_STEPS, what)


@dataclass(frozen=True)
class _KeyedCall:
    """A reduction by key.

    Attributes:
        what: the call, for people.
        pairs: of this rank.
        op: ``sum``, ``min``, ``max`` or ``prod``.
        wanted_here: this rank gets the result; otherwise it only contributes.
        elements: a number that must be equal on all ranks, such as the size of the vector that the
            keys index; ``None``: none.
        root: the rank that gets the result, alike on all ranks; ``None``: all do.
    """

    what: str
    pairs: Pairs
    op: str = "sum"
    wanted_here: bool = True
    elements: int | None = None
    root: int | None = None


def _reduce_by_key(
    variants: Variants, segment_bytes: int, call: _KeyedCall
) -> Steps[KeysAndValues | None]:
    """The steps of one rank; ``segment_bytes`` is the content of a full segment."""
    pairs = call.pairs
    layout = pairs.type.layout
    capacity = layout.capacity(segment_bytes)
    buckets_log2 = COARSE_BUCKETS_LOG2
    counts = yield _count(variants, call, buckets_log2)
    needed_log2 = buckets_needed_log2(counts, capacity)
    if needed_log2 > buckets_log2:
        counts = yield _count(variants, call, needed_log2)
    partition = cut(counts, capacity, pairs.type.mixer.bits)
    exchange = PairExchange(
        what=call.what,
        layout=layout,
        keys=pairs.mixed,
        values=pairs.values,
        op=call.op,
        partition=partition,
        elements=partition.pairs,
        wanted_here=call.wanted_here,
    )
    union: KeysAndValues | None = yield exchange.operation(variants, segment_bytes)
    return None if union is None else Pairs(pairs.type, *union).unmixed()


def _count(variants: Variants, call: _KeyedCall, buckets_log2: int) -> Operation[Array]:
    counts = count_keys(call.pairs.mixed, buckets_log2)
    counting = allreduce(variants, counts, "sum", counts)
    counting = replace(counting, what=f"{call.what}, counting keys")
    if call.root is not None:  # all ranks wait for the counts, so all learn of another root
        counting = replace(counting, kind=rooted(counting.kind, call.root))
    return counting if call.elements is None else replace(counting, elements=call.elements)


def _as_keys(indices: Array, size: int) -> Array:
    """Indices into a vector of ``size`` elements as keys, of the smallest type that holds them.

    Raises:
        CollectiveError: some are outside the vector.
    """
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        raise CollectiveError(f"indices of {indices.dtype} are not whole numbers")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise CollectiveError(
            f"indices from {indices.min()} to {indices.max()} are not all within the "
            f"{size} elements of the vector"
        )
    return indices.astype(np.uint32 if size <= 1 << 32 else np.uint64)


def _as_vector(steps: Steps[KeysAndValues | None], size: int, dtype: np.dtype[Any]) -> Steps[Array]:
    """The steps of a sum by key, whose result is laid out as a vector of ``size`` elements."""
    summed = yield from steps
    vector = np.zeros(size, dtype)
    if summed is not None:
        indices, values = summed
        vector[indices] = values
    return vector
