"""The calls of a communicator that reduce by key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from innet.collectives.arrays import Array, output_like
from innet.collectives.call_sequence import StartCollective
from innet.collectives.group import Variants
from innet.collectives.keyed import blocks
from innet.collectives.keyed.exchange import KeysAndValues
from innet.collectives.keyed.layout import SPARSE_BLOCKS
from innet.collectives.keyed.pairs import Pairs
from innet.collectives.keyed.reduction import MOST_STEPS, reduce_by_key
from innet.collectives.keyed.sparse import as_keys, as_vector
from innet.collectives.operation import describe
from innet.collectives.staged import StartSteps
from innet.collectives.work import Work


class KeyedCalls:
    """Reductions over key-value pairs: what has equal keys is reduced, all else is united.

    So are sums of sparse vectors, whose keys are places, and of block-sparse tensors.
    """

    def __init__(
        self,
        variants: Variants,
        rank: int,
        segment_bytes: int,
        start: StartSteps,
        check_rank: Callable[[int], None],
        collective: StartCollective,
    ) -> None:
        self._keyed_variants = variants
        self._own_rank = rank
        self._pair_segment_bytes = segment_bytes
        self._start_keyed = start
        self._check_root = check_rank
        self._keyed_call = collective

    def ireduce_by_key(
        self, keys: Array, values: Array, op: str = "sum", root: int | None = None
    ) -> Work[KeysAndValues | None]:
        """Start a :meth:`reduce_by_key`; its steps go on whether or not anybody waits."""
        with self._keyed_call("reduce_by_key", numbers=MOST_STEPS):
            pairs = Pairs.combined(np.asarray(keys), np.asarray(values), op)
            if root is not None:
                self._check_root(root)
            to_root = "" if root is None else f", root={root}"
            what = f"reduce_by_key({op}.{pairs.type.layout.name}{to_root})"
            wanted_here = root is None or root == self._own_rank
            steps = reduce_by_key(
                self._keyed_variants,
                self._pair_segment_bytes,
                pairs,
                op,
                wanted_here,
                what,
                root=root,
            )
            return self._start_keyed(steps, MOST_STEPS, what)

    def reduce_by_key(
        self, keys: Array, values: Array, op: str = "sum", root: int | None = None
    ) -> KeysAndValues | None:
        """Reduce key-value pairs over all ranks: the union of the keys, each with one value.

        Values of equal keys are reduced with ``sum``, ``min``, ``max`` or ``prod``, on the switches
        where the plan says so; within one rank first, in the order given. Ranks may have any
        number of pairs, none too, and any keys.

        Args:
            keys: uint64, uint32, int64 or int32, of shape ``(n,)``, not negative; the same type
                on every rank.
            values: float32, float64 or int64, of shape ``(n,)``; the same type on every rank.
            op: how values of equal keys are reduced.
            root: the rank that gets the result; by default all do.

        Returns:
            The keys, ascending, and their values, the same bits on every rank; ``None`` on ranks
            other than ``root``.

        Raises:
            CollectiveError: no pairs of these types; or too many ranks for the links' packets.
            MismatchError: ranks called different operations or types.
            ReductionOverflow: an integer does not fit its type.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.

        Example::

            words, counts = comm.reduce_by_key(hashes, np.ones(len(hashes), np.int64))
        """
        return self.ireduce_by_key(keys, values, op, root).wait_or_cancel()

    def iallreduce_sparse(self, indices: Array, values: Array, size: int) -> Work[Array]:
        """Start an :meth:`allreduce_sparse`."""
        with self._keyed_call("allreduce_sparse", numbers=MOST_STEPS):
            indices, values = np.asarray(indices), np.asarray(values)
            pairs = Pairs.combined(as_keys(indices, size), values, "sum")
            what = f"allreduce_sparse({pairs.type.layout.name}, {size} elements)"
            summed = reduce_by_key(
                self._keyed_variants, self._pair_segment_bytes, pairs, "sum", True, what, size
            )
            steps = as_vector(summed, size, values.dtype)
            return self._start_keyed(steps, MOST_STEPS, what)

    def allreduce_sparse(self, indices: Array, values: Array, size: int) -> Array:
        """Sum vectors of which each rank names a few elements, such as the top k of a gradient.

        What travels is proportional to the elements named, not to ``size``; elements that several
        ranks name are added on the switches (with the algorithm ``inc``).

        Args:
            indices: whole numbers of shape ``(k,)`` in ``0 .. size - 1``, in any order; what is
                named twice is added. ``k`` may differ between ranks.
            values: float32, float64 or int64, of shape ``(k,)``.
            size: elements of the whole vector; the same on every rank.

        Returns:
            The sum, of shape ``(size,)`` and the type of ``values``; zero where nobody named
            anything. The same bits on every rank.

        Raises:
            As :meth:`reduce_by_key`.

        Example::

            top = np.argpartition(np.abs(gradient), -k)[-k:]
            total = comm.allreduce_sparse(top, gradient[top], gradient.size)
        """
        return self.iallreduce_sparse(indices, values, size).wait_or_cancel()

    def iallreduce_blocks(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allreduce_blocks`; ``array`` may be changed at once."""
        with self._keyed_call("allreduce_blocks", numbers=blocks.MOST_STEPS):
            blocks.require_room(self._pair_segment_bytes)
            mine = blocks.SparseBlocks.of(array)
            output = output_like(out, array.shape, array.dtype)
            what = describe("allreduce_blocks", f"sum.{SPARSE_BLOCKS.name}", array)
            steps = blocks.allreduce_blocks(
                self._keyed_variants, self._pair_segment_bytes, mine, output, what
            )
            return self._start_keyed(steps, blocks.MOST_STEPS, what)

    def allreduce_blocks(self, array: Array, out: Array | None = None) -> Array:
        """Sum float32 arrays of which whole blocks are zero, such as an embedding's gradient.

        A block is 32 elements that follow each other, the first from 0 on. What travels is
        proportional to the blocks that are not zero, and one bit for each that is; blocks that
        several ranks have are added on the switches (with the algorithm ``inc``). Which blocks
        these are need not be known to the others. A block with NaN or infinity is not zero.

        Args:
            array: float32, of any shape, the same on every rank; dense.
            out: where the result goes; may be ``array``.

        Returns:
            The sum, of the shape of ``array``; ``0.0`` in a block that nobody sent. The same bits
            on every rank.

        Raises:
            CollectiveError: not float32, or links whose packets have no room for a block.
            MismatchError: ranks called different operations or shapes.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.

        Example::

            comm.allreduce_blocks(embedding.grad, out=embedding.grad)
        """
        return self.iallreduce_blocks(array, out).wait_or_cancel()
