"""The stream of a whole pool: a block is stored while at least one member has it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from innet.kv.events.index import Change
from innet.kv.events.log import EventLog
from innet.kv.events.wire import AllCleared, BlocksRemoved

POOL = "pool"
"""Stands for the member in topics."""


class PoolStream:
    """Events of the first and the last copy of each block on a medium, by model.

    Attributes:
        on_pending: called when there are events to publish.
    """

    def __init__(self) -> None:
        self.on_pending: Callable[[], None] = lambda: None
        self._logs: defaultdict[str, EventLog] = defaultdict(EventLog)
        self._copies: Counter[tuple[str, int, str | None]] = Counter()
        self._described: set[tuple[str, int, str | None]] = set()

    @property
    def streams(self) -> dict[bytes, EventLog]:
        """The streams by topic."""
        return {f"kv@{POOL}@{model}".encode(): log for model, log in self._logs.items()}

    def clear(self) -> None:
        """Clear all blocks: the pool is no longer followed."""
        for log in self._logs.values():
            log.add(AllCleared())

    def apply(self, model: str, changes: Iterable[Change]) -> None:
        """Apply changes of the index."""
        log = self._logs[model]
        for change in changes:
            block = change.block
            copy = model, block.hashes[0], block.medium
            before = self._copies[copy]
            self._copies[copy] += change.copies
            if not self._copies[copy]:
                del self._copies[copy]
                self._described.discard(copy)
                log.add(BlocksRemoved(block.hashes, block.medium))
                continue
            has_news = bool(block.tokens) and copy not in self._described
            if has_news:
                self._described.add(copy)
            if has_news or not before:
                log.add(replace(block, group=0))  # all groups count as one
        if log.has_pending:
            self.on_pending()
