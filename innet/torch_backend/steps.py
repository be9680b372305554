"""The operations of a communicator that make up each of PyTorch's collectives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch.distributed import ReduceOp

from innet.collectives import Communicator, Work
from innet.collectives.arrays import Array
from innet.errors import CollectiveError, MismatchError, PeerError, ReductionOverflow
from innet.torch_backend.launcher import CalledOff, Step
from innet.torch_backend.tensors import (
    HostMemory,
    Reduction,
    as_array,
    as_source,
    as_target,
    copy_into,
    hold_alike,
    reduction_of,
    require_elements,
    require_multiple,
    require_one_each,
    require_reducible,
    widened,
)

_MARK = 0x696E6E6574
"""First element of an agreement; distinguishes it from a tensor of the program."""


class Agreement:
    """The first operation of a call that has several: every rank announces the others.

    The number of operations follows from the arguments. A rank whose arguments are wrong does not
    know how many operations the other ranks start, so it fails this one, and no rank starts the
    others.
    """

    def __init__(self, communicator: Communicator, header: npt.NDArray[np.int64]) -> None:
        self._communicator = communicator
        self._header = header
        self._work: Work[Array] | None = None

    def start(self) -> Work[Array]:
        """Announce the header of this rank."""
        self._work = self._communicator.iallgather(self._header)
        return self._work

    def headers(self) -> Array:
        """The headers of all ranks, one row each.

        Raises:
            CalledOff: a rank failed, or made another call; no rank has the headers.
            CollectiveError: other ranks may have the headers.
        """
        assert self._work is not None
        try:
            return self._work.wait()
        except (MismatchError, PeerError, ReductionOverflow) as error:
            raise CalledOff(error) from error


def agreed(
    communicator: Communicator, steps: Sequence[Step], *, synchronising: bool = True
) -> list[Step]:
    """``steps`` behind an agreement on their number.

    Args:
        communicator: of this rank.
        steps: the steps after the agreement.
        synchronising: as for :meth:`Communicator.collective`. A rank on which the call fails counts
            the agreement as that call.
    """
    announcing = functools.partial(Step, synchronising=synchronising)
    agreement = Agreement(communicator, np.array([_MARK, len(steps)], np.int64))

    def require_equal() -> None:
        for rank, (_, count) in enumerate(agreement.headers()):
            if count != len(steps):
                raise MismatchError(
                    f"ranks make calls of different numbers of operations: this rank, "
                    f"{communicator.rank}, has {len(steps)} and rank {rank} has {count}; pass as "
                    "many tensors, of the same sizes, on every rank"
                )

    if not steps:
        return [announcing(agreement.start, require_equal)]
    first = steps[0]

    def ready() -> None:
        try:
            require_equal()
        except MismatchError as error:
            raise CalledOff(error) from error
        if first.ready is not None:
            first.ready()

    return [announcing(agreement.start), replace(first, ready=ready), *steps[1:]]


class SparseSum:
    """The steps of one allreduce of a sparse COO tensor.

    Ranks have different numbers of elements that are not zero. The first step gathers these
    numbers, the others gather indices and values, padded to the largest number. All ranks then add
    the same operands in the same order, so they hold the same bits.
    """

    def __init__(
        self, communicator: Communicator, tensor: torch.Tensor, reduction: Reduction
    ) -> None:
        """Take the contribution of this rank.

        Raises:
            CollectiveError: the layout is not COO, or the operator is not a sum.
        """
        if tensor.layout != torch.sparse_coo:
            raise CollectiveError(
                f"a tensor has the layout {tensor.layout}; all_reduce() takes dense tensors and "
                "sparse COO ones: tensor.to_sparse_coo() or tensor.to_dense()"
            )
        if reduction.name != "sum":
            raise CollectiveError(
                f"sparse tensors are added and averaged, not reduced with {reduction.name!r}; pass "
                "tensor.to_dense()"
            )
        self._communicator = communicator
        self._tensor = tensor
        self._reduction = reduction
        mine = reduction.prepared(tensor.detach()).coalesce()
        self._indices = as_source(mine.indices())
        self._values = as_source(mine.values())
        self._header = np.array([mine._nnz(), mine.sparse_dim(), *mine.shape], np.int64)
        self._agreement = Agreement(communicator, self._header)
        self._all_indices: Array = np.empty(0, np.int64)
        self._all_values: Array = np.empty(0, np.int64)

    def steps(self) -> list[Step]:
        """The steps in order; the last one fills the tensor."""
        return [
            Step(self._agreement.start),
            Step(self._gather_indices, ready=self._read_headers),
            Step(self._gather_values, self._finish),
        ]

    def _read_headers(self) -> None:
        headers = self._agreement.headers()
        for rank, header in enumerate(headers):
            if not np.array_equal(header[1:], self._header[1:]):
                raise CalledOff(
                    MismatchError(
                        f"all_reduce of sparse tensors: this rank, {self._communicator.rank}, has "
                        f"{_shape(self._header)}, rank {rank} has {_shape(header)}"
                    )
                )
        self._counts = [int(count) for count in headers[:, 0]]
        size, largest = self._communicator.size, max(self._counts)
        self._all_indices = np.zeros((size, len(self._indices), largest), np.int64)
        self._all_values = np.zeros((size, largest, *self._values.shape[1:]), self._values.dtype)

    def _gather_indices(self) -> Work[Array]:
        own = np.zeros_like(self._all_indices[0])
        own[:, : self._indices.shape[1]] = self._indices
        return self._communicator.iallgather(own, out=self._all_indices)

    def _gather_values(self) -> Work[Array]:
        own = np.zeros_like(self._all_values[0])
        own[: len(self._values)] = self._values
        return self._communicator.iallgather(own, out=self._all_values)

    def _finish(self) -> None:
        rows = range(self._communicator.size)
        counts = self._counts
        indices = np.concatenate([self._all_indices[r][:, : counts[r]] for r in rows], axis=1)
        values = torch.empty((sum(counts), *self._values.shape[1:]), dtype=self._tensor.dtype)
        np.concatenate([self._all_values[r][: counts[r]] for r in rows], out=as_array(values))
        summed = torch.sparse_coo_tensor(
            torch.from_numpy(indices), values, self._tensor.shape
        ).coalesce()
        self._reduction.finish(summed.values(), self._communicator.size)
        with torch.no_grad():  # a detached view would get indices of its own
            self._tensor.copy_(summed)


def _shape(header: Array) -> str:
    return f"{header[1]} sparse dimensions of shape {tuple(int(extent) for extent in header[2:])}"


ALLTOALL_TAG = -1
"""The tag of the messages that carry an all-to-all of uneven parts; programs have tags from 0."""


class StepBuilder:
    """The steps of each collective for one rank of one group.

    All ranks of a group make the same number of steps: it depends on properties that PyTorch's
    semantics make equal on all ranks, such as whether the parts of a list are uneven. No step asks
    for sizes beforehand, so a call returns at once. Where a call has several steps, the ranks first
    agree on their number (:func:`agreed`).
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._rank = communicator.rank
        self._size = communicator.size

    # Reductions.

    def allreduce(self, tensor: torch.Tensor, op: ReduceOp) -> Step:
        """The ``tensor`` of every rank becomes the reduction over all ranks."""
        if (wide := widened(tensor, op)) is not None:
            return _narrowing(self.allreduce(wide, op), wide, tensor)
        reduction = reduction_of(op, tensor.dtype)
        memory = as_target(tensor)
        out = memory.array
        require_reducible(tensor, out, reduction.name)
        array = out if reduction.factor is None else as_source(reduction.prepared(tensor))
        return Step(
            lambda: self._communicator.iallreduce(array, reduction.name, out=out),
            self._finish(memory, reduction, tensor),
        )

    def reduce(
        self, tensor: torch.Tensor, output: torch.Tensor | None, root: int, op: ReduceOp
    ) -> Step:
        """The root's ``output`` becomes the reduction over all ranks' ``tensor``."""
        if (wide := widened(tensor, op)) is not None:
            if output is None:
                return self.reduce(wide, None, root, op)
            return _narrowing(self.reduce(wide, wide, root, op), wide, output)
        reduction = reduction_of(op, tensor.dtype)
        array = as_source(reduction.prepared(tensor))
        require_reducible(tensor, array, reduction.name)
        if output is None:
            return Step(
                lambda: self._communicator.ireduce(array, root, reduction.name),
                synchronising=False,
            )
        if output is tensor:
            memory = as_target(output)
            out = memory.array
            if reduction.factor is None:
                array = out  # the same object: in place
        else:  # its shape may differ
            memory = _flat_target(output)
            out, array = memory.array, array.reshape(-1)
        return Step(
            lambda: self._communicator.ireduce(array, root, reduction.name, out=out),
            self._finish(memory, reduction, output),
            synchronising=False,
        )

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: ReduceOp
    ) -> list[Step]:
        """Rank r's ``output`` becomes the reduction of tensor r of all ranks' ``inputs``."""
        require_one_each(inputs, output.dtype, self._size, "reduce_scatter")
        require_elements(output, inputs[self._rank].numel(), "reduce_scatter", "output")
        if hold_alike(inputs):
            rows = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
            return [self.reduce_scatter_single(output, rows, op)]
        steps = [
            self.reduce(tensor, output if root == self._rank else None, root, op)
            for root, tensor in enumerate(inputs)
        ]
        return agreed(self._communicator, steps)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, op: ReduceOp
    ) -> Step:
        """Rank r's ``output`` becomes the reduction of part r of all ranks' ``tensor``."""
        require_multiple(tensor, output, self._size, "reduce_scatter_tensor")
        if (wide := widened(tensor, op)) is not None:
            part = torch.empty(output.shape, dtype=wide.dtype)
            return _narrowing(self.reduce_scatter_single(part, wide, op), part, output)
        reduction = reduction_of(op, tensor.dtype)
        rows = as_source(reduction.prepared(tensor)).reshape(self._size, output.numel())
        require_reducible(tensor, rows, reduction.name)
        memory = _flat_target(output)
        out = memory.array[None]
        return Step(
            lambda: self._communicator.ireduce_scatter(rows, reduction.name, out=out),
            self._finish(memory, reduction, output),
        )

    # Copies.

    def broadcast(self, tensor: torch.Tensor, root: int) -> Step:
        """The ``tensor`` of every rank becomes the root's."""
        if root == self._rank:
            array = as_source(tensor)
            return Step(lambda: self._communicator.ibroadcast(array, root), synchronising=False)
        memory = as_target(tensor)
        return Step(
            lambda: self._communicator.ibroadcast(memory.array, root),
            memory.finish,
            synchronising=False,
        )

    def allgather(self, outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> list[Step]:
        """Tensor r of ``outputs`` becomes rank r's ``tensor``."""
        require_one_each(outputs, tensor.dtype, self._size, "all_gather")
        require_elements(outputs[self._rank], tensor.numel(), "all_gather", "own output")
        if hold_alike(outputs):
            rows = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
            step = self.allgather_single(rows, tensor)
            return [Step(step.submit, lambda: _copy_rows(rows, outputs))]
        copy_into(outputs[self._rank], tensor.detach().reshape(outputs[self._rank].shape))
        steps = [self.broadcast(output, root) for root, output in enumerate(outputs)]
        return agreed(self._communicator, steps)

    def allgather_single(self, output: torch.Tensor, tensor: torch.Tensor) -> Step:
        """``output`` holds the ``tensor`` of all ranks, in the order of the ranks."""
        require_multiple(output, tensor, self._size, "all_gather_into_tensor")
        array = as_source(tensor).reshape(-1)
        memory = _flat_target(output)
        out = memory.array.reshape(self._size, array.size)
        return Step(lambda: self._communicator.iallgather(array, out=out), memory.finish)

    def gather(self, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Step:
        """Tensor r of the root's ``outputs`` becomes rank r's ``tensor``."""
        array = as_source(tensor).reshape(-1)
        if root != self._rank:
            return Step(lambda: self._communicator.igather(array, root), synchronising=False)
        require_one_each(outputs, tensor.dtype, self._size, "gather")
        for output in outputs:
            require_elements(output, tensor.numel(), "gather", "each output")
        rows = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
        out = as_target(rows).array
        return Step(
            lambda: self._communicator.igather(array, root, out=out),
            lambda: _copy_rows(rows, outputs),
            synchronising=False,
        )

    def scatter(self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int) -> Step:
        """Rank r's ``output`` becomes tensor r of the root's ``inputs``."""
        array = None
        if root == self._rank:
            require_one_each(inputs, output.dtype, self._size, "scatter")
            for tensor in inputs:
                require_elements(tensor, output.numel(), "scatter", "each input")
            rows = torch.stack([tensor.detach().reshape(-1) for tensor in inputs])
            array = as_source(rows)
        memory = _flat_target(output)
        out = memory.array[None]
        return Step(
            lambda: self._communicator.iscatter(array, root, out=out),
            memory.finish,
            synchronising=False,
        )

    def alltoall_single(self, output: torch.Tensor, tensor: torch.Tensor) -> Step:
        """Part s of rank r's ``output`` becomes part r of rank s's ``tensor``; equal parts."""
        require_elements(output, tensor.numel(), "all_to_all_single", "output")
        _require_type(output, tensor, "all_to_all_single")
        if tensor.numel() % self._size:
            raise CollectiveError(
                f"all_to_all_single over {self._size} ranks: {tensor.numel()} elements do not "
                "divide; pass the split sizes, on every rank"
            )
        rows = as_source(tensor).reshape(self._size, tensor.numel() // self._size)
        memory = _flat_target(output)
        out = memory.array.reshape(rows.shape)
        return Step(lambda: self._communicator.ialltoall(rows, out=out), memory.finish)

    def alltoall(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> list[Step]:
        """Tensor s of rank r's ``outputs`` becomes tensor r of rank s's ``inputs``.

        Each part is a message of its own: a rank does not know whether the parts of all others
        are as even as its own.
        """
        require_one_each(outputs, outputs[0].dtype, self._size, "all_to_all")
        require_one_each(inputs, outputs[0].dtype, self._size, "all_to_all")
        own = self._rank
        require_elements(outputs[own], inputs[own].numel(), "all_to_all", "output of the own part")
        copy_into(outputs[own], inputs[own].detach().reshape(outputs[own].shape))
        peers = [(own + step) % self._size for step in range(1, self._size)]
        return [self.send(inputs[peer], peer, ALLTOALL_TAG) for peer in peers] + [
            self.receive(outputs[peer], peer, ALLTOALL_TAG) for peer in peers
        ]

    def fail_alltoall(self, error: BaseException) -> None:
        """Send ``error`` in place of the messages of :meth:`alltoall`."""
        for peer in range(self._size):
            if peer != self._rank:
                self._communicator.fail_send(peer, ALLTOALL_TAG, error)
                self._communicator.skip_recv(peer, ALLTOALL_TAG)

    def barrier(self, timeout_s: float | None) -> Step:
        """Ends when every rank has called it."""
        return Step(lambda: self._communicator.ibarrier(timeout_s=timeout_s))

    # Messages.

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Step:
        """Ends when the message is buffered, so the program may change the tensor."""
        array = as_source(tensor)
        return Step(
            lambda: self._communicator.isend(array, to, tag),
            fail=lambda error: self._communicator.fail_send(to, tag, error),
        )

    def receive(self, tensor: torch.Tensor, source: int, tag: int) -> Step:
        """``tensor`` becomes the next message of rank ``source`` with that tag."""
        memory = as_target(tensor)
        return Step(
            lambda: self._communicator.irecv(memory.array, source, tag),
            memory.finish,
            fail=lambda _error: self._communicator.skip_recv(source, tag),
        )

    def receive_any(
        self, tensor: torch.Tensor, tag: int, tell_sender: Callable[[int], None]
    ) -> Step:
        """``tensor`` becomes the next message of any rank with that tag."""
        memory = as_target(tensor)
        started: list[Work[int]] = []

        def submit() -> Work[int]:
            started.append(self._communicator.irecv_any(memory.array, tag))
            return started[0]

        def finish() -> None:
            tell_sender(started[0].wait())
            if memory.finish is not None:
                memory.finish()

        return Step(submit, finish, fail=fail_nothing)

    def _finish(
        self, memory: HostMemory, reduction: Reduction, tensor: torch.Tensor
    ) -> Callable[[], None] | None:
        if not reduction.averages:
            return memory.finish

        def finish() -> None:
            if memory.finish is not None:
                memory.finish()
            reduction.finish(tensor, self._size)

        return finish


def _narrowing(step: Step, wide: torch.Tensor, output: torch.Tensor) -> Step:
    """The step with a result in ``wide`` that is then copied to ``output``, in its type."""

    def finish() -> None:
        if step.finish is not None:
            step.finish()
        copy_into(output, wide.view(output.shape).to(output.dtype))

    return replace(step, finish=finish)


def fail_nothing(_error: BaseException) -> None:
    """Does nothing: no rank waits for a receive from any rank."""


def _flat_target(tensor: torch.Tensor) -> HostMemory:
    """:func:`as_target` in one dimension, beside the tensor when that is not contiguous."""
    if tensor.is_contiguous():
        return as_target(tensor.detach().view(-1))
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return HostMemory(as_target(flat).array, lambda: copy_into(tensor, flat.view(tensor.shape)))


def _copy_rows(rows: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    for row, output in zip(rows, outputs, strict=True):
        copy_into(output, row.view(output.shape))


def _require_type(output: torch.Tensor, tensor: torch.Tensor, operation: str) -> None:
    if output.dtype != tensor.dtype:
        raise CollectiveError(
            f"{operation} takes tensors of one type; got {tensor.dtype} in, {output.dtype} out"
        )
