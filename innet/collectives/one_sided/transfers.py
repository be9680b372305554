"""Named bytes under a group's names: published, fetched, dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.lazy_list import LazyList
from innet.collectives.work import Completion
from innet.errors import CollectiveError

if TYPE_CHECKING:
    from innet.telemetry.trace.recorder import Recorder

Bytes = npt.NDArray[np.uint8]
Ended = Callable[[int, str], None]
"""Takes the status and the detail of an operation that ended; on the collector's thread."""

_PUBLISH_TIMEOUT_S = 3600.0


class Transfers:
    """Publishes for one rank under ``<prefix>/<rank>``, and fetches what its peers publish."""

    def __init__(
        self,
        node: _core.NodeHandle,
        collector: Completion,
        trace: Recorder | None,
        prefix: str,
        nodes: Sequence[str],
        rank: int,
        segment_bytes: int,
    ) -> None:
        """``nodes`` is the node of each rank."""
        self._node = node
        self._collector = collector
        self._trace = trace
        self._rank = rank
        self._all = prefix
        self._own = _core.Name(f"{prefix}/{rank}")

        def target(peer: int) -> _core.Targets:
            return _core.Targets([(f"{prefix}/{peer}", f"/n/{nodes[peer]}", False)])

        self._peers: Sequence[_core.Targets] = LazyList(len(nodes), target)
        self.segment_bytes = segment_bytes
        node.register_producer(str(self._own), str(rank))

    def publish(self, kind: str, seq: int, content: Bytes, what: str) -> None:
        """Offer a copy of ``content``; it may change when this returns.

        Raises:
            CollectiveError: its name is too long.
        """
        operation = self._node.submit(
            _core.Publication(
                self._own,
                _core.Name(kind),
                seq,
                content,
                self._segmentation(content.size),
                content.size,
                f"rank {self._rank}: {what}",
                exclusive=False,
            ),
            [],
            timeout_s=_PUBLISH_TIMEOUT_S,
        )
        ended = self._collector.wait(operation, _PUBLISH_TIMEOUT_S)
        if ended is None or ended[0] != _core.STATUS_DONE:
            detail = "the node does not answer" if ended is None else ended[1]
            raise CollectiveError(f"{what} cannot be published: {detail}")

    def retire(self, kind: str, seq: int) -> None:
        """Offer what was published as ``kind`` up to ``seq`` no longer."""
        self._node.retire(_core.Name(f"{self._own}{kind}"), seq)

    def fetch(
        self,
        peer: int,
        kind: str,
        seq: int,
        into: Bytes,
        *,
        size_bytes: int,
        first_segment: int = 0,
        timeout_s: float,
        ended: Ended,
        what: str = "",
    ) -> int:
        """Fetch from rank ``peer``; the operation's number.

        Args:
            into: filled with whole segments from ``first_segment`` on.
            size_bytes: of all that was published.
            what: for the timeline of a traced job.
        """
        segmentation = self._segmentation(size_bytes)
        segments = max(1, -(-into.size // self.segment_bytes))
        fetch = _core.Fetch(
            self._peers[peer],
            _core.Name(kind),
            seq,
            segmentation,
            first_segment,
            first_segment + segments,
            size_bytes,
            into,
        )
        operation = self._node.submit(None, [fetch], timeout_s=timeout_s)
        if self._trace is not None and what:
            self._trace.begin(operation, what, "one-sided", bytes=into.size)
        self._collector.deliver(operation, ended)
        return operation

    def cancel(self, operation: int) -> None:
        """Give a fetch up."""
        self._collector.cancel(operation)

    def close(self) -> None:
        """Offer nothing any more, and fetch nothing."""
        self._node.unregister_producer(str(self._own))
        self._node.abort(self._all, "the communicator is closed")

    def _segmentation(self, size_bytes: int) -> _core.Segmentation:
        return _core.Segmentation(1, size_bytes, self.segment_bytes)
