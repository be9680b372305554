"""Blocks that a home knows where to get, and gets when somebody asks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
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


class Notes:
    """Who has the blocks that this node is home to, and that nobody else has asked for.

    A note stays when its block has come, so that the block can be had again after it had to make
    room, or when there is none for it: then it is served for a while. It goes when its source has
    the block no longer; all of a source go when that does not answer, and the oldest when there are
    too many.
    """

    def __init__(
        self, offered: OfferedStore, intake: Intake, publications: Publications, timeout_s: float
    ) -> None:
        """
        Args:
            offered: where the blocks come to.
            intake: brings them there.
            publications: of this node.
            timeout_s: for a block to come: less than those wait that ask for it, so that they do
                not take this home for dead when its source is.
        """
        self._offered = offered
        self._tiers = offered.tiers
        self._intake = intake
        self._publications = publications
        self._timeout_s = timeout_s
        self._notes: OrderedDict[str, _Note] = OrderedDict()

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
        end_s = loop.time() + self._timeout_s
        lack = await self._intake.keep(name, note.depth, note.source, self._timeout_s)
        if lack is None or self._offered.lingering(name) is not None:
            return True
        self.drop(name)
        if loop.time() >= end_s:
            self._drop_all_at(note.source)
        return False

    def _drop_all_at(self, source: str) -> None:
        for name in [name for name, note in self._notes.items() if note.source == source]:
            self.drop(name)
