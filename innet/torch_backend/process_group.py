"""PyTorch's collectives, each as one operation of a communicator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from torch.distributed import ProcessGroup, ReduceOp

from innet.collectives import Communicator
from innet.collectives import Work as Pending
from innet.errors import CollectiveError
from innet.torch_backend.reductions import Reduction, reduction_of
from innet.torch_backend.registration import BACKEND_NAME
from innet.torch_backend.tensors import (
    as_array,
    as_reducible_array,
    only,
    require_alike,
    rows_of,
    stacked,
)
from innet.torch_backend.work import CollectiveWork
from innet.worker.context import before_close

_CALLBACK_THREADS = 16
"""Futures whose callbacks may wait for other operations at once; threads start when needed."""

_ALLREDUCE = AllreduceOptions()
_BROADCAST = BroadcastOptions()
_ALLGATHER = AllgatherOptions()
_REDUCE = ReduceOptions()
_REDUCE_SCATTER = ReduceScatterOptions()
_GATHER = GatherOptions()
_SCATTER = ScatterOptions()
_ALLTOALL = AllToAllOptions()
_BARRIER = BarrierOptions()


def _nothing() -> None:
    """What is left to do when the network has put the result in place."""


class InnetProcessGroup(ProcessGroup):
    """A process group of all the job's ranks.

    Methods have the signatures through which ``torch.distributed`` and the C++ of
    DistributedDataParallel call them; programs call ``torch.distributed.all_reduce`` and so on.
    Operations are started in the order of the calls, from whichever thread these come.

    Attributes:
        communicator: what carries it out; its :meth:`~Communicator.stats` and
            :meth:`~Communicator.explain` tell more.
    """

    def __init__(self, communicator: Communicator) -> None:
        # The one constructor that takes subclasses; the stub does not list it.
        super().__init__(communicator.rank, communicator.size)  # type: ignore[call-arg]
        self.communicator = communicator
        self._order = threading.Lock()
        self._callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "innet-callbacks")
        before_close(self.shutdown)

    def getBackendName(self) -> str:  # noqa: N802  (the name C++ looks for)
        """The name of the backend."""
        return BACKEND_NAME

    def shutdown(self) -> None:
        """Leave the group; ``destroy_process_group`` calls it. Safe to call twice."""
        self.communicator.close()
        # A thread that still ran C++ code at the interpreter's end would abort the process.
        self._callbacks.shutdown(wait=True)

    def allreduce(  # type: ignore[override]
        self, tensors: Sequence[torch.Tensor], opts: AllreduceOptions = _ALLREDUCE
    ) -> CollectiveWork:
        """Everyone's tensor becomes the reduction over all."""
        tensor = only(tensors, "all_reduce")
        array, reduction = self._reducible(tensor, opts.reduceOp)
        return self._start(
            lambda: self.communicator.iallreduce(array, reduction.name, out=array),
            [tensor],
            lambda: reduction.finish(tensor, self.size()),
        )

    def reduce(  # type: ignore[override]
        self, tensors: Sequence[torch.Tensor], opts: ReduceOptions = _REDUCE
    ) -> CollectiveWork:
        """The root's tensor becomes the reduction over all."""
        tensor = only(tensors, "reduce")
        array, reduction = self._reducible(tensor, opts.reduceOp)
        root = opts.rootRank
        at_root = root == self.rank()
        return self._start(
            lambda: self.communicator.ireduce(
                array, root, reduction.name, out=array if at_root else None
            ),
            [tensor],
            (lambda: reduction.finish(tensor, self.size())) if at_root else _nothing,
        )

    def broadcast(  # type: ignore[override]
        self, tensors: Sequence[torch.Tensor], opts: BroadcastOptions = _BROADCAST
    ) -> CollectiveWork:
        """Everyone's tensor becomes the root's."""
        tensor = only(tensors, "broadcast")
        array = as_array(tensor)
        return self._start(
            lambda: self.communicator.ibroadcast(array, opts.rootRank), [tensor], _nothing
        )

    def allgather(  # type: ignore[override]
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: AllgatherOptions = _ALLGATHER,
    ) -> CollectiveWork:
        """Tensor r of the output list becomes rank r's input."""
        tensor = only(input_tensors, "all_gather")
        outputs = self._outputs(output_tensors, tensor, "all_gather")
        rows = torch.empty((self.size(), *tensor.shape), dtype=tensor.dtype)
        array, out = as_array(tensor), as_array(rows)
        return self._start(
            lambda: self.communicator.iallgather(array, out=out),
            outputs,
            lambda: _copy_rows(rows, outputs),
        )

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: AllgatherOptions = _ALLGATHER
    ) -> CollectiveWork:
        """The output holds everyone's inputs, in the order of the ranks."""
        out = as_array(rows_of(output, input, self.size(), "all_gather_single"))
        array = as_array(input)
        return self._start(lambda: self.communicator.iallgather(array, out=out), [output], _nothing)

    def reduce_scatter(  # type: ignore[override]
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction over everyone's tensor r of the input list."""
        output = only(output_tensors, "reduce_scatter")
        inputs = _only_list(input_tensors, "reduce_scatter")
        require_alike([*inputs, output], self.size() + 1, "reduce_scatter")
        return self._reduce_scatter(
            output, stacked(inputs, self.size(), "reduce_scatter"), opts.reduceOp
        )

    def reduce_scatter_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction over everyone's r-th part of the input."""
        rows = rows_of(input, output, self.size(), "reduce_scatter_single")
        return self._reduce_scatter(output, rows, (opts or _REDUCE_SCATTER).reduceOp)

    def gather(  # type: ignore[override]
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: GatherOptions = _GATHER,
    ) -> CollectiveWork:
        """Tensor r of the root's output list becomes rank r's input."""
        tensor = only(input_tensors, "gather")
        array = as_array(tensor)
        root = opts.rootRank
        if root != self.rank():
            return self._start(lambda: self.communicator.igather(array, root), [], _nothing)
        outputs = self._outputs(output_tensors, tensor, "gather")
        rows = torch.empty((self.size(), *tensor.shape), dtype=tensor.dtype)
        out = as_array(rows)
        return self._start(
            lambda: self.communicator.igather(array, root, out=out),
            outputs,
            lambda: _copy_rows(rows, outputs),
        )

    def scatter(  # type: ignore[override]
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: ScatterOptions = _SCATTER,
    ) -> CollectiveWork:
        """Rank r's output becomes tensor r of the root's input list."""
        output = only(output_tensors, "scatter")
        array = None
        if opts.rootRank == self.rank():
            inputs = _only_list(input_tensors, "scatter")
            require_alike([*inputs, output], self.size() + 1, "scatter")
            array = as_array(stacked(inputs, self.size(), "scatter"))
        out = as_array(output)[None]
        return self._start(
            lambda: self.communicator.iscatter(array, opts.rootRank, out=out), [output], _nothing
        )

    def alltoall(  # type: ignore[override]
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[torch.Tensor],
        opts: AllToAllOptions = _ALLTOALL,
    ) -> CollectiveWork:
        """Tensor s of rank r's output list becomes tensor r of rank s's input list."""
        outputs = list(output_tensors)
        require_alike(outputs, self.size(), "all_to_all")
        rows = stacked(input_tensors, self.size(), "all_to_all")
        require_alike([outputs[0], rows[0]], 2, "all_to_all")
        array = as_array(rows)
        return self._start(
            lambda: self.communicator.ialltoall(array, out=array),
            outputs,
            lambda: _copy_rows(rows, outputs),
        )

    def all_to_all_single(  # type: ignore[override]
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: AllToAllOptions = _ALLTOALL,
    ) -> CollectiveWork:
        """Part s of rank r's output becomes part r of rank s's input."""
        if len({*output_split_sizes}) > 1 or len({*input_split_sizes}) > 1:
            raise CollectiveError(
                f"all_to_all_single with parts of different sizes ({list(input_split_sizes)} in, "
                f"{list(output_split_sizes)} out) is not offered; pad the parts to the largest"
            )
        require_alike([output, input], 2, "all_to_all_single")
        array, out = as_array(input), as_array(output)
        return self._start(lambda: self.communicator.ialltoall(array, out=out), [output], _nothing)

    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int) -> CollectiveWork:
        """Send to rank ``dst``; ends when the tensor may be changed."""
        array = as_array(only(tensors, "send"))
        # Outside the order of the collectives: it may have to wait for its receiver.
        return self._work(self.communicator.isend(array, dst, tag), [], _nothing)

    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int) -> CollectiveWork:
        """Receive the next message of rank ``src`` with that tag."""
        tensor = only(tensors, "recv")
        pending = self.communicator.irecv(as_array(tensor), src, tag)
        return self._work(pending, [tensor], _nothing, source_rank=src)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> NoReturn:
        """Not offered.

        Raises:
            CollectiveError: always; who fetches must say from whom.
        """
        raise CollectiveError("recv() from any source is not offered; pass src=")

    def barrier(  # type: ignore[override]
        self, opts: BarrierOptions = _BARRIER
    ) -> CollectiveWork:
        """Ends when every rank has called it."""
        return self._start(self.communicator.ibarrier, [], _nothing)

    def _reduce_scatter(
        self, output: torch.Tensor, rows: torch.Tensor, op: ReduceOp
    ) -> CollectiveWork:
        array, reduction = self._reducible(rows, op)
        out = as_array(output)[None]
        return self._start(
            lambda: self.communicator.ireduce_scatter(array, reduction.name, out=out),
            [output],
            lambda: reduction.finish(output, self.size()),
        )

    def _reducible(self, tensor: torch.Tensor, op: ReduceOp) -> tuple[Any, Reduction]:
        return as_reducible_array(tensor), reduction_of(op, tensor.dtype)

    def _outputs(
        self, lists: Sequence[Sequence[torch.Tensor]], like: torch.Tensor, operation: str
    ) -> list[torch.Tensor]:
        outputs = _only_list(lists, operation)
        require_alike(outputs, self.size(), operation)
        require_alike([outputs[0], like], 2, operation)
        return outputs

    def _start(
        self,
        submit: Callable[[], Pending[Any]],
        result: Sequence[torch.Tensor],
        finish: Callable[[], None],
    ) -> CollectiveWork:
        with self._order:
            pending = submit()
        return self._work(pending, result, finish)

    def _work(
        self,
        pending: Pending[Any],
        result: Sequence[torch.Tensor],
        finish: Callable[[], None],
        source_rank: int = -1,
    ) -> CollectiveWork:
        return CollectiveWork(pending, result, finish, self._callbacks, source_rank)


def _only_list(lists: Sequence[Sequence[torch.Tensor]], operation: str) -> list[torch.Tensor]:
    if len(lists) != 1:
        raise CollectiveError(
            f"{operation} got {len(lists)} lists of tensors, the innet backend takes one"
        )
    return list(lists[0])


def _copy_rows(rows: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    for row, output in zip(rows, outputs, strict=True):
        output.detach().copy_(row)
