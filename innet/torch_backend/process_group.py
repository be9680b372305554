"""The process group that PyTorch holds: every operation under the names PyTorch calls it by."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    PrefixStore,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)
from torch.distributed import ProcessGroup, ReduceOp

from innet.collectives import Communicator, init
from innet.torch_backend import short_forms
from innet.torch_backend.agreement import agreed
from innet.torch_backend.launcher import Fail, Launcher, Step
from innet.torch_backend.monitored_barrier import monitored_barrier
from innet.torch_backend.operation import operation
from innet.torch_backend.options import BACKEND_NAME, Options
from innet.torch_backend.reductions import reduction_of
from innet.torch_backend.sparse import SparseSum
from innet.torch_backend.staging import Call, Cuda, Device, HostOf, Staging
from innet.torch_backend.steps import StepBuilder, fail_nothing
from innet.torch_backend.tensors import only, only_list, split_sizes
from innet.torch_backend.work import CollectiveWork, Pending
from innet.worker.exit_hooks import before_close, no_more_before_close

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
    """What gives rank ``dst`` an error in place of the next message to it."""
    return lambda error: group.communicator.fail_send(dst, tag, error)


def fail_recv(group: InnetProcessGroup, src: int, tag: int) -> Fail:
    """What drops the next message of rank ``src``."""
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


class InnetProcessGroup(ProcessGroup):
    """A process group of some of the job's ranks.

    Methods have the names and signatures through which ``torch.distributed``, its functional
    collectives and the C++ of DistributedDataParallel call them; programs call
    ``torch.distributed.all_reduce`` and so on. Operations are started in the order of the calls,
    from whichever thread these come, and return at once.

    It has no method called ``new_group``: PyTorch would take that for how it makes all groups.

    Attributes:
        communicator: what carries it out; its :meth:`~Communicator.stats` and
            :meth:`~Communicator.explain` tell more.
        options: what it was made with.
        launcher: what starts its operations.
        steps: what these are made of.
    """

    supports_splitting = True
    supports_coalescing = True

    def __init__(
        self,
        communicator: Communicator,
        options: Options | None = None,
        store: Store | None = None,
        device: Device | None = None,
    ) -> None:
        """A group of the communicator's ranks.

        Args:
            communicator: what carries it out.
            options: what the group was made with.
            store: where its ranks met.
            device: whose tensors it takes beside the host's; by default CUDA's.
        """
        # The one constructor that takes subclasses; the stub does not list it.
        super().__init__(communicator.rank, communicator.size)  # type: ignore[call-arg]
        self.communicator = communicator
        self.options = options or Options()
        self._store = store
        self._splits = 0
        self._name = ""
        self._description = "undefined"
        self.steps = StepBuilder(communicator)
        self._staging = Staging(device or Cuda())
        self.launcher = Launcher(communicator)
        before_close(self.shutdown)

    # About the group.

    def getBackendName(self) -> str:  # noqa: N802  (the name C++ looks for)
        """The name of the backend."""
        return BACKEND_NAME

    # PyTorch's own groups leave their name to the C++ backends they have; this one has none.

    def getGroupName(self) -> str:  # noqa: N802
        """The name that PyTorch gave the group, by which functional collectives find it."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """PyTorch names the group once it is made."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """What the group is for, as said to ``new_group(group_desc=...)``."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """PyTorch describes the group once it is made."""
        self._description = description

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices whose tensors it takes."""
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(  # type: ignore[override]
        self, device: torch.device
    ) -> InnetProcessGroup:
        """What carries out operations on tensors of ``device``: the group itself.

        Raises:
            RuntimeError: there is no such thing, as PyTorch's own groups say it.
        """
        if torch.device(torch.device(device).type) not in self._device_types:
            raise RuntimeError(f"the innet backend takes no tensors of device type {device}")
        return self

    def get_group_store(self) -> Store:
        """The store in which the group's ranks met.

        Raises:
            RuntimeError: they met elsewhere.
        """
        if self._store is None:
            raise RuntimeError("this group was made without a store")
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """From now on, operations have ``timeout`` from their start."""
        self.communicator.timeout_s = timeout.total_seconds()

    def split_group(  # type: ignore[override]
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Options | None = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> InnetProcessGroup | None:
        """A group of some ranks of this one, in the order of their numbers.

        All ranks of this group call it; ranks that are in different parts name their own, and those
        in none any part.

        Args:
            ranks: numbers in this group.
            timeout: of the new group's operations; by default as here.
            opts: by default as here.
            group_name: what to call it; by default it is told from others by counting.
            group_desc: what it is for.
            device_types: does not matter: all devices share the one network.

        Returns:
            The group, or ``None`` on a rank that is not in it.
        """
        self._splits += 1
        name = group_name or f"{self._name}:split{self._splits}"
        members = sorted(ranks)
        if self.rank() not in members:
            return None
        options = opts or self.options
        communicator = init(
            group=f"torch:{name}",
            algorithm=options.algorithm,
            timeout_s=self.communicator.timeout_s if timeout is None else timeout.total_seconds(),
            nodes=[self.communicator.nodes[rank] for rank in members],
        )
        store = None if self._store is None else PrefixStore(f"{name}/", self._store)
        group = InnetProcessGroup(communicator, options, store)
        group.setGroupName(name)
        group.setGroupDesc(group_desc or f"{self._description}:split:{self._splits}")
        return group

    def shutdown(self) -> None:
        """Leave the group; ``destroy_process_group`` calls it. Safe to call twice."""
        no_more_before_close(self.shutdown)
        self.communicator.close()
        self.launcher.close()

    def abort(self) -> None:
        """End all operations under way here with an error and leave the group, waiting for nobody.

        Those who wait for them, in whichever thread, hear of it.
        """
        self.communicator.abort("the process group was aborted in this process")
        self.launcher.close()

    # Reductions.

    @operation("all_reduce", short_form=short_forms.allreduce)
    def allreduce(
        self, tensors: Sequence[torch.Tensor], opts: AllreduceOptions = _ALLREDUCE
    ) -> CollectiveWork:
        """Everyone's tensor, dense or sparse COO, becomes the reduction over all."""
        tensor = only(tensors, "all_reduce")
        if tensor.layout is not torch.strided:
            reduction = reduction_of(opts.reduceOp, tensor.dtype)
            steps = SparseSum(self.communicator, tensor, reduction).steps()
            return self.launcher.start(steps, [tensor])
        return self._start(self._allreduce_calls([tensor], opts.reduceOp), [tensor])

    @operation("all_reduce")
    def allreduce_coalesced(
        self,
        tensors: Sequence[torch.Tensor],
        opts: AllreduceCoalescedOptions = _ALLREDUCE_COALESCED,
    ) -> CollectiveWork:
        """:meth:`allreduce` of each tensor, as one work."""
        return self._start(self._allreduce_calls(tensors, opts.reduceOp), tensors)

    @operation("reduce", short_form=short_forms.reduce, synchronising=False)
    def reduce(
        self, tensors: Sequence[torch.Tensor], opts: ReduceOptions = _REDUCE
    ) -> CollectiveWork:
        """The root's tensor becomes the reduction over all."""
        tensor = only(tensors, "reduce")
        root, op = opts.rootRank, opts.reduceOp
        if root == self.rank():
            call = Call(
                lambda host: [self.steps.reduce(host(tensor), host(tensor), root, op)],
                [tensor],
                [tensor],
                synchronising=False,
            )
        else:
            call = Call(
                lambda host: [self.steps.reduce(host(tensor), None, root, op)],
                [tensor],
                synchronising=False,
            )
        return self._start([call], [tensor])

    @operation("reduce_scatter", inputs=1, short_form=short_forms.reduce_scatter)
    def reduce_scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction over everyone's tensor r of the input list."""
        output = only(output_tensors, "reduce_scatter")
        inputs = only_list(input_tensors, "reduce_scatter")
        op = opts.reduceOp
        call = Call(
            lambda host: self.steps.reduce_scatter(host(output), _all(host, inputs), op),
            inputs,
            [output],
        )
        return self._start([call], [output])

    @operation("reduce_scatter_tensor", inputs=1)
    def reduce_scatter_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """Rank r's output becomes the reduction over everyone's r-th part of the input."""
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

    @operation("broadcast", short_form=short_forms.broadcast, synchronising=False)
    def broadcast(
        self, tensors: Sequence[torch.Tensor], opts: BroadcastOptions = _BROADCAST
    ) -> CollectiveWork:
        """Everyone's tensor becomes the root's."""
        tensor = only(tensors, "broadcast")
        root = opts.rootRank
        at_root = root == self.rank()

        def call(part: torch.Tensor) -> Call:
            return Call(
                lambda host: [self.steps.broadcast(host(part), root)],
                reads=[part] if at_root else [],
                writes=[] if at_root else [part],
                synchronising=False,
            )

        return self._start([call(part) for part in self._staging.chunks(tensor)], [tensor])

    @operation("all_gather", inputs=1, short_form=short_forms.allgather)
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
        """The output holds everyone's inputs, in the order of the ranks."""
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

    @operation("gather", inputs=1, short_form=short_forms.gather, synchronising=False)
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
        call = Call(
            lambda host: [self.steps.gather(_all(host, outputs), host(tensor), root)],
            [tensor],
            outputs,
            synchronising=False,
        )
        return self._start([call], outputs)

    @operation("scatter", inputs=1, short_form=short_forms.scatter, synchronising=False)
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
        call = Call(
            lambda host: [self.steps.scatter(host(output), _all(host, inputs), root)],
            inputs,
            [output],
            synchronising=False,
        )
        return self._start([call], [output])

    @operation("all_to_all", inputs=1, fails=_fail_alltoall)
    def alltoall(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[torch.Tensor],
        opts: AllToAllOptions = _ALLTOALL,
    ) -> CollectiveWork:
        """Tensor s of rank r's output list becomes tensor r of rank s's input list."""
        call = Call(
            lambda host: self.steps.alltoall(_all(host, output_tensors), _all(host, input_tensors)),
            input_tensors,
            output_tensors,
            self.steps.fail_alltoall,
        )
        return self._start([call], output_tensors)

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
            whole = Call(
                lambda host: [self.steps.alltoall_single(host(output), host(input))],
                [input],
                [output],
            )
            return self._start([whole], [output])
        incoming = split_sizes(output, output_split_sizes, self.size(), "output")
        outgoing = split_sizes(input, input_split_sizes, self.size(), "input")
        parts = Call(
            lambda host: self.steps.alltoall(
                torch.split(host(output).detach(), incoming),
                torch.split(host(input).detach(), outgoing),
            ),
            [input],
            [output],
            self.steps.fail_alltoall,
        )
        return self._start([parts], [output])

    @operation("barrier", inputs=None, short_form=short_forms.barrier)
    def barrier(self, opts: BarrierOptions = _BARRIER) -> CollectiveWork:
        """Ends when every rank has called it; devices do not matter."""
        timeout_s = opts.timeout.total_seconds()
        step = self.steps.barrier(None if timeout_s < 0 else timeout_s)
        return self.launcher.start([step], [])

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks, and tell which have not come; ``dist.monitored_barrier`` refuses it.

        PyTorch's function takes no backend but Gloo: call the group's method instead.

        Raises:
            DeadlineExceeded: ranks did not come within ``timeout`` (by default that of the group);
                names the first of them, with ``wait_all_ranks`` all.
            RankFailed: a rank is gone.
        """
        timeout_s = self.communicator.timeout_s if timeout is None else timeout.total_seconds()
        monitored_barrier(self.communicator, timeout_s, wait_all_ranks)

    # Names that PyTorch's Python code, older and newer, calls the same operations by.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # Messages.

    @operation("send", fails=lambda group, _tensors, dst, tag: fail_send(group, dst, tag))
    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int) -> CollectiveWork:
        """Send to rank ``dst``; ends when the tensor may be changed."""
        tensor = only(tensors, "send")
        call = Call(
            lambda host: [self.steps.send(host(tensor), dst, tag)],
            reads=[tensor],
            fail=fail_send(self, dst, tag),
        )
        return self._start([call], [])

    @operation("recv", fails=lambda group, _tensors, src, tag: fail_recv(group, src, tag))
    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int) -> CollectiveWork:
        """Receive the next message of rank ``src`` with that tag."""
        tensor = only(tensors, "recv")
        call = Call(
            lambda host: [self.steps.receive(host(tensor), src, tag)],
            writes=[tensor],
            fail=fail_recv(self, src, tag),
        )
        return self._start([call], [tensor], lambda: src)

    @operation("recvAnySource", fails=lambda *_: fail_nothing)
    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int) -> CollectiveWork:
        """Receive the next message that any rank sends with that tag."""
        tensor = only(tensors, "recv")
        sender: list[int] = []
        call = Call(
            lambda host: [self.steps.receive_any(host(tensor), tag, sender.append)],
            writes=[tensor],
            fail=fail_nothing,
        )
        return self._start([call], [tensor], lambda: sender[0] if sender else -1)

    # Several operations as one work.

    def stop_recording(self) -> None:
        """Forget what was started since :meth:`_start_coalescing`; it goes on."""
        self.launcher.end_batch()

    def _start_coalescing(self, device: torch.device) -> None:
        """Operations start as they are called; remember them for :meth:`_end_coalescing`."""
        self.launcher.start_batch()

    def _end_coalescing(self, device: torch.device) -> CollectiveWork:
        """The work of all operations since :meth:`_start_coalescing`."""
        return self.launcher.end_batch()

    def run(
        self,
        start: Callable[[Communicator], Pending],
        result: Sequence[torch.Tensor],
        finish: Callable[[Any], object] | None = None,
    ) -> CollectiveWork:
        """An operation that PyTorch has no call for, in turn with those that it has.

        Args:
            start: starts it; not to be called elsewhere.
            result: the tensors of the work.
            finish: takes what the operation gives; by default the tensors are filled by then.
        """
        started: list[Pending] = []

        def submit() -> Pending:
            started.append(start(self.communicator))
            return started[0]

        def take_result() -> None:
            if finish is not None:
                finish(started[0].wait())

        with self.launcher.call("a call of innet"):
            return self.launcher.start([Step(submit, take_result)], result)

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

    def _start(
        self,
        calls: Sequence[Call],
        result: Sequence[torch.Tensor],
        source_of: Callable[[], int] | None = None,
    ) -> CollectiveWork:
        submit = functools.partial(self.launcher.submit, self.launcher.what)
        steps, stored = self._staging.steps(calls, submit)
        if len(calls) != 1:
            synchronising = all(call.synchronising for call in calls)
            steps = agreed(self.communicator, steps, synchronising=synchronising)
        return self.launcher.start(steps, result, stored, source_of)


def _all(host: HostOf, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [host(tensor) for tensor in tensors]
