"""Eviction policies: which block a full store drops first.

LRU and S3-FIFO are those of the switches' content stores, in C++. A policy has no clock and no
randomness.
"""

from __future__ import annotations

import heapq
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Final, Literal, NamedTuple, get_args

from innet._native import _core

PolicyName = Literal["lru", "lfu", "s3fifo", "prefix-depth", "second-use"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
DEFAULT_POLICY: Final[PolicyName] = "second-use"
"""The policy with the most hits over traces of different reuse (docs/kv-replay.md)."""

_PATIENCE: Final = 2
"""A used block is kept this many times as long as one that was not used since its insertion."""
_MOST_STALE: Final = 2
"""Stale heap entries per block before the heap is rebuilt."""


def make_policy(name: PolicyName, capacity: int) -> EvictionPolicy:
    """The policy of that name, for a store of that capacity, in the unit of its blocks' sizes."""
    match name:
        case "lfu":
            return Lfu()
        case "prefix-depth":
            return PrefixDepth()
        case "second-use":
            return SecondUse()
    return ContentStorePolicy(name, capacity)


class EvictionPolicy(ABC):
    """Orders the blocks of one store for eviction.

    Blocks are identified by any bytes. ``depth`` is a block's position in its prompt, 0 for the
    first; ``size`` is its share of the store's capacity, in the capacity's unit.

    Attributes:
        newest_stays: a new block is never evicted before the blocks that were in the store before
            it.
    """

    newest_stays = False

    @abstractmethod
    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """Add a block."""

    @abstractmethod
    def use(self, block: bytes) -> None:
        """Record a request for a block."""

    @abstractmethod
    def demote(self, block: bytes) -> None:
        """Evict a block before all that are not demoted: another store keeps it, too.

        Of demoted blocks, the one that was demoted or used least recently is evicted first.
        """

    @abstractmethod
    def remove(self, block: bytes) -> None:
        """Forget a block that the store dropped for another reason than lack of room."""

    @abstractmethod
    def take_victim(self) -> bytes:
        """Choose the block to evict and forget it; there must be one."""

    def next_victim(self) -> NextVictim | None:
        """What :meth:`take_victim` would choose; ``None``: a demoted block, no block, or the policy
        cannot say it."""
        return None


class NextVictim(NamedTuple):
    """The block that is evicted next.

    Attributes:
        block: the victim.
        patience: how many times as long as a new block the policy keeps it unused.
    """

    block: bytes
    patience: int


class ContentStorePolicy(EvictionPolicy):
    """A policy of the switches' content stores: ``lru`` or ``s3fifo``."""

    def __init__(self, name: Literal["lru", "s3fifo"], capacity: int) -> None:
        self.newest_stays = name == "lru"
        self._queue = _core.EvictionQueue(name, capacity)

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        self._queue.insert(block, size)

    def use(self, block: bytes) -> None:
        self._queue.use(block)

    def demote(self, block: bytes) -> None:
        self._queue.demote(block)

    def remove(self, block: bytes) -> None:
        self._queue.remove(block)

    def take_victim(self) -> bytes:
        return self._queue.take_victim()


class Rank(NamedTuple):
    """Blocks with the lowest rank are evicted first; of equals, the one with the lower ``then``."""

    value: int
    then: int


_DEMOTED: Final = -sys.maxsize


class RankedPolicy(EvictionPolicy):
    """Ranks each block when it is used and evicts the lowest rank.

    A policy has one number for each block. The heap keeps stale entries, which are skipped when
    they reach its top.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._ranks: dict[bytes, Rank] = {}
        self._heap: list[tuple[Rank, bytes]] = []
        self._now = 0
        """Blocks inserted or used so far."""

    @abstractmethod
    def number_of_new(self, depth: int) -> int:
        """The number of a block that is inserted."""

    @abstractmethod
    def number_after_use(self, number: int) -> int:
        """The number of a used block, from its former number."""

    @abstractmethod
    def rank(self, number: int, now: int) -> Rank:
        """The rank of a block that is inserted or used now."""

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        self._touch(block, self.number_of_new(depth))

    def use(self, block: bytes) -> None:
        if self._ranks[block].value == _DEMOTED:
            self.demote(block)
        else:
            self._touch(block, self.number_after_use(self._numbers[block]))

    def demote(self, block: bytes) -> None:
        self._now += 1
        self._set(block, Rank(_DEMOTED, self._now))

    def remove(self, block: bytes) -> None:
        del self._ranks[block], self._numbers[block]

    def take_victim(self) -> bytes:
        self._drop_stale()
        block = self._heap[0][1]
        self.remove(block)
        return block

    def next_victim(self) -> NextVictim | None:
        self._drop_stale()
        if not self._heap or self._heap[0][0].value == _DEMOTED:
            return None
        return NextVictim(self._heap[0][1], 1)

    def _drop_stale(self) -> None:
        """Remove stale entries from the top of the heap."""
        while self._heap and self._ranks.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _touch(self, block: bytes, number: int) -> None:
        self._now += 1
        self._numbers[block] = number
        self._set(block, self.rank(number, self._now))

    def _set(self, block: bytes, rank: Rank) -> None:
        self._ranks[block] = rank
        heapq.heappush(self._heap, (rank, block))
        if len(self._heap) > _MOST_STALE * len(self._ranks) + 64:
            self._heap = [(rank, block) for block, rank in self._ranks.items()]
            heapq.heapify(self._heap)


class Lfu(RankedPolicy):
    """Evicts the least frequently used block; of equals, the least recently used."""

    def number_of_new(self, depth: int) -> int:
        return 1

    def number_after_use(self, number: int) -> int:
        return number + 1

    def rank(self, number: int, now: int) -> Rank:
        return Rank(number, now)


class PrefixDepth(RankedPolicy):
    """Evicts the block with the smallest (time of last use) - (depth); of equals, the deepest.

    A block is useless without those before it in its prompt. Time counts used blocks. In a store
    that sees whole prompts, from their first block on, all blocks of a prompt have the same rank,
    whatever its length: so the prompt that was unused for longest loses its last blocks first, and
    what stays is always whole prefixes. (A block is used at most as many ticks after one before it
    as it is deeper, so it never ranks above it.) A home that sees every n-th block of a prompt
    receives depths divided by n, as its time is slower.
    """

    def number_of_new(self, depth: int) -> int:
        return depth

    def number_after_use(self, number: int) -> int:
        return number

    def rank(self, number: int, now: int) -> Rank:
        return Rank(now - number, -number)


class SecondUse(EvictionPolicy):
    """Evicts the oldest unused block, or the oldest used one when that has waited twice as long.

    Most blocks of a prompt are never used again. They pass through without taking the room of used
    ones, as in 2Q (Johnson and Shasha, VLDB 1994). The share of each kind is not fixed: it follows
    from the ages, counted in used blocks, so a store whose blocks are all used is plain LRU.
    """

    newest_stays = True

    def __init__(self) -> None:
        self._unused: OrderedDict[bytes, int] = OrderedDict()
        self._used: OrderedDict[bytes, int] = OrderedDict()
        self._demoted: OrderedDict[bytes, None] = OrderedDict()
        self._now = 0

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        self._now += 1
        self._unused[block] = self._now

    def use(self, block: bytes) -> None:
        if block in self._demoted:
            self._demoted.move_to_end(block)
            return
        self._now += 1
        self.remove(block)
        self._used[block] = self._now

    def demote(self, block: bytes) -> None:
        self.remove(block)
        self._demoted[block] = None

    def remove(self, block: bytes) -> None:
        for blocks in (self._unused, self._used, self._demoted):
            if block in blocks:
                del blocks[block]
                return
        raise KeyError(block)

    def take_victim(self) -> bytes:
        return (self._demoted or self._next_kind()).popitem(last=False)[0]

    def next_victim(self) -> NextVictim | None:
        kind = self._next_kind()
        if self._demoted or not kind:
            return None
        return NextVictim(next(iter(kind)), _PATIENCE if kind is self._used else 1)

    def _next_kind(self) -> OrderedDict[bytes, int]:
        """The blocks of which the oldest is evicted next, if none is demoted."""
        unused = next(iter(self._unused.values()), None)
        used = next(iter(self._used.values()), None)
        if unused is None:
            return self._used
        if used is None or _PATIENCE * (self._now - unused) >= self._now - used:
            return self._unused
        return self._used
