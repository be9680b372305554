"""Blocks that a home knows where to get, and gets when somebody asks."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, defaultdict
from dataclasses import dataclass

from innet.kv.pool.intake import Intake
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.publications import Publications

_MOST_NOTES = 1 << 18
"""Some 100 MiB; whoever has more blocks than that at one home has some computed again."""


@dataclass(frozen=True, slots=True)
class _Note:
    depth: int
    source: str


@dataclass(slots=True)
class _Source:
    """A node that notes name.

    Attributes:
        delivered_s: when its last block came.
        asked_again_s: after a block was late: when it is asked for blocks again.
    """

    delivered_s: float = -math.inf
    asked_again_s: float | None = None


class Notes:
    """Which nodes have the blocks that this node is home to, and that nobody else has asked for.

    A note stays when its block has come, so that the block can be fetched again after it was
    evicted, or when there is no room for it: then it is served for a while. It goes when its source
    no longer has the block, and the oldest goes when there are too many.

    A source that delivers nothing while a block is late is not asked for a while, and its blocks
    are refused at once; its notes stay, because packets may have been lost. When it is late again
    after that, all of its notes go.
    """

    def __init__(
        self,
        offered: OfferedStore,
        intake: Intake,
        publications: Publications,
        *,
        timeout_s: float,
        leave_out_s: float,
    ) -> None:
        """
        Args:
            offered: where the blocks come to.
            intake: brings them there.
            publications: of this node.
            timeout_s: for a block to come: less than those wait that ask for it, so that they do
                not take this home for dead when its source is.
            leave_out_s: how long a source that was late is not asked.
        """
        self._offered = offered
        self._tiers = offered.tiers
        self._intake = intake
        self._publications = publications
        self._timeout_s = timeout_s
        self._leave_out_s = leave_out_s
        self._notes: OrderedDict[str, _Note] = OrderedDict()
        self._sources: defaultdict[str, _Source] = defaultdict(_Source)

    def __contains__(self, name: str) -> bool:
        """Whether it is known who has a block."""
        return name in self._notes

    def add(self, name: str, depth: int, source: str) -> None:
        """``source`` has a block; whoever asks for it shall wait until it has come from there."""
        self._notes[name] = _Note(depth, source)
        self._notes.move_to_end(name)
        if self._tiers.tier(name) is None:
            self._publications.expect(name)
        if len(self._notes) > _MOST_NOTES:
            self.drop(next(iter(self._notes)))

    def drop(self, name: str) -> None:
        """Forget who has a block, and refuse those who wait for it."""
        if self._notes.pop(name, None) is not None and self._tiers.tier(name) is None:
            self._publications.forget(name)

    async def bring(self, name: str) -> bool:
        """Get a block from where it is, if that is known; whether it is here now, if only for a
        while."""
        if self._offered.lingering(name) is not None:
            return True
        note = self._notes.get(name)
        if note is None:
            return self._tiers.tier(name) is not None
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        asked_again_s = self._sources[note.source].asked_again_s
        if asked_again_s is not None and begin_s < asked_again_s and self._tiers.tier(name) is None:
            self._refuse(name)
            return False
        lack = await self._intake.keep(name, note.depth, note.source, self._timeout_s)
        if lack is None or self._offered.lingering(name) is not None:
            self._sources[note.source] = _Source(delivered_s=loop.time())
            self._tiers.use(name)  # it came because somebody asked for it
            return True
        if loop.time() >= begin_s + self._timeout_s:
            self._on_late(name, note.source, begin_s)
        else:
            self.drop(name)
        return False

    def _on_late(self, name: str, source_name: str, begin_s: float) -> None:
        source = self._sources[source_name]
        if source.delivered_s >= begin_s:
            self._refuse(name)
        elif source.asked_again_s is None or begin_s < source.asked_again_s:
            source.asked_again_s = begin_s + self._timeout_s + self._leave_out_s
            self._refuse(name)
        else:
            del self._sources[source_name]
            for noted in [name for name, note in self._notes.items() if note.source == source_name]:
                self.drop(noted)

    def _refuse(self, name: str) -> None:
        """Refuse those who wait for a block; who asks later waits again."""
        if name in self._notes and self._tiers.tier(name) is None:
            self._publications.forget(name)
            self._publications.expect(name)
