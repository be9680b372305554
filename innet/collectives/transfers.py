"""Named bytes under a group's names: published, fetched, dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.group import LazyList
from innet.collectives.runner import OperationRunner
from innet.errors import CollectiveError

Bytes = npt.NDArray[np.uint8]
Ended = Callable[[int, str], None]
"""Receives status and detail of an operation that has ended, on the collector's thread."""

_LONG_S = 3600.0


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

    def publish(self, kind: str, seq: int, content: Bytes, what: str) -> None:
        """Offer a copy of ``content``; it may change when this returns.

        Raises:
            CollectiveError: its name is too long.
        """
        operation = self.start_publishing(kind, seq, content, what)
        ended = self._collector.wait(operation, _LONG_S)
        if ended is None or ended[0] != _core.STATUS_DONE:
            detail = "the node does not answer" if ended is None else ended[1]
            raise CollectiveError(f"{what} cannot be published: {detail}")

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

    def close(self) -> None:
        """Stop publishing and fetching."""
        self._node.unregister_producer(str(self._own))
        self._node.abort(self._all, "the communicator is closed")

    def _segmentation(self, size_bytes: int) -> _core.Segmentation:
        return _core.Segmentation(1, size_bytes, self.segment_bytes)
