"""Asks members to keep blocks, several with one request."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TypeAlias

from innet.kv.names import BlockKey
from innet.kv.pool.answers import Answer
from innet.kv.pool.asker import Asker
from innet.kv.pool.statistics import Cause
from innet.kv.requests import Keep, kind_of

_Place: TypeAlias = tuple[str, str, tuple[str, str, str]]
"""Member, source, and what the blocks of one request have in common."""


class _End(Enum):
    GIVEN_UP = auto()


class _Batch:
    """Blocks that one member is asked for with one request; who asked for the first asks for all.

    Attributes:
        wanted: the blocks, and their depths.
        others: who waits for each but the first.
    """

    def __init__(self, key: BlockKey, depth: int) -> None:
        self.wanted = [(key, depth)]
        self.others: list[asyncio.Future[Answer | Cause | _End]] = []

    async def join(self, key: BlockKey, depth: int) -> Cause | _End | None:
        """Have a block be asked for as well; ``None`` when it is kept."""
        self.wanted.append((key, depth))
        self.others.append(asyncio.get_running_loop().create_future())
        place = len(self.others)
        answer = await self.others[-1]
        return answer if isinstance(answer, _End) else _cause(answer, place)

    def end(self, answer: Answer | Cause | _End) -> None:
        """Tell all who wait."""
        for other in self.others:
            if not other.done():
                other.set_result(answer)


class KeepRequests:
    """Asks members to keep blocks.

    What one member is asked for in the same turn of the event loop leaves as one request, and has
    one signed answer: that is all of several puts that begin together, as those do that waited for
    the end of others. Nothing waits longer than such a turn. When who asks for all is cancelled,
    the rest ask anew.
    """

    def __init__(self, asker: Asker, most_at_once: int, timeout_s: float) -> None:
        """
        Args:
            asker: of this node.
            most_at_once: blocks of one request.
            timeout_s: for a member to get them.
        """
        self._asker = asker
        self._most_at_once = most_at_once
        self._timeout_s = timeout_s
        self._gathering: dict[_Place, _Batch] = {}

    async def ask(self, member: str, key: BlockKey, depth: int, source: str) -> Cause | None:
        """Let ``member`` fetch a block from ``source`` and keep it; ``None`` when it has it, and
        else why it has not."""
        place = (member, source, kind_of(key))
        while True:
            batch = self._gathering.get(place)
            if batch is None or len(batch.wanted) >= self._most_at_once:
                break
            end = await batch.join(key, depth)
            if not isinstance(end, _End):
                return end
        batch = self._gathering[place] = _Batch(key, depth)
        answer: Answer | Cause | _End = _End.GIVEN_UP
        try:
            await self._gather(place, batch)
            keep = Keep(key, depth, source, tuple(batch.wanted[1:]))
            answer = await self._asker.answer_of(member, keep, self._timeout_s)
            return _cause(answer, 0)
        finally:
            batch.end(answer)

    async def _gather(self, place: _Place, batch: _Batch) -> None:
        """Let others join for the rest of this turn."""
        try:
            await asyncio.sleep(0)
        finally:
            if self._gathering.get(place) is batch:
                del self._gathering[place]


def _cause(answer: Answer | Cause, place: int) -> Cause | None:
    if isinstance(answer, Cause):
        return answer
    return None if answer.lack_of(place) is None else Cause.REFUSED
