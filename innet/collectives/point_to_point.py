"""Messages between two ranks: the sender publishes for one receiver, who fetches.

A message is kept by the sender until the receiver has said that it has it, by publishing an empty
receipt; receipts are kept long enough for every message that can be under way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from innet._native import _core
from innet.collectives.arrays import Array, Output, as_input, byte_view, copied_type
from innet.collectives.collector import Collector
from innet.collectives.group import Variant
from innet.errors import CollectiveError

MESSAGES_IN_FLIGHT = 64
"""Messages from one rank to another with one tag that may wait for their receipt."""

_EMPTY = memoryview(b"")
_RECEIPT_TIMEOUT_S = 3600.0


class Channel:
    """Numbers the messages of one direction between two ranks with one tag."""

    def __init__(self) -> None:
        self.next_seq = 0
        self.unconfirmed: deque[int] = deque()
        self.room = threading.Condition()


class PointToPoint:
    """``send`` and ``recv`` of one communicator."""

    def __init__(
        self, node: _core.Node, collector: Collector, variant: Variant, rank: int, segment_bytes: int
    ) -> None:
        self._node = node
        self._collector = collector
        self._rank = rank
        self._segment_bytes = segment_bytes
        self._base = variant.prefix
        self._plan_ranks = variant.plan.ranks
        self._lock = threading.Lock()
        self._outgoing: dict[tuple[int, int], Channel] = {}
        self._incoming: dict[tuple[int, int], int] = {}
        self._producers: set[str] = set()

    def send(self, array: Array, to: int, tag: int, timeout_s: float) -> tuple[int, str]:
        """Offer ``array`` to rank ``to``; the operation's number, and what it is for people.

        The operation ends when the message is buffered: the array may then be changed.

        Raises:
            CollectiveError: too many messages wait for that receiver.
        """
        contribution = as_input(array)
        kind = f"p2p.{copied_type(array)}"
        channel, seq = self._next_outgoing(to, tag, timeout_s)
        what = f"send({kind}, shape {tuple(array.shape)}, to={to}, tag={tag})"
        prefix = self._producer(self._rank, to, tag)
        segmentation = _core.Segmentation(1, array.nbytes, self._segment_bytes)
        publication = _core.Publication(
            prefix,
            _core.Name(f"/{kind}"),
            seq,
            byte_view(contribution),
            segmentation,
            array.size,
            f"rank {self._rank}: {what}",
        )
        operation = self._node.submit(publication, [], timeout_s=timeout_s)
        self._await_receipt(to, tag, seq, channel, prefix)
        return operation, what

    def receive(
        self, into: Output, source: int, tag: int, timeout_s: float
    ) -> tuple[int, str, Callable[[], None]]:
        """Fetch the next message of rank ``source``; the last value confirms it once it is there."""
        memory = into.memory
        kind = f"p2p.{copied_type(memory)}"
        with self._lock:
            seq = self._incoming.get((source, tag), 0)
            self._incoming[source, tag] = seq + 1
        what = f"recv({kind}, shape {tuple(memory.shape)}, from={source}, tag={tag})"
        targets = self._targets(source, self._path(source, self._rank, tag))
        segmentation = _core.Segmentation(1, memory.nbytes, self._segment_bytes)
        fetch = _core.Fetch(
            targets,
            _core.Name(f"/{kind}"),
            seq,
            segmentation,
            0,
            segmentation.segments,
            memory.size,
            byte_view(memory),
        )
        operation = self._node.submit(None, [fetch], timeout_s=timeout_s)
        return operation, what, lambda: self._publish_receipt(source, tag, seq)

    def _next_outgoing(self, to: int, tag: int, timeout_s: float) -> tuple[Channel, int]:
        with self._lock:
            channel = self._outgoing.setdefault((to, tag), Channel())
        with channel.room:
            free = channel.room.wait_for(
                lambda: len(channel.unconfirmed) < MESSAGES_IN_FLIGHT, timeout_s
            )
            if not free:
                raise CollectiveError(
                    f"{MESSAGES_IN_FLIGHT} messages to rank {to} with tag {tag} wait to be received "
                    f"for {timeout_s:g} s; does rank {to} call recv()?"
                )
            seq = channel.next_seq
            channel.next_seq += 1
            channel.unconfirmed.append(seq)
            return channel, seq

    def _await_receipt(
        self, to: int, tag: int, seq: int, channel: Channel, prefix: _core.Name
    ) -> None:
        targets = self._targets(to, self._receipt_path(self._rank, to, tag))
        segmentation = _core.Segmentation(1, 0, self._segment_bytes)
        fetch = _core.Fetch(
            targets, _core.Name("/receipt"), seq, segmentation, 0, 1, 0, bytearray(0)
        )
        operation = self._node.submit(None, [fetch], timeout_s=_RECEIPT_TIMEOUT_S)

        def confirmed(_status: int, _detail: str) -> None:
            with channel.room:
                channel.unconfirmed.remove(seq)
                oldest = channel.unconfirmed[0] if channel.unconfirmed else channel.next_seq
                channel.room.notify_all()
            if oldest > 0:
                self._node.retire(prefix, oldest - 1)

        self._collector.deliver(operation, confirmed)

    def _publish_receipt(self, source: int, tag: int, seq: int) -> None:
        path = self._receipt_path(source, self._rank, tag)
        prefix = self._register(path)
        segmentation = _core.Segmentation(1, 0, self._segment_bytes)
        publication = _core.Publication(
            prefix,
            _core.Name("/receipt"),
            seq,
            _EMPTY,
            segmentation,
            0,
            f"rank {self._rank}: receipt of message {seq} from {source}",
        )
        operation = self._node.submit(publication, [], timeout_s=_RECEIPT_TIMEOUT_S)
        self._collector.deliver(operation, lambda _status, _detail: None)
        if seq >= 2 * MESSAGES_IN_FLIGHT:
            self._node.retire(prefix, seq - 2 * MESSAGES_IN_FLIGHT)

    def _producer(self, source: int, to: int, tag: int) -> _core.Name:
        return self._register(self._path(source, to, tag))

    def _register(self, path: str) -> _core.Name:
        with self._lock:
            known = path in self._producers
            self._producers.add(path)
        if not known:
            self._node.register_producer(path, str(self._rank))
        return _core.Name(path)

    def _targets(self, peer: int, path: str) -> _core.Targets:
        return _core.Targets([(path, f"/n/{self._plan_ranks[peer]}", False)])

    def _path(self, source: int, to: int, tag: int) -> str:
        return f"{self._base}/{source}/to/{to}/{tag}"

    def _receipt_path(self, source: int, to: int, tag: int) -> str:
        return f"{self._base}/{to}/from/{source}/{tag}"
