"""What each of PyTorch's collectives is made of: operations of a communicator on host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.distributed import ReduceOp

from innet.collectives import Communicator, Work
from innet.errors import CollectiveError
from innet.torch_backend.agreement import agreed
from innet.torch_backend.launcher import Step
from innet.torch_backend.reductions import Reduction, reduction_of
from innet.torch_backend.tensors import (
    HostMemory,
    as_source,
    as_target,
    copy_into,
    hold_alike,
    require_elements,
    require_multiple,
    require_one_each,
    require_reducible,
)

ALLTOALL_TAG = -1
"""The tag of the messages that carry an all-to-all of uneven parts; programs have tags from 0."""


class StepBuilder:
    """The steps of each collective for one rank of one group.

    The ranks of a group must come to the same number of steps, so what decides it (whether the
    parts of a list are uneven) is something that PyTorch's semantics make equal on all of them.
    No step asks for sizes beforehand: an operation returns at once, and what a rank does not know
    it does not need. Where a call has several steps, the ranks agree on their number first, so that
    a rank whose arguments are wrong has one operation to fail, whatever the others' arguments are.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._rank = communicator.rank
        self._size = communicator.size

    # Reductions.

    def allreduce(self, tensor: torch.Tensor, op: ReduceOp) -> Step:
        """Everyone's ``tensor`` becomes the reduction over all."""
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
        """The root's ``output`` becomes the reduction over everyone's ``tensor``."""
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
        else:  # it may be of another shape
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
        """Rank r's ``output`` becomes the reduction over everyone's tensor r of ``inputs``."""
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
        """Rank r's ``output`` becomes the reduction over everyone's r-th part of ``tensor``."""
        require_multiple(tensor, output, self._size, "reduce_scatter_tensor")
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
        """Everyone's ``tensor`` becomes the root's."""
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
        """``output`` holds everyone's ``tensor``, in the order of the ranks."""
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

        Each part is a message of its own: a rank cannot tell whether the parts of all others are
        as even as its own.
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
        """In place of the messages of :meth:`alltoall`."""
        for peer in range(self._size):
            if peer != self._rank:
                self._communicator.fail_send(peer, ALLTOALL_TAG, error)
                self._communicator.skip_recv(peer, ALLTOALL_TAG)

    def barrier(self, timeout_s: float | None) -> Step:
        """Ends when every rank has come."""
        return Step(lambda: self._communicator.ibarrier(timeout_s=timeout_s))

    # Messages.

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Step:
        """Ends when the message is buffered and the tensor may be changed."""
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


def fail_nothing(_error: BaseException) -> None:
    """No other rank waits for a receive of any rank's message."""


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
