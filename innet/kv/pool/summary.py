"""Summaries of a member's memory for other members: the whole one first, then its changes.

A summary is a sorted array of numbers of 32 bits, one for each block: 31 bits of a hash of its
name, and whether it is popular. Each version of it has a number. An answer is an array of the same
kind: its version, the version that it changes (0: none, so it is the whole summary), the count of
removed numbers, the removed numbers, and the added numbers.
"""

from __future__ import annotations

import asyncio
import math
import random
import zlib
from collections import deque
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.kv.pool.network import Contents, Sealed
from innet.kv.pool.store import Tier
from innet.kv.pool.tiers import Entry, MemoryTier
from innet.kv.pool.waiting import SingleFlight, now_s

SUMMARY_S: Final = 1.0
"""A node that looks blocks up refreshes the summaries this often."""
POPULAR: Final = 8
"""Requests of others after which a block moves to its home."""
_FIRST_VERSIONS: Final = 1 << 29
"""The first version is a random number below it, so that a restarted member reuses none."""
_KEPT_CHANGES: Final = 16
_NAMES_AT_A_TIME: Final = 2048
"""Names per turn of the event loop; they take 2 ms."""
_HEAD: Final = 3

Numbers = npt.NDArray[np.uint32]


class Version(NamedTuple):
    """A summary of a member.

    Attributes:
        number: of the version.
        numbers: of its blocks, in ascending order.
    """

    number: int
    numbers: Numbers


NO_VERSION: Final = Version(0, np.empty(0, "<u4"))


class _Change(NamedTuple):
    """The numbers that the next version removes and adds, and the number of that version."""

    number: int
    gone: Numbers
    new: Numbers


class Summary:
    """The blocks in this node's memory, for other members."""

    def __init__(self, memory: MemoryTier) -> None:
        self._memory = memory
        self._changed: set[str] = set()
        self._summarised: dict[str, int] = {}
        self._version = Version(random.randrange(1, _FIRST_VERSIONS), NO_VERSION.numbers)
        self._changes: deque[_Change] = deque(maxlen=_KEPT_CHANGES)
        self._until_s = -math.inf
        self._updates: SingleFlight[None, None] = SingleFlight()

    def on_tier(self, name: str, tier: Tier | None) -> None:
        """A block's tier may have changed, or its popularity."""
        if tier is Tier.MEMORY or name in self._summarised:
            self._changed.add(name)
        else:
            self._changed.discard(name)

    async def answer(self, known: int) -> Contents:
        """The summary, for a member that knows this version of it; 0: none."""
        if now_s() >= self._until_s:
            await self._updates.run(None, self._update)
        number, numbers = self._version
        changes = [each for each in self._changes if each.number > known]
        gone, new = (np.concatenate(all_of) for all_of in _parts(changes))
        if known != number and (
            known != number - len(changes) or len(gone) + len(new) > len(numbers) // 2
        ):
            known, gone, new = 0, NO_VERSION.numbers, numbers
        head = np.array((number, known, len(gone)), "<u4")
        return np.concatenate((head, gone, new)).view(np.uint8)

    async def _update(self) -> None:
        names, self._changed = list(self._changed), set()
        gone: list[int] = []
        new: list[int] = []
        done = 0
        try:
            for name in names:
                self._summarise(name, gone, new)
                done += 1
                if done % _NAMES_AT_A_TIME == 0:
                    await asyncio.sleep(0)
        finally:  # the caller may be cancelled: what is done is a version, and the rest is left
            self._changed.update(names[done:])
            if gone or new:
                number = self._version.number + 1
                change = _Change(number, np.array(gone, "<u4"), np.array(new, "<u4"))
                self._changes.append(change)
                self._version = _changed(self._version, change)
        self._until_s = now_s() + SUMMARY_S / 2

    def _summarise(self, name: str, gone: list[int], new: list[int]) -> None:
        """Add a block's number before and now to those that leave and come, if they differ."""
        entry = self._memory.entry(name)
        before = self._summarised.pop(name, None)
        now = None if entry is None else hash_of(name) << 1 | is_popular(entry)
        if now is not None:
            self._summarised[name] = now
        if now != before:
            gone += [] if before is None else [before]
            new += [] if now is None else [now]


def read_answer(answer: Contents, known: Version) -> Version:
    """The summary after an answer, by the version that was known.

    Raises:
        KVError: the answer is no summary, or changes another version.
    """
    if answer.nbytes < 4 * _HEAD or answer.nbytes % 4:
        raise KVError(f"a summary of {answer.nbytes} bytes is incomplete: request the whole one")
    numbers = answer.view("<u4")
    number, base, count = (int(each) for each in numbers[:_HEAD])
    change = _Change(number, numbers[_HEAD : _HEAD + count], numbers[_HEAD + count :])
    if base not in (0, known.number) or len(change.gone) < count:
        raise KVError(
            f"a summary changes version {base}, not {known.number}: request the whole one"
        )
    return _changed(known if base else NO_VERSION, change)


def _changed(version: Version, change: _Change) -> Version:
    """The version after a change, which may join several: a number that comes may leave again, so
    numbers are added before others are removed."""
    numbers = version.numbers
    if len(change.new):
        numbers = np.sort(np.concatenate((numbers, change.new)))
    if len(change.gone):
        gone = np.sort(change.gone)
        # Of equal numbers, as many leave as are to: the second one is in the next place.
        places = numbers.searchsorted(gone) + np.arange(len(gone)) - gone.searchsorted(gone)
        if places.max() >= len(numbers) or (numbers[places] != gone).any():
            raise KVError("a change removes numbers that the summary lacks: request the whole one")
        numbers = np.delete(numbers, places)
    return Version(change.number, numbers)


def _parts(changes: list[_Change]) -> tuple[list[Numbers], list[Numbers]]:
    none = [NO_VERSION.numbers]
    return none + [each.gone for each in changes], none + [each.new for each in changes]


def hash_of(name: str) -> int:
    """31 bits."""
    return zlib.crc32(name.encode()) >> 1


def is_popular(entry: Entry[Sealed]) -> bool:
    """Whether others have requested a block that this node has put so often that it moves."""
    return entry.asked >= POPULAR and not entry.is_copy
