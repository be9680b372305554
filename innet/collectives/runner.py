"""Runs the operations of one rank of a group: starts them, and makes works of them."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, SupportsIndex, TypeVar

from innet._native import _core
from innet.collectives.call_sequence import CallSequence
from innet.collectives.completion import (
    Completion,
    OnEnd,
    OperationLog,
    error_of,
    error_of_failure,
)
from innet.collectives.group import Variants, overhead_bytes
from innet.collectives.operation import Operation, barrier
from innet.collectives.operation_specs import publication_and_fetches
from innet.collectives.work import (
    Complete,
    CompletionSource,
    Deadline,
    NodeWork,
    Promise,
    Work,
    timeout_or,
)
from innet.errors import Cancelled, CollectiveError, ControlError, MismatchError, RankFailed
from innet.node.messages import GroupFailure, named_rank, named_ranks, producer_label
from innet.plans import SegmentRoom
from innet.settings import Settings
from innet.telemetry.trace.recorder import Recorder
from innet.worker.background import Background
from innet.worker.membership import Membership

T = TypeVar("T")

Overflow = Literal["raise", "wrap"]

Steps = Generator[Operation[Any], Any, T]
"""A collective of several operations: yields them, is sent their results, returns its own."""

_TIMEOUT_OVER_PLANNED = 4.0
_LEAST_TIMEOUT_S = 1e-3
"""The least timeout of a step of a collective whose earlier steps took all its time."""


class Services(Protocol):
    """Services of the process to a communicator: of a worker, or of a host in a simulation."""

    @property
    def node(self) -> _core.NodeHandle:
        """The host's node."""

    @property
    def collector(self) -> CompletionSource:
        """Delivers the completions of the node's operations."""

    @property
    def settings(self) -> Settings:
        """Settings of the run."""

    def segment_room_beside(self, overhead_bytes: int) -> SegmentRoom:
        """Bytes of a tensor that a segment carries beside headers of that size."""

    @property
    def object_segment_bytes(self) -> int:
        """Bytes of a published object that one packet carries."""

    @property
    def object_key(self) -> _core.SigningKey:
        """The key that signs this rank's objects."""

    @property
    def trace(self) -> Recorder | None:
        """Records the operations of a traced job; ``None`` of another job."""

    def now_s(self) -> float:
        """Seconds of the monotonic clock by which timeouts count."""

    def background(self, name: str) -> Background:
        """Runs a communicator's actions beside its program; ``name`` names the thread."""

    def stopped(self) -> Collection[str]:
        """The hosts whose process neither answers nor sends anything."""

    def leave_group(self, membership: Membership) -> None:
        """Leave the group: this process needs nothing more of it."""

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End the group here, with an error that says ``why``, and leave it at once."""

    def before_close(self, hook: Callable[[], None]) -> None:
        """Run ``hook`` before the process closes."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """Remove a hook of :meth:`before_close`."""


def _nothing(_status: int) -> None:
    """A failed call leaves nothing to clean up."""


@dataclass(slots=True)  # not frozen: that costs a microsecond per call
class Call(Generic[T]):
    """A call of a communicator, of which a work is made.

    Attributes:
        what: the call, for people.
        finish: makes the result once all data is there.
        seq: its number in the group, if it has one.
        timeout_s: its timeout, when an error should state it.
        on_failure: receives the status of a call that ended without a result.
        synchronising: every rank waits for every other, and so all learn of a mismatch.
        after: earlier calls that a mismatch is to list.
    """

    what: str
    finish: Callable[[], T]
    seq: int | None = None
    timeout_s: float | None = None
    on_failure: Callable[[int], None] = _nothing
    synchronising: bool = True
    after: str = ""


class OperationRunner:
    """Starts the operations of one rank of a group.

    Attributes:
        services: of the process.
        node: of this rank.
        collector: delivers the completions of the node's operations.
        trace: records the operations of a traced job.
        membership: this rank's place in the group.
        variants: the group's plans.
        rank: of this process.
        size: number of ranks.
        nodes: the node of each rank.
        name: this rank as messages name it, such as ``rank 0 (h0)``.
        segment_room: bytes of a tensor that a segment carries.
        calls: numbers the collective calls.
        overflow: what becomes of sums of integers that leave their type.
        is_closed: the communicator is closed.
    """

    def __init__(
        self, services: Services, membership: Membership, variants: Variants, timeout_s: float
    ) -> None:
        self.services = services
        self.node = services.node
        self.collector = services.collector
        self.trace = services.trace
        self.membership = membership
        self.variants = variants
        self.timeout_s = timeout_s
        self.rank = membership.rank
        self.size = membership.size
        self.nodes = membership.nodes
        self.name = named_rank(self.rank, self.nodes[self.rank])
        signature = services.settings.security.signature
        self.segment_room = services.segment_room_beside(
            overhead_bytes(tuple(membership.plans), membership.size, signature)
        )
        self.is_closed = False
        self.overflow: Overflow = "raise"
        self._log = OperationLog(membership.job, membership.name)
        prefixes = [variant.own for variant in variants.all]
        for prefix in prefixes:
            self.node.register_producer(str(prefix), self.label)
        in_flight = services.settings.collectives.operations_in_flight
        self._stream = self.node.open_stream(prefixes, in_flight)
        self.calls = CallSequence(
            self.node, self._stream, self.name, in_flight, self._start_unwaited_barrier
        )

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that a segment of one packet carries."""
        return self.segment_room.packet_bytes

    @property
    def wraps(self) -> bool:
        """Whether sums of integers wrap around."""
        return self.overflow == "wrap"

    @property
    def label(self) -> str:
        """This rank as its Holds name it."""
        return producer_label(self.rank, self.nodes[self.rank])

    @property
    def timeout_s(self) -> float:
        """See :attr:`innet.collectives.Communicator.timeout_s`."""
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._timeout_s = timeout_or(timeout_s, timeout_s)
        self._slowest_link_bps = math.inf

    def allow_time_for_bytes(self, slowest_link_bps: float) -> None:
        """See :meth:`innet.collectives.Communicator.allow_time_for_bytes`."""
        self._slowest_link_bps = slowest_link_bps

    # Starting operations.

    def start(self, operation: Operation[T], timeout_s: float | None = None) -> Work[T]:
        """Start the one operation of a call, within :meth:`CallSequence.call`."""
        self.require_open(operation.what)
        timeout_s = timeout_or(timeout_s, self.timeout_for_s(operation.size_bytes))
        (seq,) = self.calls.take()
        compared, after = self.calls.earlier.for_next(operation.synchronising)
        number = self._submit(operation, seq, timeout_s, earlier_calls=compared)
        call = Call(
            operation.what,
            operation.finish,
            seq,
            timeout_s,
            synchronising=operation.synchronising,
            after=after,
        )
        if operation.noted:
            self.calls.earlier.add(operation.noted)
        return self.work(number, call)

    def start_steps(self, steps: Steps[T], most_steps: int, what: str) -> Work[T]:
        """Start a collective of several operations, within :meth:`CallSequence.call`."""
        self.require_open(what)
        run = _StepRun(self, steps, self.calls.take(most_steps), what)
        return run.start()

    def submit_step(
        self,
        operation: Operation[Any],
        seq: int,
        began_s: float,
        reserves: int,
        earlier_calls: str = "",
    ) -> int:
        """Start one operation of a collective that began at ``began_s``; the operation's number.

        ``reserves`` numbers behind ``seq`` are kept for the steps that follow. The first step
        compares the ``earlier_calls`` of the ranks.
        """
        self.require_open(operation.what)
        deadline_s = began_s + self.timeout_for_s(operation.size_bytes)
        # A step that starts after the deadline still tries once: its error can name missing ranks.
        left_s = max(deadline_s - self.services.now_s(), _LEAST_TIMEOUT_S)
        return self._submit(operation, seq, left_s, reserves, earlier_calls)

    def release(self, numbers: range) -> None:
        """Give up sequence numbers that no step needs."""
        for seq in numbers:
            self.node.release(self._stream, seq)

    def close(self) -> None:
        """Close the stream of operations, and serve no contributions any more."""
        self.node.close_stream(self._stream)
        for variant in self.variants.all:
            self.node.unregister_producer(str(variant.own))

    # Making works.

    def work(self, operation: int, call: Call[T]) -> Work[T]:
        """The work of an operation of the node."""
        return NodeWork(operation, self.collector, *self._following(call))

    def promise(self, call: Call[T], deadline: Deadline | None = None) -> Promise[T]:
        """The work of a call that its maker ends."""
        return Promise(*self._following(call), deadline)

    def follow(self, what: str, seq: int | None = None) -> OnEnd:
        """Log an operation; see :meth:`OperationLog.follow`."""
        return self._log.follow(what, seq)

    @property
    def is_unobserved(self) -> bool:
        """Whether operations can start, and leave no record when they go well."""
        closed = self.is_closed or self.membership.failure is not None
        return not closed and self.trace is None and self._log.is_silent

    def raise_error(self, call: Call[Any], status: int, detail: str) -> None:
        """Raise the error of a call whose operation has ended without a result."""
        work = self.promise(call)
        work.end(Completion.of_node(status, detail))
        work.wait()

    def require_open(self, what: str = "") -> None:
        """Check that operations can start.

        Raises:
            Cancelled: the communicator is closed.
            RankFailed, CollectiveError: the group has failed.
        """
        if self.is_closed:
            raise Cancelled("the communicator is closed")
        if self.membership.failure is not None:
            raise error_of_failure(self.membership.failure, what, self.calls.next)

    def require_rank(self, rank: int) -> None:
        """Check that the group has a rank.

        Raises:
            CollectiveError: there is no such rank.
        """
        if not isinstance(rank, SupportsIndex) or not 0 <= operator.index(rank) < self.size:
            raise CollectiveError(
                f"there is no rank {rank!r}; ranks are the whole numbers 0 to {self.size - 1}"
            )

    def require_member(self, rank: int) -> None:
        """:meth:`require_open` and :meth:`require_rank`."""
        self.require_open()
        self.require_rank(rank)

    def _following(self, call: Call[T]) -> tuple[Complete[T], OnEnd]:
        return functools.partial(self._complete, call), self._log.follow(call.what, call.seq)

    def _complete(self, call: Call[T], completion: Completion) -> T:
        """The result of a call, or its error."""
        if completion.status == _core.STATUS_DONE:
            return call.finish()
        call.on_failure(completion.status)
        if completion.status == _core.STATUS_DEADLINE_EXCEEDED:
            completion = completion._replace(detail=self._with_cause(completion.detail))
        if completion.status == _core.STATUS_MISMATCH and call.after:
            detail = f"{completion.detail} ({self.name} called {call.after})"
            completion = completion._replace(detail=detail)
        error = error_of(completion, call.what, call.seq, self.membership.failure, call.timeout_s)
        if isinstance(error, RankFailed):
            self.membership.heard = GroupFailure(error.reason, error.rank)
        if isinstance(error, MismatchError) and not call.synchronising:
            self.calls.disagree(error)
        raise error

    def _with_cause(self, missing: str) -> str:
        """The cause of a deadline: the ranks that cannot answer, if there are any.

        They are the cause even if other ranks have failed and left since.
        """
        try:
            stopped = self._ranks_on(self.services.stopped())
        except ControlError:
            return missing
        if not stopped:
            return missing
        who = named_ranks(stopped, self.nodes)
        cause = f"{who} did not answer (stopped, or cut off from the network)"
        self.membership.blamed = GroupFailure(cause, stopped[0])
        return cause

    def _ranks_on(self, nodes: Collection[str]) -> list[int]:
        return [rank for rank, node in enumerate(self.nodes) if node in nodes]

    def timeout_for_s(self, size_bytes: int) -> float:
        """Timeout of an operation on tensors of ``size_bytes`` per rank."""
        planned_s = 2 * self.size * 8 * size_bytes / self._slowest_link_bps
        return max(self._timeout_s, _TIMEOUT_OVER_PLANNED * planned_s)

    # Requests to the node.

    def _call_of(self, operation: Operation[Any]) -> str:
        """The operation's call, for ranks that made another."""
        return f"{self.name} called {operation.what}"

    def _start_unwaited_barrier(self, seq: int) -> None:
        number = self._submit(barrier(self.variants), seq, self.timeout_s)
        self.collector.deliver(number, lambda _status, _detail: None)

    def repeated(self, operation: Operation[Any], earlier_calls: str) -> _core.RepeatedOperation:
        """Prepare the repetition of an operation that publishes one array and fetches one."""
        call = self._call_of(operation)
        publication, fetches = publication_and_fetches(
            operation, 0, self.segment_room, call, earlier_calls, wraps=self.wraps
        )
        assert publication is not None
        return _core.RepeatedOperation(
            publication, fetches, in_place=operation.in_place, stream=self._stream, call=call
        )

    def _submit(
        self,
        operation: Operation[Any],
        seq: int,
        timeout_s: float,
        reserves: int = 0,
        earlier_calls: str = "",
    ) -> int:
        """Start an operation under a sequence number; the node's number of it."""
        call = self._call_of(operation)
        publication, fetches = publication_and_fetches(
            operation, seq, self.segment_room, call, earlier_calls, wraps=self.wraps
        )
        number = self.node.submit(
            publication,
            fetches,
            timeout_s=timeout_s,
            in_place=operation.in_place,
            stream=self._stream,
            seq=seq,
            synchronising=operation.synchronising,
            reserves=reserves,
            call=call,
        )
        if self.trace is not None:
            self.trace.begin(
                number,
                operation.what,
                "collective",
                seq=seq,
                bytes=operation.size_bytes,
                algorithm=operation.variant.plan.algorithm,
                group=operation.variant.prefix,
            )
        return int(number)


class _StepRun(Generic[T]):
    """Runs the operations of one collective, each after the result of the last.

    The next operation starts on the collector's thread as soon as the last has ended, even if no
    thread waits here: another rank may be waiting for it. The operations take sequence numbers
    that follow each other, so that later calls keep theirs.
    """

    def __init__(self, runner: OperationRunner, steps: Steps[T], numbers: range, what: str) -> None:
        self._runner = runner
        self._steps = steps
        self._left = numbers
        self._what = what
        self._began_s = runner.services.now_s()
        self._result: T
        self._promise: Promise[T]

    def start(self) -> Work[T]:
        """Submit the first operation; the caller fails the numbers when this raises."""
        seq = self._left[0]
        timeout_s = self._runner.timeout_s
        operation = next(self._steps)
        compared, after = self._runner.calls.earlier.for_next(operation.synchronising)
        number = self._submit(operation, reserves=len(self._left) - 1, earlier_calls=compared)
        call = Call(self._what, lambda: self._result, seq, timeout_s, after=after)
        self._promise = self._runner.promise(call)
        self._deliver(operation, number)
        return self._promise

    def _submit(self, operation: Operation[Any], reserves: int = 0, earlier_calls: str = "") -> int:
        number = self._runner.submit_step(
            operation, self._left[0], self._began_s, reserves, earlier_calls
        )
        self._left = self._left[1:]
        return number

    def _deliver(self, operation: Operation[Any], number: int) -> None:
        def on_end(status: int, detail: str) -> None:
            completion = Completion.of_node(status, detail)
            if status == _core.STATUS_DONE and self._promise.is_cancelled:
                detail = "cancelled between two of its operations"
                completion = Completion(_core.STATUS_CANCELLED, detail)
            if completion.status == _core.STATUS_DONE:
                self._advance(operation)
            else:
                self._fail_rest(completion.detail, lambda: self._promise.end(completion))

        collector = self._runner.collector
        self._promise.cancel_with(functools.partial(collector.cancel, number))
        collector.deliver(number, on_end)

    def _advance(self, operation: Operation[Any]) -> None:
        try:
            following = self._steps.send(operation.finish())
            self._deliver(following, self._submit(following))
        except StopIteration as stop:
            self._result = stop.value
            try:
                self._runner.release(self._left)
            finally:
                self._promise.end(Completion())
        except BaseException as error:
            cause = error
            self._fail_rest(cause, lambda: self._promise.fail(cause))

    def _fail_rest(self, cause: BaseException | str, end: Callable[[], None]) -> None:
        """Undo what the steps did, fail the operations that are left, and end the promise.

        Each happens although one before it raises: other threads and ranks wait for it.
        """
        with contextlib.ExitStack() as last_first:
            last_first.callback(end)
            last_first.callback(self._runner.calls.fail, self._left, self._what, cause)
            last_first.callback(self._steps.close)
