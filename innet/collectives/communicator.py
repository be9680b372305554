"""The communicator: what a worker's program holds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from innet._native import _core
from innet.collectives.allgather import allgather
from innet.collectives.allreduce import allreduce
from innet.collectives.allreduce_q8 import allreduce_q8
from innet.collectives.alltoall import alltoall
from innet.collectives.any_source import AnySource
from innet.collectives.arrays import Array, byte_view
from innet.collectives.barrier import barrier
from innet.collectives.broadcast import broadcast
from innet.collectives.call_sequence import CallSequence
from innet.collectives.failures import error_of, error_of_failure
from innet.collectives.gather import gather
from innet.collectives.group import Variants
from innet.collectives.keyed import KeyedCalls
from innet.collectives.message_calls import MessageCalls
from innet.collectives.object_calls import ObjectCalls
from innet.collectives.objects import Objects, error_of_object
from innet.collectives.one_sided import OneSided, OneSidedCalls, Transfers
from innet.collectives.operation import Operation
from innet.collectives.operation_log import OperationLog
from innet.collectives.partial import Coordinator, PartialCalls, Rounds
from innet.collectives.point_to_point import PointToPoint
from innet.collectives.recovery import RecoveryCalls
from innet.collectives.reduce import reduce
from innet.collectives.reduce_scatter import reduce_scatter
from innet.collectives.scatter import scatter
from innet.collectives.services import Services
from innet.collectives.staged import Staged, Steps
from innet.collectives.timeouts import timeout_or
from innet.collectives.work import Completion, Work
from innet.errors import Cancelled, CollectiveError, ControlError, MismatchError, RankFailed
from innet.joint_close import JointlyClosed
from innet.plans import Plan
from innet.worker import Membership
from innet.worker.job_file import OnDeath

T = TypeVar("T")

_TIMEOUT_OVER_PLANNED = 4.0
_LEAST_TIMEOUT_S = 1e-3
"""What is left at least for a step of an operation whose earlier steps took all its time."""


class Communicator(
    JointlyClosed,
    MessageCalls,
    ObjectCalls,
    OneSidedCalls,
    KeyedCalls,
    PartialCalls,
    RecoveryCalls,
):
    """Collectives among the ranks of one group.

    All ranks call the same collectives in the same order. Each exists blocking (``allreduce``) and
    as a future (``iallreduce``) that can be waited for or awaited. Arrays are NumPy's; a result
    goes into ``out`` when that is given (which may be the input: in place), else into a new array.

    Attributes:
        rank: this process's place in the group.
        size: number of ranks in the group.
        nodes: the host of each rank.
        attributes: what libraries keep with this communicator, each under a key of its own (as
            MPI's attribute caching).
    """

    def __init__(
        self,
        services: Services,
        membership: Membership,
        variants: Variants,
        timeout_s: float,
        on_death: OnDeath = "abort",
    ) -> None:
        self._services = services
        self._node = services.node
        self._membership = membership
        self._variants = variants
        self.timeout_s = timeout_s
        self.rank = membership.rank
        self.size = membership.size
        self.nodes = membership.nodes
        self.attributes: dict[str, Any] = {}
        self._segment_bytes = services.segment_bytes
        self._now_s = services.now_s
        self._closed = False
        prefixes = [variant.own for variant in variants.all]
        for prefix in prefixes:
            self._node.register_producer(str(prefix), str(self.rank))
        in_flight = services.settings.collectives.operations_in_flight
        self._stream = self._node.open_stream(prefixes, in_flight)
        self._calls = CallSequence(
            self._node,
            self._stream,
            f"rank {self.rank} ({self.nodes[self.rank]})",
            in_flight,
            self._start_unwaited_barrier,
        )
        self._collector = services.collector
        self._trace = services.trace
        self._log = OperationLog(membership.job, membership.name)
        first = variants.first
        messages = PointToPoint(self._node, self._collector, first, self.rank, self._segment_bytes)
        any_source = AnySource(self._node, self._collector, messages, self.size, self.rank)
        MessageCalls.__init__(
            self, messages, any_source, self._check_member, self._work, services.trace
        )
        objects = Objects(
            self._node, services.object_key, first, self.rank, services.object_segment_bytes
        )
        ObjectCalls.__init__(self, objects, self._check_member, self._object_work)
        one_sided = OneSided(
            self._transfers("arrays"),
            self.size,
            self.rank,
            lambda: membership.failure,
            self._log,
            services.background("innet-arrays"),
            services.now_s,
        )
        OneSidedCalls.__init__(self, one_sided, self._check_member)
        KeyedCalls.__init__(
            self,
            variants,
            self.rank,
            self._segment_bytes,
            self._start_steps,
            self._check_rank,
            self.collective,
        )
        transfers = self._transfers("rounds")
        rounds = Rounds(
            transfers,
            variants,
            self.size,
            self.rank,
            lambda: Coordinator(
                transfers, self.size, services.background("innet-rounds"), services.now_s
            ),
        )
        PartialCalls.__init__(self, variants, rounds, self._start_steps, self.collective)
        RecoveryCalls.__init__(self, membership, on_death, self.close)
        membership.release = self._release
        services.before_close(self.close)

    # Collectives, each as a future and blocking.

    def iallreduce(self, array: Array, op: str = "sum", out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allreduce`."""
        with self.collective("allreduce"):
            return self._start(allreduce(self._variants, array, op, out))

    def allreduce(self, array: Array, op: str = "sum", out: Array | None = None) -> Array:
        """Reduce over all ranks; all get the result.

        Operations: ``sum``, ``prod``, ``min`` and ``max``; for integers and bool also ``band``,
        ``bor`` and ``bxor``. Complex numbers have ``sum`` and ``prod`` only. A ``sum`` of bool is
        "or", a ``prod`` is "and".

        Types: float32, float64, float16, complex64, complex128, bool, signed and unsigned integers
        of 8 to 64 bits, and ml_dtypes' bfloat16, float8_e4m3fn and float8_e5m2. Those narrower than
        float32 are added in float32 and rounded once in each node; a float8_e4m3fn result beyond
        448 becomes NaN, for it has no infinity.

        Raises:
            MismatchError: ranks called different operations, shapes or types.
            ReductionOverflow: an integer result does not fit its type.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.
        """
        return self.iallreduce(array, op, out).wait_or_cancel()

    def iallreduce_q8(
        self, array: Array, out: Array | None = None, lost: Array | None = None
    ) -> Work[Array]:
        """Start an :meth:`allreduce_q8`; ``array`` may be changed at once, ``lost`` is ready."""
        with self.collective("allreduce_q8"):
            return self._start(allreduce_q8(self._variants, array, out, lost))

    def allreduce_q8(
        self, array: Array, out: Array | None = None, lost: Array | None = None
    ) -> Array:
        """Sum float32 arrays over all ranks in 8 bits an element: 3.9 times less to send.

        Blocks of 32 elements share a scale (docs/compression.md). Each node adds in float32 and
        encodes its sum once, so all ranks get the same bits. A block in which some rank has NaN,
        an infinity or a number of 2**127 or more is NaN everywhere.

        Args:
            array: float32, of any shape.
            out: where the result goes; may be ``array``.
            lost: float32, of the same size: becomes what encoding took from ``array``, to be added
                to the next contribution (error feedback). 0 in a block that is NaN.
        """
        return self.iallreduce_q8(array, out, lost).wait_or_cancel()

    def ireduce(
        self, array: Array, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Work[Array | None]:
        """Start a :meth:`reduce`."""
        with self.collective("reduce", synchronising=False):
            self._check_rank(root)
            return self._start(reduce(self._variants, self.rank, array, root, op, out))

    def reduce(
        self, array: Array, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Array | None:
        """Reduce over all ranks; ``root`` gets the result, the others ``None``."""
        return self.ireduce(array, root, op, out).wait_or_cancel()

    def ireduce_scatter(
        self, array: Array, op: str = "sum", out: Array | None = None
    ) -> Work[Array]:
        """Start a :meth:`reduce_scatter`."""
        with self.collective("reduce_scatter"):
            return self._start(reduce_scatter(self._variants, self.rank, self.size, array, op, out))

    def reduce_scatter(self, array: Array, op: str = "sum", out: Array | None = None) -> Array:
        """Reduce over all ranks; rank r gets block r of ``size`` along the first axis."""
        return self.ireduce_scatter(array, op, out).wait_or_cancel()

    def iallgather(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allgather`."""
        with self.collective("allgather"):
            return self._start(allgather(self._variants, self.rank, self.size, array, out))

    def allgather(self, array: Array, out: Array | None = None) -> Array:
        """Everybody's arrays, stacked: shape ``(size, *array.shape)``."""
        return self.iallgather(array, out).wait_or_cancel()

    def ibroadcast(self, array: Array, root: int = 0) -> Work[Array]:
        """Start a :meth:`broadcast`."""
        with self.collective("broadcast", synchronising=False):
            self._check_rank(root)
            return self._start(broadcast(self._variants, self.rank, array, root))

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Fill everybody's ``array`` with the root's; returns it."""
        return self.ibroadcast(array, root).wait_or_cancel()

    def igather(self, array: Array, root: int = 0, out: Array | None = None) -> Work[Array | None]:
        """Start a :meth:`gather`."""
        with self.collective("gather", synchronising=False):
            self._check_rank(root)
            return self._start(gather(self._variants, self.rank, self.size, array, root, out))

    def gather(self, array: Array, root: int = 0, out: Array | None = None) -> Array | None:
        """Everybody's arrays, stacked, at ``root``; ``None`` elsewhere."""
        return self.igather(array, root, out).wait_or_cancel()

    def iscatter(self, array: Array | None, root: int = 0, out: Array | None = None) -> Work[Array]:
        """Start a :meth:`scatter`."""
        with self.collective("scatter", synchronising=False):
            self._check_rank(root)
            return self._start(scatter(self._variants, self.rank, self.size, array, root, out))

    def scatter(self, array: Array | None, root: int = 0, out: Array | None = None) -> Array:
        """Rank r gets block r of the root's ``array``; other ranks pass ``None`` and ``out``."""
        return self.iscatter(array, root, out).wait_or_cancel()

    def ialltoall(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`alltoall`."""
        with self.collective("alltoall"):
            return self._start(alltoall(self._variants, self.rank, self.size, array, out))

    def alltoall(self, array: Array, out: Array | None = None) -> Array:
        """Block r of ``array`` goes to rank r; block r of the result came from rank r."""
        return self.ialltoall(array, out).wait_or_cancel()

    def ibarrier(self, *, timeout_s: float | None = None) -> Work[None]:
        """Start a :meth:`barrier`; its deadline is by default that of the group's operations."""
        with self.collective("barrier"):
            return self._start(barrier(self._variants), timeout_s)

    def barrier(self) -> None:
        """Wait until every rank has come here."""
        self.ibarrier().wait_or_cancel()

    def collective(
        self,
        what: str,
        *,
        numbers: int = 1,
        synchronising: bool = True,
        rounds: int = 0,
    ) -> AbstractContextManager[None]:
        """A block that makes one collective call, or fails it on every rank.

        For collectives that are made of others. All ranks call the same collectives in the same
        order; a block that prepares a contribution, and then makes a call with it, may fail before
        that call, and would be one behind from then on. With this, every other rank ends the call
        at once with a :class:`~innet.errors.PeerError` that names this rank and the cause (or with
        the same :class:`~innet.errors.MismatchError` or :class:`~innet.errors.ReductionOverflow`),
        and the next call is right on all ranks.

        Args:
            what: names the call for people, such as ``MaskedSum.allreduce``.
            numbers: how many collective calls the block makes (``reduce_by_key`` and
                ``allreduce_sparse`` count as 3, ``allreduce_blocks`` and ``allreduce_of`` as 2).
                Those that it has not made when it ends or raises fail on the other ranks.
            synchronising: false when these are all among ``broadcast``, ``reduce``, ``gather``,
                ``scatter`` and ``allreduce_of``, which do not wait for every rank; there may be one
                call then. True when the block ends with a call that does.
            rounds: how many of the calls are ``allreduce_of``, which also has rounds to count.

        Example::

            with comm.collective("mean of logarithms"):
                prepared = np.log(array)  # may raise
                total = comm.allreduce(prepared)
            return total / comm.size
        """
        fail_rounds = None
        if rounds > 0:
            fail_rounds = functools.partial(self._rounds.fail_until, self._rounds.next + rounds)
        return self._calls.call(what, numbers, synchronising, fail_rounds)

    def fail(self, what: str, error: BaseException, *, synchronising: bool = True) -> None:
        """In place of a collective call that cannot be made: fails it on every rank that needs it.

        Args:
            what: names the call for people.
            error: why; the error of the others tells it.
            synchronising: of the call that the others make, as :meth:`collective` says.
        """
        try:
            with self.collective(what, synchronising=synchronising):
                raise error
        except BaseException as raised:
            if raised is not error:
                raise

    # About the group.

    def explain(self, size_bytes: int) -> str:
        """Why an allreduce of ``size_bytes`` per rank goes the way it goes, in sentences."""
        return self._variants.explain(size_bytes)

    def plan_for(self, size_bytes: int) -> Plan:
        """The plan of a reduction of ``size_bytes`` per rank: who adds what, and where.

        Its expression, evaluated with :func:`innet.plans.evaluate_allreduce` in steps of
        :attr:`segment_bytes`, gives the result to the bit.
        """
        return self._variants.for_size(size_bytes).plan

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet carries."""
        return self._segment_bytes

    def stats(self) -> dict[str, Any]:
        """Counters of this rank's node; see ``innet status``."""
        status: dict[str, Any] = self._node.status()
        return status

    def abort(self, why: str) -> None:
        """End what is under way here with an error that says ``why``, and leave at once.

        Unlike :meth:`close`, it stays for nobody: others may miss what they had not fetched yet.
        """
        if not self._closed:
            self._closed = True
            self._services.no_more_before_close(self.close)
            self._publish_no_more(why)
            self._services.abandon_group(self._membership, why)

    def close(self) -> None:
        """Leave the group. What others may still need from this rank stays until all have left.

        Others that wait for a collective which this rank has not called get a
        :class:`~innet.errors.RankFailed` at once.
        """
        if self._closed:
            return
        self._closed = True
        self._services.no_more_before_close(self.close)
        self._publish_no_more()
        self._services.leave_group(self._membership)

    def _publish_no_more(self, why: str = "") -> None:
        """Tell those who wait for what this rank will never call that it has left, and ``why``."""
        failure = self._membership.failure
        if failure is not None:
            told = failure[0]  # the cause, not who heard of it
        else:
            host = self.nodes[self.rank]
            told = f"rank {self.rank} ({host}) left the group without calling this operation"
            told += f": {why}" if why else ""
        for variant in self._variants.all:
            self._node.end_producer(variant.own, self._calls.next, told)

    def _release(self) -> None:
        self._node.close_stream(self._stream)
        self._objects.close()
        self._one_sided.close()
        self._rounds.close()
        self._messages.close()
        for variant in self._variants.all:
            self._node.unregister_producer(str(variant.own))

    def _transfers(self, room: str) -> Transfers:
        return Transfers(
            self._node,
            self._collector,
            self._trace,
            f"{self._variants.first.prefix}/{room}",
            self.nodes,
            self.rank,
            self._segment_bytes,
        )

    @property
    def timeout_s(self) -> float:
        """Deadline of operations, from their call; may be changed for those that follow.

        Collectives have more time by default where the slowest link needs it for their bytes.
        Who sets this attribute sets the deadline of all operations.

        It must be above 0: an operation cannot be given no time (CollectiveError).
        """
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._timeout_s = timeout_or(timeout_s, timeout_s)
        self._slowest_link_bps = math.inf

    def allow_time_for_bytes(self, slowest_link_bps: float) -> None:
        """Give collectives a multiple of their planned time, where :attr:`timeout_s` is less.

        No algorithm sends the tensor more than once per rank, and back, over one link.
        """
        self._slowest_link_bps = slowest_link_bps

    def _timeout_for_s(self, size_bytes: int) -> float:
        """Deadline of an operation on tensors of ``size_bytes`` per rank."""
        planned_s = 2 * self.size * 8 * size_bytes / self._slowest_link_bps
        return max(self._timeout_s, _TIMEOUT_OVER_PLANNED * planned_s)

    # How operations run.

    def _start(self, operation: Operation[T], timeout_s: float | None = None) -> Work[T]:
        """Start the one operation of a call, within its :meth:`collective`."""
        self._require_open(operation.what)
        timeout_s = timeout_or(timeout_s, self._timeout_for_s(operation.size_bytes))
        (seq,) = self._calls.take()
        number = self._submit_as(operation, seq, timeout_s)
        return self._work(
            number,
            operation.what,
            seq,
            operation.finish,
            timeout_s=timeout_s,
            synchronising=operation.synchronising,
        )

    def _start_unwaited_barrier(self, seq: int) -> None:
        number = self._submit_as(barrier(self._variants), seq, self.timeout_s)
        self._collector.deliver(number, lambda _status, _detail: None)

    def _start_steps(self, steps: Steps[T], most_steps: int, what: str) -> Work[T]:
        """Start the operations of a call, within its :meth:`collective`."""
        self._require_open(what)
        numbers = self._calls.take(most_steps)
        began_s = self._now_s()

        def submit(operation: Operation[Any], seq: int, reserves: int) -> int:
            self._require_open(operation.what)
            deadline_s = began_s + self._timeout_for_s(operation.size_bytes)
            # What comes too late still asks once, and so can say who was missing.
            left_s = max(deadline_s - self._now_s(), _LEAST_TIMEOUT_S)
            return self._submit_as(operation, seq, left_s, reserves)

        def release(unneeded: range) -> None:
            for seq in unneeded:
                self._node.release(self._stream, seq)

        def fail(missing: range, error: BaseException | str) -> None:
            self._calls.fail(missing, what, error)

        staged = Staged(steps, numbers, submit, release, fail, self._collector)
        staged.start()
        return self._work(
            numbers[0], what, numbers[0], staged.result, staged, timeout_s=self.timeout_s
        )

    def _submit_as(
        self, operation: Operation[Any], seq: int, timeout_s: float, reserves: int = 0
    ) -> int:
        """Start an operation under a sequence number; the packet path's number of it."""
        kind = _kind(operation.kind)
        number_in_names = seq if operation.number is None else operation.number
        segmentation = _core.Segmentation(
            operation.blocks,
            operation.block_bytes,
            operation.segment_bytes(self._segment_bytes),
        )
        publication = None
        if operation.publishes is not None:
            publication = _core.Publication(
                operation.variant.own,
                kind,
                number_in_names,
                byte_view(operation.publishes),
                segmentation,
                operation.elements,
                self._named(operation),
                segment_ends=operation.segment_ends,
            )
        fetches = self._fetches(operation, kind, number_in_names, segmentation)
        number = self._node.submit(
            publication,
            fetches,
            timeout_s=timeout_s,
            in_place=operation.in_place,
            stream=self._stream,
            seq=seq,
            synchronising=operation.synchronising,
            reserves=reserves,
            call=self._named(operation),
        )
        if self._trace is not None:
            self._trace.begin(
                number,
                operation.what,
                "collective",
                seq=seq,
                bytes=operation.size_bytes,
                algorithm=operation.variant.plan.algorithm,
                group=operation.variant.prefix,
            )
        return int(number)

    def _named(self, operation: Operation[Any]) -> str:
        """This rank and its call, for ranks that called something else."""
        return f"{self._calls.who} called {operation.what}"

    def _fetches(
        self,
        operation: Operation[T],
        kind: _core.Name,
        seq: int,
        segmentation: _core.Segmentation,
    ) -> list[_core.Fetch]:
        per_block = segmentation.segments_per_block
        fetches = []
        for wanted in operation.wants:
            first = 0 if wanted.block is None else wanted.block * per_block
            end = segmentation.segments if wanted.block is None else first + per_block
            fetches.append(
                _core.Fetch(
                    wanted.targets,
                    kind,
                    seq,
                    segmentation,
                    first,
                    end,
                    operation.elements,
                    byte_view(wanted.into),
                    wanted.by_block,
                    sizes=wanted.sizes,
                )
            )
        return fetches

    def _work(
        self,
        operation: int,
        what: str,
        seq: int | None,
        finish: Callable[[], T],
        completion: Completion | None = None,
        timeout_s: float | None = None,
        ended_without: Callable[[int], None] | None = None,
        synchronising: bool = True,
    ) -> Work[T]:
        """The operation as its caller sees it.

        Args:
            operation: number of it in the packet path, or in ``completion``.
            what: for people.
            seq: its number in the group, if it has one.
            finish: makes its result.
            completion: tells when it ends; the collector by default.
            timeout_s: how long it may take.
            ended_without: takes the status of an operation that ended without a result.
            synchronising: every rank waits for every other in it, and so all hear of a mismatch.
        """

        def error(status: int, detail: str) -> BaseException | None:
            if ended_without is not None and status != _core.STATUS_DONE:
                ended_without(status)
            # Messages have no number that both sides know: theirs say what they were all the same.
            told = detail if seq is not None else f"{what}: {detail}"
            if status == _core.STATUS_DEADLINE_EXCEEDED:
                told = self._with_cause(told)
            ended = error_of(status, told, what, seq, self._membership.failure, timeout_s)
            if isinstance(ended, RankFailed):
                self._membership.heard = (detail, ended.rank)
            if isinstance(ended, MismatchError) and not synchronising:
                self._calls.disagree(ended)
            return ended

        followed = self._log.follow(what, seq)
        return Work(operation, completion or self._collector, finish, error, followed)

    def _with_cause(self, missing: str) -> str:
        """What an operation waited for in vain: the ranks that cannot answer, if there are any.

        Ranks that cannot answer are the cause also where others have given up and left since.
        """
        try:
            stopped = self._ranks_on(self._services.stopped())
            ended = [] if stopped else self._ranks_on(self._services.ended())
        except ControlError:
            return missing
        if stopped:
            who = ", ".join(f"rank {rank} ({self.nodes[rank]})" for rank in stopped)
            cause = f"{who} did not answer (stopped, or cut off from the network)"
            self._membership.blamed = (cause, stopped[0])
            return cause
        left = (
            f"; rank {rank} ({self.nodes[rank]}) left the group, and its process has ended"
            for rank in ended
        )
        return missing + "".join(left)

    def _ranks_on(self, nodes: Collection[str]) -> list[int]:
        """The ranks on ``nodes``."""
        return [rank for rank, node in enumerate(self.nodes) if node in nodes]

    def _object_work(self, operation: int, what: str, finish: Callable[[], T]) -> Work[T]:
        if self._trace is not None:
            self._trace.begin(operation, what, "object")

        def error(status: int, detail: str) -> BaseException | None:
            return error_of_object(status, detail, what, self._membership.failure)

        return Work(operation, self._collector, finish, error, self._log.follow(what))

    def _require_open(self, what: str = "") -> None:
        if self._closed:
            raise Cancelled("the communicator is closed")
        if self._membership.failure is not None:
            raise error_of_failure(self._membership.failure, what, self._calls.next)

    def _check_rank(self, root: int) -> None:
        if not 0 <= root < self.size:
            raise CollectiveError(f"there is no rank {root}; ranks are 0 to {self.size - 1}")

    def _check_member(self, rank: int) -> None:
        self._require_open()
        self._check_rank(rank)


@functools.lru_cache(maxsize=256)
def _kind(text: str) -> _core.Name:
    return _core.Name(f"/{text}")
