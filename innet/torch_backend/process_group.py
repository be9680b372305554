"""The process group that PyTorch holds: its operations, by the names that PyTorch calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)
from torch.distributed import ReduceOp

from innet.collectives import Communicator
from innet.collectives.repeated import repeat_allreduce
from innet.torch_backend.launcher import Fail, Step
from innet.torch_backend.operation import ShortForm, operation
from innet.torch_backend.options import Options
from innet.torch_backend.rank_group import RankGroup
from innet.torch_backend.staging import Call, Cuda, Device, HostOf, Staging
from innet.torch_backend.steps import SparseSum, StepBuilder, agreed, fail_nothing
from innet.torch_backend.tensors import (
    only,
    only_list,
    plain_reduction,
    reduction_of,
    split_sizes,
)
from innet.torch_backend.work import CollectiveWork

_ALLREDUCE = AllreduceOptions()
_ALLREDUCE_COALESCED = AllreduceCoalescedOptions()
_BROADCAST = BroadcastOptions()
_ALLGATHER = AllgatherOptions()
_REDUCE = ReduceOptions()
_REDUCE_SCATTER = ReduceScatterOptions()
_GATHER = GatherOptions()
_SCATTER = ScatterOptions()
_ALLTOALL = AllToAllOptions()
_BARRIER = BarrierOptions()


def fail_send(group: InnetProcessGroup, dst: int, tag: int) -> Fail:
    """Returns what sends rank ``dst`` an error in place of the next message."""
    return lambda error: group.communicator.fail_send(dst, tag, error)


def fail_recv(group: InnetProcessGroup, src: int, tag: int) -> Fail:
    """Returns what skips the next message of rank ``src``."""
    return lambda _error: group.communicator.skip_recv(src, tag)


def _fail_alltoall(group: InnetProcessGroup, *_: object) -> Fail:
    return group.steps.fail_alltoall


def _fail_alltoall_single(
    group: InnetProcessGroup,
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int],
    *_: object,
) -> Fail | None:
    return group.steps.fail_alltoall if output_split_sizes or input_split_sizes else None


class InnetProcessGroup(RankGroup):
    """The operations of a process group.

    Methods have the names and signatures by which ``torch.distributed``, its functional collectives
    and the C++ of DistributedDataParallel call them; programs call ``torch.distributed.all_reduce``
    and so on. Operations start in the order of the calls, from any thread. An ``all_reduce`` that
    is to wait (``asyncOp`` is false) may return when it has ended; the others return at once.

    Attributes:
        steps: builds the steps of an operation.
    """

    def __init__(
        self,
        communicator: Communicator,
        options: Options | None = None,
        store: Store | None = None,
        device: Device | None = None,
    ) -> None:
        """
        Args:
            communicator: of the group's ranks.
            options: of the group.
            store: where its ranks met.
            device: the device whose tensors it takes beside the host's; by default CUDA.
        """
        super().__init__(communicator, options, store)
        self.steps = StepBuilder(communicator)
        self._staging = Staging(device or Cuda())

    # Reductions.

    @operation("all_reduce", short_form=ShortForm(AllreduceOptions, "tensor", op="reduceOp"))
    def allreduce(
        self, tensors: Sequence[torch.Tensor], opts: AllreduceOptions = _ALLREDUCE
    ) -> CollectiveWork:
        """The tensor of every rank, dense or sparse COO, becomes the reduction over all ranks."""
        tensor = only(tensors, "all_reduce")
        if tensor.layout is not torch.strided:
            reduction = reduction_of(opts.reduceOp, tensor.dtype)
            steps = SparseSum(self.communicator, tensor, reduction).steps()
            return self.launcher.start(steps, [tensor])
        if not opts.asyncOp and self._has_repeated(tensor, opts.reduceOp):
            return CollectiveWork((), [tensor], self.launcher.callbacks)
        return self._start(self._allreduce_calls([tensor], opts.reduceOp), [tensor])

    @operation("all_reduce")
    def allreduce_coalesced(
        self,
        tensors: Sequence[torch.Tensor],
        opts: AllreduceCoalescedOptions = _ALLREDUCE_COALESCED,
    ) -> CollectiveWork:
        """:meth:`allreduce` of each tensor, as one work."""
        return self._start(self._allreduce_calls(tensors, opts.reduceOp), tensors)

    @operation(
        "reduce",
        short_form=ShortForm(ReduceOptions, "tensor", root="rootRank", op="reduceOp"),
        synchronising=False,
    )
    def reduce(
        self, tensors: Sequence[torch.Tensor], opts: ReduceOptions = _REDUCE
    ) -> CollectiveWork:
        """The root's tensor becomes the reduction over all ranks."""
        tensor = only(tensors, "reduce")
        root, op = opts.rootRank, opts.reduceOp
        at_root = root == self.rank()
        call = Call(
            lambda host: [
                self.steps.reduce(host(tensor), host(tensor) if at_root else None, root, op)
            ],
            reads=[tensor],
            writes=[tensor] if at_root else [],
        )
        return self._start([call], [tensor])

    @operation(
        "reduce_scatter",
        inputs=1,
        short_form=ShortForm(ReduceScatterOptions, "output", "input", op="reduceOp"),
    )
    def reduce_scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction of tensor r of all ranks' input lists."""
        output = only(output_tensors, "reduce_scatter")
        inputs = only_list(input_tensors, "reduce_scatter")
        op = opts.reduceOp
        return self._start_one(
            lambda host: self.steps.reduce_scatter(host(output), _all(host, inputs), op),
            inputs,
            [output],
        )

    @operation("reduce_scatter_tensor", inputs=1)
    def reduce_scatter_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction of part r of all ranks' inputs."""
        op = (opts or _REDUCE_SCATTER).reduceOp
        return self._start([self._reduce_scatter_call(output, input, op)], [output])

    @operation("reduce_scatter_tensor", inputs=1)
    def reduce_scatter_single_coalesced(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        """:meth:`reduce_scatter_single` of each pair, as one work."""
        op = opts.reduceOp
        calls = [
            self._reduce_scatter_call(output, tensor, op)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
        return self._start(calls, outputs)

    # Copies.

    @operation(
        "broadcast",
        short_form=ShortForm(BroadcastOptions, "tensor", root="rootRank"),
        synchronising=False,
    )
    def broadcast(
        self, tensors: Sequence[torch.Tensor], opts: BroadcastOptions = _BROADCAST
    ) -> CollectiveWork:
        """The tensor of every rank becomes the root's."""
        tensor = only(tensors, "broadcast")
        root = opts.rootRank
        at_root = root == self.rank()

        def call(part: torch.Tensor) -> Call:
            return Call(
                lambda host: [self.steps.broadcast(host(part), root)],
                reads=[part] if at_root else [],
                writes=[] if at_root else [part],
            )

        return self._start([call(part) for part in self._staging.chunks(tensor)], [tensor])

    @operation(
        "all_gather",
        inputs=1,
        short_form=ShortForm(AllgatherOptions, "output_tensors", "input_tensor"),
    )
    def allgather(
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: AllgatherOptions = _ALLGATHER,
    ) -> CollectiveWork:
        """Tensor r of the output list becomes rank r's input."""
        tensor = only(input_tensors, "all_gather")
        outputs = only_list(output_tensors, "all_gather")
        return self._start([self._allgather_call(outputs, tensor)], outputs)

    @operation("all_gather", inputs=1)
    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[torch.Tensor]],
        input_list: Sequence[torch.Tensor],
        opts: AllgatherOptions = _ALLGATHER,
    ) -> CollectiveWork:
        """Tensor i of output list r becomes tensor i of rank r's input list."""
        calls = [
            self._allgather_call(outputs, tensor)
            for outputs, tensor in zip(zip(*output_lists, strict=True), input_list, strict=True)
        ]
        return self._start(calls, [tensor for outputs in output_lists for tensor in outputs])

    @operation("all_gather_into_tensor", inputs=1)
    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: AllgatherOptions = _ALLGATHER
    ) -> CollectiveWork:
        """The output holds the inputs of all ranks, in the order of the ranks."""
        return self._start([self._allgather_single_call(output, input)], [output])

    @operation("all_gather_into_tensor", inputs=1)
    def all_gather_single_coalesced(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: AllgatherOptions = _ALLGATHER,
    ) -> CollectiveWork:
        """:meth:`all_gather_single` of each pair, as one work."""
        calls = [
            self._allgather_single_call(output, tensor)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
        return self._start(calls, outputs)

    @operation(
        "gather",
        inputs=1,
        short_form=ShortForm(GatherOptions, "output_tensors", "input_tensor", root="rootRank"),
        synchronising=False,
    )
    def gather(
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: GatherOptions = _GATHER,
    ) -> CollectiveWork:
        """Tensor r of the root's output list becomes rank r's input."""
        tensor = only(input_tensors, "gather")
        at_root = opts.rootRank == self.rank()
        outputs = only_list(output_tensors, "gather") if at_root else []
        root = opts.rootRank
        return self._start_one(
            lambda host: [self.steps.gather(_all(host, outputs), host(tensor), root)],
            [tensor],
            outputs,
        )

    @operation(
        "scatter",
        inputs=1,
        short_form=ShortForm(ScatterOptions, "output_tensor", "input_tensors", root="rootRank"),
        synchronising=False,
    )
    def scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: ScatterOptions = _SCATTER,
    ) -> CollectiveWork:
        """Rank r's output becomes tensor r of the root's input list."""
        output = only(output_tensors, "scatter")
        at_root = opts.rootRank == self.rank()
        inputs = only_list(input_tensors, "scatter") if at_root else []
        root = opts.rootRank
        return self._start_one(
            lambda host: [self.steps.scatter(host(output), _all(host, inputs), root)],
            inputs,
            [output],
        )

    @operation("all_to_all", inputs=1, fails=_fail_alltoall)
    def alltoall(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[torch.Tensor],
        opts: AllToAllOptions = _ALLTOALL,
    ) -> CollectiveWork:
        """Tensor s of rank r's output list becomes tensor r of rank s's input list."""
        return self._start_one(
            lambda host: self.steps.alltoall(_all(host, output_tensors), _all(host, input_tensors)),
            input_tensors,
            output_tensors,
        )

    @operation("all_to_all", inputs=1, fails=_fail_alltoall_single)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: AllToAllOptions = _ALLTOALL,
    ) -> CollectiveWork:
        """Part s of rank r's output becomes part r of rank s's input.

        Parts are equal when no rank gives sizes; if one gives sizes, all must.
        """
        if not output_split_sizes and not input_split_sizes:
            return self._start_one(
                lambda host: [self.steps.alltoall_single(host(output), host(input))],
                [input],
                [output],
            )
        incoming = split_sizes(output, output_split_sizes, self.size(), "output")
        outgoing = split_sizes(input, input_split_sizes, self.size(), "input")
        return self._start_one(
            lambda host: self.steps.alltoall(
                torch.split(host(output).detach(), incoming),
                torch.split(host(input).detach(), outgoing),
            ),
            [input],
            [output],
        )

    @operation("barrier", inputs=None, short_form=ShortForm(BarrierOptions, timeout="timeout"))
    def barrier(self, opts: BarrierOptions = _BARRIER) -> CollectiveWork:
        """Ends when every rank has called it; it needs no device."""
        timeout_s = opts.timeout.total_seconds()
        step = self.steps.barrier(None if timeout_s < 0 else timeout_s)
        return self.launcher.start([step], [])

    # Other names of these operations in older and newer Python code of PyTorch.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # Messages.

    @operation("send", fails=lambda group, _tensors, dst, tag: fail_send(group, dst, tag))
    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int) -> CollectiveWork:
        """Send to rank ``dst``; ends when the program may change the tensor."""
        tensor = only(tensors, "send")
        return self._start_one(lambda host: [self.steps.send(host(tensor), dst, tag)], [tensor])

    @operation("recv", fails=lambda group, _tensors, src, tag: fail_recv(group, src, tag))
    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int) -> CollectiveWork:
        """Receive the next message of rank ``src`` with that tag."""
        tensor = only(tensors, "recv")
        return self._start_one(
            lambda host: [self.steps.receive(host(tensor), src, tag)], [], [tensor], lambda: src
        )

    @operation("recvAnySource", fails=lambda *_: fail_nothing)
    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int) -> CollectiveWork:
        """Receive the next message that any rank sends with that tag."""
        tensor = only(tensors, "recv")
        sender: list[int] = []
        return self._start_one(
            lambda host: [self.steps.receive_any(host(tensor), tag, sender.append)],
            [],
            [tensor],
            lambda: sender[0] if sender else -1,
        )

    def _has_repeated(self, tensor: torch.Tensor, op: ReduceOp) -> bool:
        """Whether the tensor is reduced now: by one call of the node, as an earlier one was.

        The thread that waits then runs the node, as :class:`RepeatedAllreduces` does for NumPy.
        """
        name = plain_reduction(tensor, op)
        if name is None:
            return False
        array = tensor.detach().numpy()
        return self.launcher.run_at_once(lambda: repeat_allreduce(self.communicator, array, name))

    def _allreduce_calls(self, tensors: Sequence[torch.Tensor], op: ReduceOp) -> list[Call]:
        def call(part: torch.Tensor) -> Call:
            return Call(lambda host: [self.steps.allreduce(host(part), op)], [part], [part])

        return [call(part) for tensor in tensors for part in self._staging.chunks(tensor)]

    def _reduce_scatter_call(
        self, output: torch.Tensor, tensor: torch.Tensor, op: ReduceOp
    ) -> Call:
        return Call(
            lambda host: [self.steps.reduce_scatter_single(host(output), host(tensor), op)],
            [tensor],
            [output],
        )

    def _allgather_call(self, outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> Call:
        return Call(
            lambda host: self.steps.allgather(_all(host, outputs), host(tensor)),
            [tensor],
            outputs,
        )

    def _allgather_single_call(self, output: torch.Tensor, tensor: torch.Tensor) -> Call:
        return Call(
            lambda host: [self.steps.allgather_single(host(output), host(tensor))],
            [tensor],
            [output],
        )

    def _start_one(
        self,
        build: Callable[[HostOf], Sequence[Step]],
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor] = (),
        source_of: Callable[[], int] | None = None,
    ) -> CollectiveWork:
        """Start one call, whose result is all that it writes."""
        return self._start([Call(build, reads, writes)], writes, source_of)

    def _start(
        self,
        calls: Sequence[Call],
        result: Sequence[torch.Tensor],
        source_of: Callable[[], int] | None = None,
    ) -> CollectiveWork:
        made = self.launcher.current
        submit = functools.partial(self.launcher.submit, made.what)
        steps, stored = self._staging.steps(calls, submit, made.fail, made.synchronising)
        if len(calls) != 1:
            steps = agreed(self.communicator, steps, synchronising=made.synchronising)
        return self.launcher.start(steps, result, stored, source_of)


def _all(host: HostOf, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [host(tensor) for tensor in tensors]
