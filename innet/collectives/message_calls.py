"""The calls of a communicator for messages between two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from innet.collectives.any_source import AnySource, Receive
from innet.collectives.arrays import Array, Output
from innet.collectives.point_to_point import PointToPoint, describe_receipt
from innet.collectives.timeouts import timeout_or
from innet.collectives.work import Completion, Work
from innet.errors import CollectiveError
from innet.telemetry.trace.recorder import Recorder

T = TypeVar("T")


class FollowMessage(Protocol):
    """Makes a work of an operation on a message."""

    def __call__(
        self,
        operation: int,
        what: str,
        seq: int | None,
        finish: Callable[[], T],
        completion: Completion | None = None,
        *,
        ended_without: Callable[[int], None] | None = None,
    ) -> Work[T]:
        """The operation under way; ``completion`` tells its end, by default the collector.

        ``ended_without`` takes the status of one that ended without its message.
        """


class MessageCalls:
    """Ranks send each other arrays, with tags. None of these is a collective."""

    rank: int
    timeout_s: float
    _collector: Completion

    def __init__(
        self,
        messages: PointToPoint,
        any_source: AnySource,
        check_member: Callable[[int], None],
        follow: FollowMessage,
        trace: Recorder | None,
    ) -> None:
        self._messages = messages
        self._any_source = any_source
        self._check_member_rank = check_member
        self._follow_message = follow
        self._message_trace = trace

    def isend(self, array: Array, to: int, tag: int = 0) -> Work[None]:
        """Start a :meth:`send`."""
        self._check_peer(to)
        operation, completion, what = self._messages.send(array, to, tag, self.timeout_s)
        if self._message_trace is not None and completion is self._collector:
            self._message_trace.begin(operation, what, "message", bytes=array.nbytes)
        return self._follow_message(operation, what, None, lambda: None, completion)

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send ``array`` to rank ``to``; returns when it is buffered and may be changed."""
        self.isend(array, to, tag).wait_or_cancel()

    def fail_send(self, to: int, tag: int, error: BaseException) -> None:
        """In place of a :meth:`send` that cannot be made: the receive of it raises ``error``."""
        self._check_peer(to)
        self._messages.fail(to, tag, error)

    def skip_recv(self, source: int, tag: int) -> None:
        """In place of a :meth:`recv` that cannot be made: drops the message that is its."""
        self._check_peer(source)
        if not self._any_source.knows(tag):
            self._messages.confirm(source, tag, self._messages.next_incoming(source, tag))

    def irecv(
        self, array: Array, source: int, tag: int = 0, *, timeout_s: float | None = None
    ) -> Work[Array]:
        """Start a :meth:`recv`; its deadline is by default that of the group's operations."""
        self._check_peer(source)
        if self._any_source.knows(tag):
            output = Output(array)
            return self._posted(output, source, tag, output.finish, timeout_s)[1]
        seq = self._messages.next_incoming(source, tag)
        try:
            output = Output(array)
            limit_s = timeout_or(timeout_s, self.timeout_s)
            receipt = self._messages.receive(output.memory, source, tag, seq, limit_s)
        except BaseException:
            self._messages.confirm(source, tag, seq)  # its message is not for the next receive
            raise

        def finish() -> Array:
            receipt.confirm()
            return output.finish()

        return self._follow_message(
            receipt.operation, receipt.what, None, finish, ended_without=receipt.ended_without
        )

    def recv(self, array: Array, source: int, tag: int = 0) -> Array:
        """Fill ``array`` with the next message of rank ``source`` with that tag; returns it."""
        return self.irecv(array, source, tag).wait_or_cancel()

    def irecv_any(self, array: Array, tag: int = 0) -> Work[int]:
        """Start a :meth:`recv_any`."""
        self._check_member_rank(self.rank)
        output = Output(array)

        def finish() -> int:
            output.finish()
            return receive.sender

        receive, work = self._posted(output, None, tag, finish)
        return work

    def recv_any(self, array: Array, tag: int = 0) -> int:
        """Fill ``array`` with the next message that any rank sends with that tag; its sender.

        Messages of one sender are taken in the order they were sent. Every rank is asked for its
        next message, and fetches go on for receives that follow: use a tag of its own for it.
        """
        return self.irecv_any(array, tag).wait_or_cancel()

    def _posted(
        self,
        output: Output,
        source: int | None,
        tag: int,
        finish: Callable[[], T],
        timeout_s: float | None = None,
    ) -> tuple[Receive, Work[T]]:
        what = describe_receipt(output.memory, "any rank" if source is None else source, tag)
        receive = self._any_source.post(
            output.memory, source, tag, timeout_or(timeout_s, self.timeout_s)
        )
        return receive, self._follow_message(0, what, None, finish, receive)

    def _check_peer(self, peer: int) -> None:
        self._check_member_rank(peer)
        if peer == self.rank:
            raise CollectiveError(f"rank {peer} cannot send messages to itself; copy the array")
