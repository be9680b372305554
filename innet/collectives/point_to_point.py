"""Messages between two ranks: the sender publishes, the receiver fetches.

The sender keeps a message until the receiver has confirmed it by publishing an empty receipt;
receipts are kept long enough for every message that can be under way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from innet._native import _core
from innet.collectives.arrays import (
    Array,
    as_input,
    byte_view,
    copied_type,
    landing_bytes,
    shown_type,
)
from innet.collectives.completion import Completion, failure_for_others
from innet.collectives.operation import describe
from innet.collectives.runner import Call, OperationRunner
from innet.collectives.transfers import PeerFetch, Transfers
from innet.collectives.work import Deadline, Promise, Work
from innet.errors import Cancelled

_log = logging.getLogger(__name__)

MESSAGES_IN_FLIGHT = 64
"""Messages from one rank to another with one tag that are sent from the oldest without a receipt
on. So a receiver knows from each message which receipts its sender has."""

LOST_MESSAGE = (_core.STATUS_MISMATCH, _core.STATUS_OVERFLOW, _core.STATUS_PEER_FAILED)
"""Ends of a receive that had its message: it does not fit, or its send failed."""

_RECEIPT_TIMEOUT_S = 3600.0
_MOST_IDLE_TAGS = 256
_RECEIPTS_KEPT_S = 10.0
"""Receipts of one tag go when it was used longer ago than this, and so many tags since. A sender
that a broken path kept from them meanwhile keeps these messages until its receipts time out."""


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedSend:
    """A send that waits until earlier messages are confirmed.

    Attributes:
        start: sends the message; the operation's number.
        work: ends when the message is buffered, or is given up.
    """

    start: Callable[[], int]
    work: Promise[None]


class _Channel:
    """The messages of one direction between two ranks with one tag.

    Attributes:
        to: the receiver.
        tag: of the messages.
        next_seq: number of the next message.
        unconfirmed: messages whose receipt has not arrived.
        queue: sends that wait until earlier messages are confirmed, and the errors of sends that
            failed behind these.
    """

    def __init__(self, to: int, tag: int, next_seq: int) -> None:
        self.to = to
        self.tag = tag
        self.next_seq = next_seq
        self.unconfirmed: set[int] = set()
        self.queue: deque[_QueuedSend | BaseException] = deque()

    def take(self) -> int:
        """The number of a message that is sent now."""
        seq = self.next_seq
        self.next_seq += 1
        self.unconfirmed.add(seq)
        return seq

    @property
    def has_room(self) -> bool:
        """Whether another message may be sent."""
        return self.next_seq - self.oldest_unconfirmed < MESSAGES_IN_FLIGHT

    @property
    def oldest_unconfirmed(self) -> int:
        """The lowest number that has no receipt, or will be given next."""
        return min(self.unconfirmed, default=self.next_seq)

    @property
    def is_idle(self) -> bool:
        """Whether nothing but the next number is left of it."""
        return not self.unconfirmed and not self.queue


class _Incoming:
    """The messages of one sender: their numbers, and the receipts that it may still lack.

    A sender sends message n when it has the receipts up to n - :data:`MESSAGES_IN_FLIGHT`. Programs
    may use ever new tags: of an idle one, its next number is kept alone.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._open: dict[int, set[int]] = {}
        """By tag, numbers below the next without a receipt; a receive may wait for them."""
        self._given_back: dict[int, set[int]] = {}
        """By tag, the open numbers that no receive waits for."""
        self._latest: dict[int, tuple[float, int]] = {}
        """By tag, its last use and its highest confirmed number; the latest tag is last."""

    def take(self, tag: int) -> int:
        """The number of the oldest message with that tag that no receive has, or waits for."""
        given_back = self._given_back.get(tag)
        if given_back:
            seq = min(given_back)
            _discard(self._given_back, tag, seq)
            return seq
        seq = self._next.get(tag, 0)
        self._next[tag] = seq + 1
        self._open.setdefault(tag, set()).add(seq)
        return seq

    def give_back(self, tag: int, seq: int) -> None:
        """Let the next receive take message ``seq``, which was not received."""
        given_back = self._given_back.setdefault(tag, set())
        given_back.add(seq)
        while (last := self._next[tag] - 1) in given_back:
            self._next[tag] = last
            self.close(tag, last)
            _discard(self._given_back, tag, last)
        if not self._next[tag]:
            del self._next[tag]

    def close(self, tag: int, seq: int) -> None:
        """No receive will take message ``seq`` any more."""
        _discard(self._open, tag, seq)

    def confirm(self, tag: int, seq: int, now_s: float) -> list[tuple[int, int]]:
        """Note a new receipt; the tags whose receipts may go, each up to a number."""
        self.close(tag, seq)
        _, highest = self._latest.pop(tag, (now_s, seq))
        self._latest[tag] = now_s, max(highest, seq)
        useless = [(tag, seq - MESSAGES_IN_FLIGHT)] if seq >= MESSAGES_IN_FLIGHT else []
        while len(self._latest) > _MOST_IDLE_TAGS:
            oldest = next(iter(self._latest))
            used_s, highest = self._latest[oldest]
            if used_s + _RECEIPTS_KEPT_S > now_s:
                break
            del self._latest[oldest]
            if oldest in self._open:  # a retired number could not be published for it any more
                self._latest[oldest] = now_s, highest
                break
            useless.append((oldest, highest))
        return useless


def _discard(numbers: dict[int, set[int]], tag: int, seq: int) -> None:
    """Remove a number, and its tag with the last of them."""
    of_tag = numbers.get(tag)
    if of_tag is not None:
        of_tag.discard(seq)
        if not of_tag:
            del numbers[tag]


class PointToPoint:
    """``send`` and ``recv`` of one communicator.

    Rank s publishes message n for rank r under ``<group>/p2p/<s>/<type>/<r>/<tag>/seq=<n>``, and r
    the receipt of it under ``<group>/p2p/<r>/receipt/of-<s>/<tag>/seq=<n>``. Names that differ in
    the type alone exclude each other: a receive of another type than the message's ends at once.
    """

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner
        self._collector = runner.collector
        self._rank = runner.rank
        self._transfers = Transfers(runner, "p2p")
        self._lock = threading.RLock()
        """Guards what follows, and the channels."""
        # By peer and tag. Programs may use ever new tags: a number is kept of each, and no more.
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._next_sent: dict[tuple[int, int], int] = {}
        self._incoming: defaultdict[int, _Incoming] = defaultdict(_Incoming)

    def send(self, array: Array, to: int, tag: int) -> Work[None]:
        """Offer ``array`` to rank ``to``; ends when it is buffered: it may then be changed.

        The send waits, up to the communicator's timeout, while too many messages before it have not
        been received.

        The receive that belongs to a send that fails ends with an error that says so: it would
        take the next message for this one.
        """
        timeout_s = self._runner.timeout_s
        try:
            contribution = as_input(array)
            type_name = copied_type(array)
            what = describe("send", shown_type(array.dtype), array, to=to, tag=tag)
            kind = f"/{type_name}/{to}/{tag}"
        except BaseException as error:
            self.fail(to, tag, error)
            raise

        def start(channel: _Channel) -> int:
            seq = channel.take()
            try:
                operation = self._transfers.start_publishing(
                    kind,
                    seq,
                    byte_view(contribution),
                    what,
                    elements=array.size,
                    timeout_s=timeout_s,
                )
            except BaseException as error:
                self._fail(channel, seq, error)
                raise
            self._await_receipt(channel, seq, kind)
            return operation

        call = Call(what, _nothing)
        with self._lock:
            channel = self._channel(to, tag)
            if channel.queue or not channel.has_room:
                return self._enqueue(channel, partial(start, channel), call, timeout_s)
            operation = start(channel)
        if self._runner.trace is not None:
            self._runner.trace.begin(operation, what, "message", bytes=array.nbytes)
        return self._runner.work(operation, call)

    def _enqueue(
        self, channel: _Channel, start: Callable[[], int], call: Call[None], timeout_s: float
    ) -> Work[None]:
        """Send once enough earlier messages are confirmed."""
        overdue = Completion(
            _core.STATUS_DEADLINE_EXCEEDED,
            f"{MESSAGES_IN_FLIGHT} messages to rank {channel.to} with tag {channel.tag} waited to "
            f"be received for {timeout_s:g} s before this one; does rank {channel.to} call recv()?",
        )
        cancelled = Completion(_core.STATUS_CANCELLED, "given up")

        def give_up(completion: Completion) -> None:
            self._give_up(channel, queued, completion)

        deadline = Deadline(time.monotonic() + timeout_s, partial(give_up, overdue))
        queued = _QueuedSend(start, self._runner.promise(call, deadline))
        queued.work.cancel_with(partial(give_up, cancelled))
        channel.queue.append(queued)
        return queued.work

    def _give_up(self, channel: _Channel, queued: _QueuedSend, completion: Completion) -> None:
        """End a send that is still queued; a failure takes its place among the messages."""
        with self._lock:
            if queued not in channel.queue:
                return
            place = channel.queue.index(queued)
            channel.queue[place] = Cancelled("given up before it was sent")
        queued.work.end(completion)

    def fail(self, to: int, tag: int, error: BaseException) -> None:
        """Send ``error`` in place of a message to rank ``to``; its receive raises it."""
        with self._lock:
            channel = self._channel(to, tag)
            channel.queue.append(error)
            self._start_waiting(channel)

    def _channel(self, to: int, tag: int) -> _Channel:
        key = to, tag
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel(to, tag, self._next_sent.pop(key, 0))
        return channel

    def _drop_if_idle(self, channel: _Channel) -> None:
        key = channel.to, channel.tag
        if channel.is_idle and self._channels.get(key) is channel:
            del self._channels[key]
            self._next_sent[key] = channel.next_seq

    def _start_waiting(self, channel: _Channel) -> None:
        while channel.queue and channel.has_room:
            queued = channel.queue.popleft()
            if isinstance(queued, BaseException):
                self._fail(channel, channel.take(), queued)
            else:
                self._start_queued(queued)

    def _start_queued(self, queued: _QueuedSend) -> None:
        def on_end(status: int, detail: str) -> None:
            queued.work.end(Completion.of_node(status, detail))

        try:
            self._collector.deliver(queued.start(), on_end)
        except Exception as error:
            queued.work.fail(error)

    def _fail(self, channel: _Channel, seq: int, cause: BaseException) -> None:
        """Publish the failure of a send in place of its message, whose type may be the cause."""
        call = f"send(to={channel.to}, tag={channel.tag})"
        status, why = failure_for_others(self._runner.name, call, cause)
        suffix = f"/{channel.to}/{channel.tag}"
        self._transfers.fail(suffix, seq, status, why)
        self._await_receipt(channel, seq, f"/failed{suffix}")

    def next_incoming(self, source: int, tag: int) -> int:
        """Take the number of the oldest message with that tag that no receive has, or waits for."""
        with self._lock:
            return self._incoming[source].take(tag)

    def give_back(self, source: int, tag: int, seq: int) -> None:
        """Let the next receive take message ``seq``, which was not received."""
        with self._lock:
            self._incoming[source].give_back(tag, seq)

    def fetch(self, memory: Array, source: int, tag: int, seq: int, timeout_s: float) -> int:
        """Fetch message ``seq`` of rank ``source`` with that tag; the operation's number."""
        kind = f"/{copied_type(memory)}/{self._rank}/{tag}"
        fetch = PeerFetch(source, kind, seq, landing_bytes(memory), timeout_s, elements=memory.size)
        return self._transfers.start_fetching(fetch)

    def refuse(self, why: str) -> None:
        """Send no more: receives of messages that were not sent end with an error."""
        self._transfers.refuse(why)

    def close(self) -> None:
        """Stop offering messages, and cancel waiting for receipts."""
        self._transfers.close()

    def _await_receipt(self, channel: _Channel, seq: int, kind: str) -> None:
        def confirmed(status: int, detail: str) -> None:
            if status == _core.STATUS_MISMATCH:  # its send has ended: it was buffered
                _log.warning(
                    "the message from rank %d to rank %d with tag %d was not delivered, because "
                    "%s; send and receive the same type and number of elements",
                    self._rank,
                    channel.to,
                    channel.tag,
                    detail,
                )
            refused: list[_QueuedSend] = []
            with self._lock:
                channel.unconfirmed.discard(seq)
                oldest = channel.oldest_unconfirmed
                if status == _core.STATUS_ABORTED:  # the receiver has left
                    refused = [
                        queued for queued in channel.queue if isinstance(queued, _QueuedSend)
                    ]
                    channel.queue.clear()
                else:
                    self._start_waiting(channel)
                self._drop_if_idle(channel)
            for queued in refused:
                queued.work.end(Completion.of_node(status, detail))
            if oldest > 0:
                self._transfers.retire(kind, oldest - 1)

        receipt = _receipt(self._rank, channel.tag)
        nothing = np.empty(0, np.uint8)
        fetch = PeerFetch(channel.to, receipt, seq, nothing, _RECEIPT_TIMEOUT_S)
        self._transfers.fetch(fetch, confirmed)

    def confirm(self, source: int, tag: int, seq: int) -> None:
        """Let rank ``source`` drop its message ``seq``, which has arrived."""
        kind = _receipt(source, tag)
        operation = self._transfers.start_publishing(
            kind, seq, np.empty(0, np.uint8), f"receipt of message {seq}"
        )
        self._collector.deliver(operation, lambda _status, _detail: None)
        with self._lock:
            useless = self._incoming[source].confirm(tag, seq, self._runner.services.now_s())
        for old_tag, last in useless:
            self._transfers.retire(_receipt(source, old_tag), last)

    def drop(self, source: int, tag: int, seq: int, status: int, receive: str) -> None:
        """Let rank ``source`` drop its message ``seq``, which ended ``receive`` with an error."""
        if status == _core.STATUS_MISMATCH:
            why = f"{self._runner.name} called {receive}"
            self._transfers.fail(f"/{_receiver_part(source)}/{tag}", seq, status, why)
            with self._lock:
                self._incoming[source].close(tag, seq)
        else:
            self.confirm(source, tag, seq)


def _receiver_part(source: int) -> str:
    """Name component of receipts for ``source``; messages have their receiver's number there."""
    return f"of-{source}"


def _receipt(source: int, tag: int) -> str:
    """The kind of the receipts of messages from ``source``."""
    return f"/receipt/{_receiver_part(source)}/{tag}"


def _nothing() -> None:
    """The result of a send."""


def describe_receipt(memory: Array, source: int | str, tag: int) -> str:
    """``recv(f32, shape (4,), from=2, tag=0)``."""
    return (
        f"recv({shown_type(memory.dtype)}, shape {tuple(memory.shape)}, from={source}, tag={tag})"
    )
