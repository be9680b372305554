"""Messages between ranks: receives from a given rank, and from whichever rank sends first.

A message is fetched by its name, which holds its sender. A receive from any rank requests the next
message with the tag of every rank, and takes the first that arrives; the other requests stay open
for the receives that follow. As in MPI, messages of one sender are taken in the order they were
sent, and a message goes to the first receive that was posted and fits it.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Array, Output
from innet.collectives.completion import Completion
from innet.collectives.point_to_point import LOST_MESSAGE, PointToPoint, describe_receipt
from innet.collectives.runner import Call, OperationRunner
from innet.collectives.work import Deadline, Promise, Work, timeout_or
from innet.errors import CollectiveError

T = TypeVar("T")

_MOST_TAGS = 64
"""Tags whose requests stay open for the receives that follow."""
_SHORTEST_S = 0.001
"""Least timeout of a request, so that requests of a receive that ends soon do not spin."""


class Messages:
    """The messages of one communicator; the calls are documented there."""

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner
        self._point_to_point = PointToPoint(runner)
        self._any_source = AnySource(runner, self._point_to_point)

    def send(self, array: Array, to: int, tag: int) -> Work[None]:
        """Start a send."""
        self._require_peer(to)
        return self._point_to_point.send(array, to, _checked_tag(tag))

    def fail_send(self, to: int, tag: int, error: BaseException) -> None:
        """Let the receive of a send that cannot be made raise ``error``."""
        self._require_peer(to)
        self._point_to_point.fail(to, tag, error)

    def skip_receive(self, source: int, tag: int) -> None:
        """Drop the message of a receive that cannot be made."""
        self._require_peer(source)
        if not self._any_source.has_tag(tag):
            seq = self._point_to_point.next_incoming(source, tag)
            self._point_to_point.confirm(source, tag, seq)

    def receive(self, array: Array, source: int, tag: int, timeout_s: float | None) -> Work[Array]:
        """Start a receive from one rank."""
        self._require_peer(source)
        tag = _checked_tag(tag)
        if self._any_source.has_tag(tag):
            output = Output(array)
            return self._post(output, source, tag, lambda _: output.finish(), timeout_s)
        seq = self._point_to_point.next_incoming(source, tag)
        confirm = partial(self._point_to_point.confirm, source, tag, seq)
        try:
            output = Output(array)
            limit_s = timeout_or(timeout_s, self._runner.timeout_s)
            operation = self._point_to_point.fetch(output.memory, source, tag, seq, limit_s)
        except BaseException:
            confirm()  # its message is not for the next receive
            raise

        def finish() -> Array:
            confirm()
            return output.finish()

        def on_failure(status: int) -> None:
            if status in (_core.STATUS_DEADLINE_EXCEEDED, _core.STATUS_CANCELLED):
                self._point_to_point.give_back(source, tag, seq)
            elif status in LOST_MESSAGE:
                self._point_to_point.drop(source, tag, seq, status, what)

        what = describe_receipt(output.memory, source, tag)
        return self._runner.work(operation, Call(what, finish, on_failure=on_failure))

    def receive_any(self, array: Array, tag: int) -> Work[int]:
        """Start a receive from any rank; the result is the sender."""
        self._runner.require_member(self._runner.rank)
        tag = _checked_tag(tag)
        output = Output(array)

        def finish(receive: Receive) -> int:
            output.finish()
            return receive.sender

        return self._post(output, None, tag, finish, None)

    def refuse(self, why: str) -> None:
        """Send no more; receives of others that have no message end with an error that says why."""
        self._point_to_point.refuse(why)

    def close(self) -> None:
        """Offer no messages any more."""
        self._point_to_point.close()

    def _post(
        self,
        output: Output,
        source: int | None,
        tag: int,
        finish: Callable[[Receive], T],
        timeout_s: float | None,
    ) -> Work[T]:
        what = describe_receipt(output.memory, "any rank" if source is None else source, tag)

        def make_work(receive: Receive, deadline: Deadline) -> Promise[T]:
            return self._runner.promise(Call(what, partial(finish, receive)), deadline)

        timeout_s = timeout_or(timeout_s, self._runner.timeout_s)
        return self._any_source.post(output.memory, source, tag, timeout_s, make_work).work

    def _require_peer(self, peer: int) -> None:
        self._runner.require_member(peer)
        if peer == self._runner.rank:
            raise CollectiveError(f"rank {peer} cannot send messages to itself; copy the array")


def _checked_tag(tag: int) -> int:
    """``tag`` as Python's ``int``, whose text is part of names.

    Raises:
        CollectiveError: it is no whole number, so no receive would match it.
    """
    if not isinstance(tag, SupportsIndex):
        raise CollectiveError(f"tag={tag!r} is no whole number; pass one, such as tag=0")
    return operator.index(tag)


class Receive:
    """One receive that waits for its message.

    Attributes:
        memory: where the message goes.
        source: the only rank it takes a message from, or ``None`` for any.
        deadline_s: end of the requests, on the monotonic clock.
        work: ends with it.
        sender: whose message it got, -1 before.
    """

    work: Promise[Any]

    def __init__(self, memory: Array, source: int | None, deadline_s: float) -> None:
        self.memory = memory
        self.source = source
        self.deadline_s = deadline_s
        self.sender = -1

    def takes(self, source: int) -> bool:
        """Whether it takes a message of rank ``source``."""
        return self.source is None or self.source == source


MakeWork = Callable[[Receive, Deadline], Promise[Any]]
"""Makes the work of a receive, which is given up at a deadline."""


@dataclass(eq=False)
class _Request:
    """A fetch of the next message of one rank.

    Attributes:
        operation: the fetch.
        seq: number of the message.
        buffer: where it lands.
        is_answered: the message has arrived, and no receive has taken it yet.
    """

    operation: int
    seq: int
    buffer: Array
    is_answered: bool = False

    def fits(self, memory: Array) -> bool:
        return self.buffer.dtype == memory.dtype and self.buffer.size == memory.size


@dataclass
class _Tag:
    """The receives under one tag, and the requests for them by source."""

    waiting: list[Receive] = field(default_factory=list)
    requests: dict[int, _Request] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)

    def first_for(self, source: int) -> Receive | None:
        return next((receive for receive in self.waiting if receive.takes(source)), None)


class AnySource:
    """The receives of one communicator under tags that were received from any source.

    A receive ends outside the lock: its callbacks may call the communicator.
    """

    def __init__(self, runner: OperationRunner, messages: PointToPoint) -> None:
        self._node = runner.node
        self._collector = runner.collector
        self._messages = messages
        self._ranks = runner.size
        self._rank = runner.rank
        self._lock = threading.RLock()
        self._tags: dict[int, _Tag] = {}
        """The one that was used last at the end."""
        self._taken: list[Receive] = []
        """Receives that have their message, and are to be ended."""

    def has_tag(self, tag: int) -> bool:
        """Whether receives under this tag, from one source too, have to be posted here."""
        return tag in self._tags

    def post(
        self,
        memory: Array,
        source: int | None,
        tag: int,
        timeout_s: float,
        make_work: MakeWork,
    ) -> Receive:
        """Receive the next message with ``tag`` of rank ``source``, or of any.

        Raises:
            CollectiveError: this rank is the only one.
        """
        if self._ranks == 1:
            raise CollectiveError(
                "recv_any() in a group of one rank: no other rank can send a message; check "
                "comm.size first"
            )
        receive = Receive(memory, source, time.monotonic() + timeout_s)
        late = "no rank sent one" if source is None else f"rank {source} did not send one"
        overdue = Completion(_core.STATUS_DEADLINE_EXCEEDED, f"{late} within {timeout_s:g} s")
        cancelled = Completion(_core.STATUS_CANCELLED, "given up")
        give_up = partial(self._give_up, tag, receive)
        receive.work = make_work(receive, Deadline(receive.deadline_s, partial(give_up, overdue)))
        receive.work.cancel_with(partial(give_up, cancelled))
        with self._lock:
            state = self._tags[tag] = self._tags.pop(tag, _Tag())
            state.waiting.append(receive)
            self._request_for_all(tag)
            self._drop_idle_tags()
        self._end_taken()
        return receive

    def _drop_idle_tags(self) -> None:
        """Cancel the requests of tags that were not used for long, and give their numbers back."""
        while len(self._tags) > _MOST_TAGS:
            tag = next(iter(self._tags))
            state = self._tags.pop(tag)
            if state.waiting:
                self._tags[tag] = state
                return
            for request in state.requests.values():
                self._node.cancel(request.operation)
            for source, seq in state.seqs.items():
                self._messages.give_back(source, tag, seq)

    def _give_up(self, tag: int, receive: Receive, completion: Completion) -> None:
        """End a receive with ``completion``, unless it has its message."""
        with self._lock:
            state = self._tags.get(tag)
            if state is None or receive not in state.waiting:
                return
            state.waiting.remove(receive)
        receive.work.end(completion)

    def _request_for_all(self, tag: int) -> None:
        """Keep a request open to each rank whose next message a receive waits for."""
        state = self._tags[tag]
        for source in range(self._ranks):
            while source != self._rank and self._request_or_take(tag, state, source):
                pass

    def _request_or_take(self, tag: int, state: _Tag, source: int) -> bool:
        """Whether a receive took the message of ``source`` that has arrived."""
        receive = state.first_for(source)
        if receive is None:
            return False
        request = state.requests.get(source)
        if request is None or not request.fits(receive.memory):
            if request is not None:
                self._node.cancel(request.operation)
            self._request(tag, state, source, receive)
            return False
        if not request.is_answered:
            return False
        state.waiting.remove(receive)
        del state.requests[source]
        del state.seqs[source]
        np.copyto(receive.memory.reshape(-1), request.buffer.reshape(-1))
        receive.sender = source
        self._messages.confirm(source, tag, request.seq)
        self._taken.append(receive)
        return True

    def _request(self, tag: int, state: _Tag, source: int, receive: Receive) -> None:
        seq = state.seqs.get(source)
        if seq is None:
            seq = state.seqs[source] = self._messages.next_incoming(source, tag)
        buffer = np.empty_like(receive.memory)
        left_s = max(_SHORTEST_S, receive.deadline_s - time.monotonic())
        operation = self._messages.fetch(buffer, source, tag, seq, left_s)
        request = state.requests[source] = _Request(operation, seq, buffer)
        self._collector.deliver(operation, partial(self._on_end, tag, source, request))

    def _on_end(self, tag: int, source: int, request: _Request, status: int, detail: str) -> None:
        with self._lock:
            state = self._tags.get(tag)
            if state is None or state.requests.get(source) is not request:
                return  # cancelled
            failed: list[Receive] = []
            if status == _core.STATUS_DONE:
                request.is_answered = True
            else:
                del state.requests[source]
                failed = self._failed_with(state, source, status)
                if status in LOST_MESSAGE:
                    del state.seqs[source]  # the receive has had its message, as any other would
                    receive_call = describe_receipt(request.buffer, source, tag)
                    self._messages.drop(source, tag, request.seq, status, receive_call)
        for receive in failed:
            receive.work.end(Completion.of_node(status, detail))
        with self._lock:
            if self._tags.get(tag) is state:
                self._request_for_all(tag)
        self._end_taken()

    def _failed_with(self, state: _Tag, source: int, status: int) -> list[Receive]:
        """Remove the receives that end because a request to ``source`` ended with ``status``."""
        receive = state.first_for(source)
        # The request may be older than the receive, and have had less time than that has.
        early = status == _core.STATUS_DEADLINE_EXCEEDED
        if receive is None or (early and time.monotonic() < receive.deadline_s):
            failed = []
        else:
            failed = [receive]
        if status == _core.STATUS_ABORTED:  # no more messages of that rank arrive
            failed = [one for one in state.waiting if one.takes(source)]
        state.waiting = [one for one in state.waiting if one not in failed]
        return failed

    def _end_taken(self) -> None:
        with self._lock:
            taken, self._taken = self._taken, []
        for receive in taken:
            receive.work.end(Completion())
