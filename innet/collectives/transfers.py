"""Named bytes under a group's names: published, fetched, dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Bytes
from innet.collectives.group import LazyList
from innet.collectives.runner import OperationRunner
from innet.errors import CollectiveError
from innet.worker.background import Alarm, Background

Ended = Callable[[int, str], None]
"""Receives status and detail of an operation that has ended, on the collector's thread."""

_LONG_S = 3600.0
_ASK_AGAIN_S = 0.1
"""Pause before another request to a rank that could not be reached."""


@dataclass(frozen=True, slots=True)
class PeerFetch:
    """A fetch of bytes that a peer publishes.

    Attributes:
        peer: the rank that publishes them.
        kind: components of their name, such as ``/ready``.
        seq: their number.
        into: filled with whole segments from ``first_segment`` on.
        timeout_s: of the fetch.
        size_bytes: of all that was published; by default of ``into``.
        elements: of all that was published; by default its bytes.
        first_segment: where ``into`` begins.
        what: for the timeline of a traced job.
    """

    peer: int
    kind: str
    seq: int
    into: Bytes
    timeout_s: float
    size_bytes: int | None = None
    elements: int | None = None
    first_segment: int = 0
    what: str = ""


class Transfers:
    """Publishes for one rank under ``<prefix>/<rank>``, and fetches what its peers publish."""

    def __init__(self, runner: OperationRunner, namespace: str) -> None:
        """``namespace`` is the component of names after the group's prefix, such as ``arrays``."""
        self._node = runner.node
        self._collector = runner.collector
        self._trace = runner.trace
        self._rank = runner.rank
        prefix = f"{runner.variants.first.prefix}/{namespace}"
        self._all = prefix
        self._own = _core.Name(f"{prefix}/{runner.rank}")

        def target(peer: int) -> _core.Targets:
            return _core.Targets([(f"{prefix}/{peer}", f"/n/{runner.nodes[peer]}", False)])

        self._peers: Sequence[_core.Targets] = LazyList(runner.size, target)
        self.segment_bytes = runner.segment_bytes
        self._node.register_producer(str(self._own), runner.label)

    def publish(
        self, kind: str, seq: int, content: Bytes, what: str, *, kept: int | None = None
    ) -> None:
        """Offer a copy of ``content``; it may change when this returns.

        Args:
            kind: components of its name.
            seq: its number.
            content: what peers fetch.
            what: for people.
            kept: drop what was published as ``kind``, but for so many numbers before this one.

        Raises:
            CollectiveError: its name is too long.
        """
        operation = self.start_publishing(kind, seq, content, what)
        ended = self._collector.wait(operation, _LONG_S)
        if ended is None or ended[0] != _core.STATUS_DONE:
            detail = "the node does not answer" if ended is None else ended[1]
            raise CollectiveError(f"{what} cannot be published: {detail}")
        if kept is not None and seq >= kept:
            self.retire(kind, seq - kept)

    def start_publishing(
        self,
        kind: str,
        seq: int,
        content: Bytes,
        what: str,
        *,
        elements: int | None = None,
        timeout_s: float = _LONG_S,
    ) -> int:
        """Start to offer a copy of ``content``; the operation's number.

        ``elements`` is their number where they are not bytes.
        """
        publication = _core.PublicationSpec(
            self._own,
            _core.Name(kind),
            seq,
            content,
            self._segmentation(content.size),
            content.size if elements is None else elements,
            f"rank {self._rank}: {what}",
            exclusive=False,
        )
        return int(self._node.submit(publication, [], timeout_s=timeout_s))

    def fail(self, suffix: str, seq: int, status: int, why: str) -> None:
        """Publish a failure in place of a message, whose name ends with ``suffix`` and ``seq``."""
        self._node.fail_message(self._own, _core.Name(suffix), seq, status, why)

    def retire(self, kind: str, seq: int) -> None:
        """Drop what was published as ``kind`` up to ``seq``."""
        self._node.retire(_core.Name(f"{self._own}{kind}"), seq)

    def fetch(
        self, fetch: PeerFetch, ended: Ended, started: Callable[[int], None] | None = None
    ) -> int:
        """Start a fetch; the operation's number.

        Args:
            fetch: what to fetch.
            ended: receives the completion, perhaps before this returns.
            started: receives the operation's number before ``ended`` can be called.
        """
        operation = self.start_fetching(fetch)
        if started is not None:
            started(operation)
        self._collector.deliver(operation, ended)
        return operation

    def start_fetching(self, fetch: PeerFetch) -> int:
        """Start a fetch whose completion the caller takes; the operation's number."""
        size_bytes = fetch.into.size if fetch.size_bytes is None else fetch.size_bytes
        segments = max(1, -(-fetch.into.size // self.segment_bytes))
        wanted = _core.FetchSpec(
            self._peers[fetch.peer],
            _core.Name(fetch.kind),
            fetch.seq,
            self._segmentation(size_bytes),
            fetch.first_segment,
            fetch.first_segment + segments,
            size_bytes if fetch.elements is None else fetch.elements,
            fetch.into,
        )
        operation = self._node.submit(None, [wanted], timeout_s=fetch.timeout_s)
        if self._trace is not None and fetch.what:
            self._trace.begin(operation, fetch.what, "one-sided", bytes=fetch.into.size)
        return int(operation)

    def cancel(self, operation: int) -> None:
        """Cancel a fetch."""
        self._collector.cancel(operation)

    def refuse(self, why: str) -> None:
        """Publish no more: requests for what has not been published end with an error."""
        self._node.end_producer(self._own, None, why)

    def close(self) -> None:
        """Stop publishing and fetching."""
        self._node.unregister_producer(str(self._own))
        self._node.abort(self._all, "the communicator is closed")

    def _segmentation(self, size_bytes: int) -> _core.Segmentation:
        return _core.Segmentation(1, size_bytes, self.segment_bytes)


OnRecord = Callable[[int, int, Bytes], None]
"""Receives a peer, the number of its record, and the record."""
OnLeft = Callable[[int], None]
"""Receives a peer that publishes no more records."""
OnMismatch = Callable[[int, int, str], None]
"""Receives a peer, the number of a record of another size, and the cause, for people."""


class Inbox:
    """Receives the records that every peer publishes for this rank, one number after the other.

    An Interest for one record of each peer waits at that peer. All methods but :meth:`close` are
    called in the background, and so are the callbacks, which listen for the next record.
    """

    def __init__(
        self,
        transfers: Transfers,
        background: Background,
        now_s: Callable[[], float],
        kind: str,
        record_bytes: int,
    ) -> None:
        """``now_s`` is the clock of ``background``; all records of ``kind`` have one size."""
        self._transfers = transfers
        self._background = background
        self._now_s = now_s
        self._kind = kind
        self._record_bytes = record_bytes
        self._alarm = Alarm(background, self._ask_again)
        self._awaited: dict[int, tuple[int, int]] = {}
        """The number of the awaited record of each peer, and the operation that fetches it."""
        self._unreachable: set[int] = set()

    def open(
        self,
        peers: int,
        on_record: OnRecord,
        on_mismatch: OnMismatch | None = None,
        on_left: OnLeft = lambda _peer: None,
    ) -> None:
        """Await the first record of each of ``peers`` ranks.

        Without ``on_mismatch``, the request to a peer whose record has another size is repeated.
        """
        self._on_record = on_record
        self._on_mismatch = on_mismatch
        self._on_left = on_left
        for peer in range(peers):
            self.listen(peer, 0)

    @property
    def awaited(self) -> dict[int, int]:
        """The number of the awaited record, by peer."""
        return {peer: number for peer, (number, _) in self._awaited.items()}

    def listen(self, peer: int, number: int) -> None:
        """Await record ``number`` of ``peer``, whose last one has arrived."""
        self._unreachable.discard(peer)
        record = np.zeros(self._record_bytes, np.uint8)

        def ended(status: int, detail: str) -> None:
            if status != _core.STATUS_CANCELLED:
                self._background.post(lambda: self._on_end(peer, number, status, detail, record))

        fetch = PeerFetch(peer, self._kind, number, record, _LONG_S)
        self._awaited[peer] = number, self._transfers.fetch(fetch, ended)

    def skip_to(self, peer: int, number: int) -> None:
        """Await record ``number`` of ``peer`` in place of an earlier one."""
        self._transfers.cancel(self._awaited[peer][1])
        self.listen(peer, number)

    def close(self) -> None:
        """Await no records any more; the background is closed."""
        for _, operation in self._awaited.values():
            self._transfers.cancel(operation)

    def _on_end(self, peer: int, number: int, status: int, detail: str, record: Bytes) -> None:
        if self._awaited[peer][0] != number:
            return  # skipped meanwhile
        if status == _core.STATUS_DONE:
            self._on_record(peer, number, record)
        elif status == _core.STATUS_MISMATCH and self._on_mismatch is not None:
            self._on_mismatch(peer, number, detail)
        elif status == _core.STATUS_ABORTED:
            self._on_left(peer)
        elif status == _core.STATUS_DEADLINE_EXCEEDED:
            self.listen(peer, number)
        else:
            self._unreachable.add(peer)
            self._alarm.set(self._now_s() + _ASK_AGAIN_S)

    def _ask_again(self) -> None:
        for peer in sorted(self._unreachable):
            self.listen(peer, self._awaited[peer][0])
