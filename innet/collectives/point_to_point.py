"""Messages between two ranks: the sender publishes for one receiver, who fetches.

A message is kept by the sender until the receiver has said that it has it, by publishing an empty
receipt; receipts are kept long enough for every message that can be under way.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.arrays import Array, as_input, byte_view, copied_type
from innet.collectives.failures import failure_for_others
from innet.collectives.group import Variant
from innet.collectives.lazy_list import LazyList
from innet.collectives.posted import Posted
from innet.collectives.work import Completion
from innet.errors import Cancelled

MESSAGES_IN_FLIGHT = 64
"""Messages from one rank to another with one tag that may wait for their receipt."""

LOST_MESSAGE = (_core.STATUS_MISMATCH, _core.STATUS_OVERFLOW, _core.STATUS_PEER_FAILED)
"""Ends of a receive that had its message: it does not fit, or its send failed."""

_RECEIPT_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class _QueuedSend:
    """A send that waits for room.

    Attributes:
        start: sends the message; the operation's number.
        posted: what its sender waits on.
    """

    start: Callable[[], int]
    posted: Posted


class Channel:
    """Numbers the messages of one direction between two ranks with one tag.

    Attributes:
        to: the receiver.
        tag: of the messages.
        next_seq: of the next message.
        unconfirmed: messages whose receipt has not come.
        queue: sends that wait for room, and causes of sends that failed behind these.
        lock: guards all of these.
    """

    def __init__(self, to: int, tag: int) -> None:
        self.to = to
        self.tag = tag
        self.next_seq = 0
        self.unconfirmed: set[int] = set()
        self.queue: deque[_QueuedSend | BaseException] = deque()
        self.lock = threading.RLock()

    def take(self) -> int:
        """The number of a message that goes on its way."""
        seq = self.next_seq
        self.next_seq += 1
        self.unconfirmed.add(seq)
        return seq

    @property
    def has_room(self) -> bool:
        """Whether another message may go on its way."""
        return len(self.unconfirmed) < MESSAGES_IN_FLIGHT


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receive under way.

    Attributes:
        operation: the fetch.
        what: for people.
        confirm: to be called when the message has come, or never will.
        give_back: to be called when the fetch ended without it, and it may yet come.
    """

    operation: int
    what: str
    confirm: Callable[[], None]
    give_back: Callable[[], None]

    def ended_without(self, status: int) -> None:
        """The fetch ended with ``status``, without the message."""
        if status in (_core.STATUS_DEADLINE_EXCEEDED, _core.STATUS_CANCELLED):
            self.give_back()
        elif status in LOST_MESSAGE:
            self.confirm()


class _Incoming:
    """Numbers the messages that are received of one rank with one tag."""

    def __init__(self) -> None:
        self._next = 0
        self._given_back: list[int] = []

    def take(self) -> int:
        """The number of the oldest message that no receive has, or waits for."""
        if self._given_back:
            return heapq.heappop(self._given_back)
        self._next += 1
        return self._next - 1

    def give_back(self, seq: int) -> None:
        """The receive that took the number ended without its message."""
        heapq.heappush(self._given_back, seq)


class PointToPoint:
    """``send`` and ``recv`` of one communicator.

    Rank s publishes message n for rank r under ``<group>/p2p/<s>/<type>/<r>/<tag>/seq=<n>``, and r
    the receipt of it under ``<group>/p2p/<r>/receipt/<s>/<tag>/seq=<n>``.
    """

    def __init__(
        self,
        node: _core.NodeHandle,
        collector: Completion,
        variant: Variant,
        rank: int,
        segment_bytes: int,
    ) -> None:
        self._node = node
        self._collector = collector
        self._rank = rank
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._outgoing: dict[tuple[int, int], Channel] = {}
        self._incoming: dict[tuple[int, int], _Incoming] = {}
        self._all = f"{variant.prefix}/p2p"
        self._nodes = variant.nodes
        self._targets: Sequence[_core.Targets] = LazyList(len(variant.nodes), self._target)
        own = f"{self._all}/{rank}"
        self._own = _core.Name(own)
        node.register_producer(own, str(rank))

    def _target(self, peer: int) -> _core.Targets:
        return _core.Targets([(f"{self._all}/{peer}", f"/n/{self._nodes[peer]}", False)])

    def send(
        self, array: Array, to: int, tag: int, timeout_s: float
    ) -> tuple[int, Completion, str]:
        """Offer ``array`` to rank ``to``: the operation, where it ends, and what it is for people.

        The operation ends when the message is buffered: the array may then be changed. It waits,
        up to ``timeout_s``, while too many messages before it have not been received.

        The receive that belongs to a send that fails ends with an error that says so: it would
        take the next message for this one.
        """
        channel = self._channel(to, tag)
        try:
            contribution = as_input(array)
            type_name = copied_type(array)
            what = f"send({type_name}, shape {tuple(array.shape)}, to={to}, tag={tag})"
            kind = _core.Name(f"/{type_name}/{to}/{tag}")
        except BaseException as error:
            self.fail(to, tag, error)
            raise

        def start() -> int:
            seq = channel.take()
            try:
                segmentation = _core.Segmentation(1, array.nbytes, self._segment_bytes)
                publication = self._publication(
                    kind, seq, byte_view(contribution), segmentation, array.size, what
                )
                operation = self._node.submit(publication, [], timeout_s=timeout_s)
            except BaseException as error:
                self._fail(channel, seq, error)
                raise
            self._await_receipt(channel, seq, kind)
            return operation

        with channel.lock:
            if channel.has_room and not channel.queue:
                return start(), self._collector, what
            posted = Posted(
                timeout_s,
                f"{MESSAGES_IN_FLIGHT} messages to rank {to} with tag {tag} waited to be received "
                f"for {timeout_s:g} s before this one; does rank {to} call recv()?",
            )
            channel.queue.append(_QueuedSend(start, posted))
        return 0, posted, what

    def fail(self, to: int, tag: int, error: BaseException) -> None:
        """Take the place of a message to rank ``to`` that failed; its receive ends with why."""
        channel = self._channel(to, tag)
        with channel.lock:
            channel.queue.append(error)
            self._start_waiting(channel)

    def _channel(self, to: int, tag: int) -> Channel:
        with self._lock:
            return self._outgoing.setdefault((to, tag), Channel(to, tag))

    def _start_waiting(self, channel: Channel) -> None:
        while channel.queue and channel.has_room:
            queued = channel.queue.popleft()
            if isinstance(queued, BaseException):
                self._fail(channel, channel.take(), queued)
            elif queued.posted.done(0):
                self._fail(channel, channel.take(), Cancelled("given up before it had room"))
            else:
                self._collector.deliver(queued.start(), queued.posted.end)

    def _fail(self, channel: Channel, seq: int, cause: BaseException) -> None:
        """Publish the failure of a send in place of its message, whose type may be the cause."""
        me = f"rank {self._rank} ({self._nodes[self._rank]})"
        status, why = failure_for_others(me, f"send(to={channel.to}, tag={channel.tag})", cause)
        suffix = f"/{channel.to}/{channel.tag}"
        self._node.fail_message(self._own, _core.Name(suffix), seq, status, why)
        self._await_receipt(channel, seq, _core.Name(f"/failed{suffix}"))

    def receive(self, memory: Array, source: int, tag: int, seq: int, timeout_s: float) -> Receipt:
        """Fetch message ``seq`` of rank ``source``."""
        what = describe_receipt(memory, source, tag)
        operation = self.fetch(memory, source, tag, seq, timeout_s)
        return Receipt(
            operation,
            what,
            lambda: self.confirm(source, tag, seq),
            lambda: self.give_back(source, tag, seq),
        )

    def next_incoming(self, source: int, tag: int) -> int:
        """The number of the next message of ``source`` with that tag; it counts on from there."""
        with self._lock:
            return self._incoming.setdefault((source, tag), _Incoming()).take()

    def give_back(self, source: int, tag: int, seq: int) -> None:
        """Message ``seq`` was not received: the next receive is to wait for it."""
        with self._lock:
            self._incoming[source, tag].give_back(seq)

    def fetch(self, memory: Array, source: int, tag: int, seq: int, timeout_s: float) -> int:
        """Fetch message ``seq`` of rank ``source`` with that tag; the operation's number."""
        segmentation = _core.Segmentation(1, memory.nbytes, self._segment_bytes)
        fetch = _core.Fetch(
            self._targets[source],
            _core.Name(f"/{copied_type(memory)}/{self._rank}/{tag}"),
            seq,
            segmentation,
            0,
            segmentation.segments,
            memory.size,
            byte_view(memory),
        )
        return self._node.submit(None, [fetch], timeout_s=timeout_s)

    def close(self) -> None:
        """Offer no messages any more, and give up receipts that have not come."""
        self._node.unregister_producer(str(self._own))
        self._node.abort(str(self._all), "the communicator is closed")

    def _await_receipt(self, channel: Channel, seq: int, kind: _core.Name) -> None:
        segmentation = _core.Segmentation(1, 0, self._segment_bytes)
        fetch = _core.Fetch(
            self._targets[channel.to],
            _core.Name(f"/receipt/{self._rank}/{channel.tag}"),
            seq,
            segmentation,
            0,
            1,
            0,
            np.empty(0, np.uint8),
        )
        operation = self._node.submit(None, [fetch], timeout_s=_RECEIPT_TIMEOUT_S)

        def confirmed(status: int, detail: str) -> None:
            refused: list[Posted] = []
            with channel.lock:
                channel.unconfirmed.discard(seq)
                oldest = min(channel.unconfirmed, default=channel.next_seq)
                if status == _core.STATUS_ABORTED:  # nobody receives any more
                    refused = [
                        queued.posted for queued in channel.queue if isinstance(queued, _QueuedSend)
                    ]
                    channel.queue.clear()
                else:
                    self._start_waiting(channel)
            for posted in refused:
                posted.end(status, detail)
            if oldest > 0:
                self._node.retire(self._named(kind), oldest - 1)

        self._collector.deliver(operation, confirmed)

    def confirm(self, source: int, tag: int, seq: int) -> None:
        """Tell rank ``source`` that its message ``seq`` has come and need not be kept."""
        kind = _core.Name(f"/receipt/{source}/{tag}")
        segmentation = _core.Segmentation(1, 0, self._segment_bytes)
        publication = self._publication(
            kind, seq, np.empty(0, np.uint8), segmentation, 0, f"receipt of message {seq}"
        )
        operation = self._node.submit(publication, [], timeout_s=_RECEIPT_TIMEOUT_S)
        self._collector.deliver(operation, lambda _status, _detail: None)
        # The sender has at most MESSAGES_IN_FLIGHT without a receipt, so older ones were received.
        if seq >= MESSAGES_IN_FLIGHT:
            self._node.retire(self._named(kind), seq - MESSAGES_IN_FLIGHT)

    def _named(self, kind: _core.Name) -> _core.Name:
        return _core.Name(f"{self._own}{kind}")

    def _publication(
        self,
        kind: _core.Name,
        seq: int,
        content: npt.NDArray[np.uint8],
        segmentation: _core.Segmentation,
        elements: int,
        what: str,
    ) -> _core.Publication:
        description = f"rank {self._rank}: {what}"
        return _core.Publication(
            self._own, kind, seq, content, segmentation, elements, description, exclusive=False
        )


def describe_receipt(memory: Array, source: int | str, tag: int) -> str:
    """``recv(f32, shape (4,), from=2, tag=0)``."""
    return f"recv({copied_type(memory)}, shape {tuple(memory.shape)}, from={source}, tag={tag})"
