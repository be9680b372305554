"""Sums of block-sparse tensors: ranks send only blocks that are not zero, and fetch the union.

First the ranks unite which blocks are not zero, a bit for each. So each rank knows the union
exactly and cuts it into the same full segments. Then each publishes its blocks and fetches their
union, as a reduction by key does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from innet.collectives.arrays import Array, Output, as_input, require_array
from innet.collectives.group import Variants
from innet.collectives.keyed.pairs import SPARSE_BLOCKS, PairExchange
from innet.collectives.keyed.partition import KeyPartition
from innet.collectives.reductions import allreduce
from innet.collectives.runner import Steps
from innet.errors import CollectiveError

MOST_STEPS = 2
"""Operations of one sum: which blocks, and the blocks."""

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
        """Those of a dense array, copied. NaN and infinity are not zero, ``-0.0`` is.

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
    """As few segments as hold the blocks of ``indices``, which ascend."""
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
