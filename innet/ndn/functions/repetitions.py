"""Interests that are repeated until they are answered: the answer is made once, and sent once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from innet.names import Name


@dataclass
class _Asked:
    answer: asyncio.Future[bytes]
    times: int = 0


class Repetitions:
    """Answers by the names that were asked for.

    Args:
        kept: answers that are kept for those who ask again; the oldest go first.
    """

    def __init__(self, kept: int = 1024) -> None:
        self._kept = kept
        self._asked: OrderedDict[Name, _Asked] = OrderedDict()

    @property
    def under_way(self) -> int:
        """Answers that are being made."""
        return sum(not asked.answer.done() for asked in self._asked.values())

    def __contains__(self, name: Name) -> bool:
        return name in self._asked

    async def answer(self, name: Name, make: Callable[[], Awaitable[bytes]]) -> bytes | None:
        """What ``make`` makes, for the latest of those who ask for ``name``; ``None`` for the
        others, whose Interests it has taken the place of.
        """
        asked = self._asked.get(name)
        if asked is None:
            asked = _Asked(asyncio.ensure_future(make()))
            self._asked[name] = asked
            self._forget_oldest()
        asked.times += 1
        time = asked.times
        packet = await asyncio.shield(asked.answer)
        return packet if time == asked.times else None

    def forget(self, name: Name) -> None:
        """Make the answer anew for whoever asks for ``name`` again, if it is not being made."""
        if name in self._asked and self._asked[name].answer.done():
            del self._asked[name]

    def _forget_oldest(self) -> None:
        for name in list(self._asked)[: max(0, len(self._asked) - self._kept)]:
            if self._asked[name].answer.done():
                del self._asked[name]

    def close(self) -> None:
        """Stop making answers."""
        for asked in self._asked.values():
            asked.answer.cancel()
        self._asked.clear()
