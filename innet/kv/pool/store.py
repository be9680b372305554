"""A node's stores: its blocks, their leases, and the blocks that others may request."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from innet.kv.pool.network import Sealed
from innet.kv.pool.peers import CircuitBreaker
from innet.kv.pool.served import ServedBlocks
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.tiered_store import LayeredTier, TieredStore
from innet.kv.pool.waiting import SingleFlight

_MOST_LINGERING: Final = 8
_NAMES_AT_A_TIME: Final = 64
_LEAST_ENDS: Final = 64
_MOST_DEFERRED: Final = 1 << 18
"""About 100 MiB; of more blocks at one home, some are computed again."""


class Tier(Enum):
    """The fastest place that has a block; one in memory may be on disk as well."""

    MEMORY = "memory"
    DISK = "disk"
    OBJECTS = "objects"
    """An object storage behind a disk."""


TierListener = Callable[[str, "Tier | None"], None]
"""Called with a block's name and the tier that it may have moved to; ``None``: it is gone."""


class LeaseTable:
    """Leases of blocks by holder; a block is pinned until its last lease ends."""

    def __init__(self) -> None:
        self._leases: dict[str, dict[str, float]] = {}
        self._ends: list[tuple[float, str, str]] = []  # a heap, also of leases that ended early
        self._most_ends = _LEAST_ENDS

    def __contains__(self, name: str) -> bool:
        """Whether anybody has a lease of a block."""
        return name in self._leases

    @property
    def next_end_s(self) -> float:
        """When to call :meth:`take_expired`."""
        return self._ends[0][0] if self._ends else math.inf

    def begin(self, name: str, holder: str, end_s: float) -> None:
        """Begin or renew a holder's lease."""
        self._leases.setdefault(name, {})[holder] = end_s
        heapq.heappush(self._ends, (end_s, name, holder))
        if len(self._ends) > self._most_ends:
            self._forget_old_ends()

    def end(self, name: str, holder: str) -> bool:
        """End a holder's lease, if there is one; whether it was the block's last."""
        holders = self._leases.get(name, {})
        if holders.pop(holder, None) is None or holders:
            return False
        del self._leases[name]
        return True

    def end_all(self, name: str) -> None:
        """End all leases of a block."""
        self._leases.pop(name, None)

    def take_expired(self, at_s: float) -> Iterator[str]:
        """End the leases whose time is over; the blocks without any afterwards."""
        while self.next_end_s <= at_s:
            end_s, name, holder = heapq.heappop(self._ends)
            if self._leases.get(name, {}).get(holder) == end_s and self.end(name, holder):
                yield name

    def take_all(self) -> list[str]:
        """End all leases; the blocks that had one."""
        names = list(self._leases)
        self._leases.clear()
        self._ends.clear()
        return names

    def _forget_old_ends(self) -> None:
        """Keep the ends of present leases only: many may have been renewed or ended early."""
        self._ends = [
            (end_s, name, holder)
            for name, holders in self._leases.items()
            for holder, end_s in holders.items()
        ]
        heapq.heapify(self._ends)
        self._most_ends = max(_LEAST_ENDS, 2 * len(self._ends))


@dataclass(frozen=True, slots=True)
class DeferredBlock:
    """A block that its producer holds.

    Attributes:
        depth: its position in its prompt, as its home counts it.
        source: the producer.
    """

    depth: int
    source: str


@dataclass(slots=True)
class _Source:
    """A producer of deferred blocks.

    Attributes:
        breaker: excludes it after late blocks.
        delivered_s: when its last block arrived.
    """

    breaker: CircuitBreaker
    delivered_s: float = -math.inf


class DeferredIndex:
    """Index of blocks that are homed here but still held only by their producer.

    An entry stays when its block has arrived, so that the block can be fetched again after its
    eviction. It is removed when its producer no longer has the block; beyond a limit the oldest
    entry is removed.

    A producer that delivers nothing while a block is late is asked less and less often; its entries
    stay, because packets may have been lost. If it is late after the longest pause, they are
    removed.
    """

    def __init__(self, leave_out_s: float) -> None:
        """``leave_out_s``: limit of the pause of requests to a late producer."""
        self._blocks: OrderedDict[str, DeferredBlock] = OrderedDict()
        self._sources: defaultdict[str, _Source] = defaultdict(
            lambda: _Source(CircuitBreaker(leave_out_s))
        )

    def __contains__(self, name: str) -> bool:
        return name in self._blocks

    def names(self) -> list[str]:
        """All blocks."""
        return list(self._blocks)

    def get(self, name: str) -> DeferredBlock | None:
        """The entry of a block."""
        return self._blocks.get(name)

    def add(self, name: str, block: DeferredBlock) -> str | None:
        """Add a block; return the oldest one, to be removed, if there are too many."""
        self._blocks[name] = block
        self._blocks.move_to_end(name)
        return next(iter(self._blocks)) if len(self._blocks) > _MOST_DEFERRED else None

    def remove(self, name: str) -> bool:
        """Forget the producer of a block; whether it was known."""
        return self._blocks.pop(name, None) is not None

    def may_ask(self, source: str, now_s: float) -> bool:
        """Whether requests to the producer are not paused after late blocks."""
        return now_s >= self._sources[source].breaker.open_until_s

    def on_delivered(self, source: str, now_s: float) -> None:
        """Record that a block of the producer arrived."""
        self._sources.pop(source, None)
        self._sources[source].delivered_s = now_s

    def on_late(self, source: str, began_s: float, now_s: float) -> list[str]:
        """Record a late block that was requested at ``began_s``; return the blocks to remove."""
        state = self._sources[source]
        if state.delivered_s >= began_s:
            return []
        gives_up = state.breaker.is_at_limit and began_s >= state.breaker.open_until_s
        state.breaker.on_failure(began_s, now_s, is_silence=True)
        if not gives_up:
            return []
        del self._sources[source]
        return [name for name, block in self._blocks.items() if block.source == source]


class LocalStore:
    """A store for this node itself.

    Blocks from disk are verified before use: the disk may be damaged, or other programs may write
    to it. Blocks can be pinned with leases; the tiers limit how much.

    Attributes:
        tiers: where the blocks are.
        is_refused: whether a block may not be kept now.
    """

    def __init__(self, tiers: TieredStore, served: ServedBlocks, settings: PoolSettings) -> None:
        """
        Args:
            tiers: where the blocks are.
            served: verifies blocks, because it serves only bytes that were signed.
            settings: of the pool.
        """
        self.tiers = tiers
        self.is_refused: Callable[[str], bool] = lambda name: False
        self._served = served
        self._longest_lease_s = settings.longest_lease_s
        self._listeners: list[TierListener] = []
        self._leases = LeaseTable()
        self._loading: SingleFlight[str, Sealed | None] = SingleFlight()
        if tiers.disk is not None:
            tiers.disk.on_gone = self._on_change

    def tier(self, name: str) -> Tier | None:
        """The tier of a block, ``None`` if it is not here; this does not count as a use."""
        memory, disk = self.tiers.memory, self.tiers.disk
        if name in memory:
            return Tier.MEMORY
        if disk is None or name not in disk:
            return None
        return (
            Tier.OBJECTS if isinstance(disk, LayeredTier) and name not in disk.disk else Tier.DISK
        )

    def watch(self, listener: TierListener) -> None:
        """Report the blocks that are here, and from now on each change of a block's tier."""
        self._listeners.append(listener)
        disk = self.tiers.disk
        for name in {*self.tiers.memory.names(), *(() if disk is None else disk.names())}:
            listener(name, self.tier(name))

    async def get(self, name: str) -> tuple[Sealed, Tier] | None:
        """The block and the tier that had it; ``None``: it is not here, or is damaged."""
        block = self.tiers.memory.get(name)
        if block is not None:
            return block, Tier.MEMORY
        tier = self.tier(name)
        block = await self.load(name)
        return None if block is None or tier is None else (block, tier)

    async def load(self, name: str) -> Sealed | None:
        """Copy a block from a lower tier to memory."""
        if self.tier(name) in (None, Tier.MEMORY):
            return None
        return await self._loading.run(name, lambda: self._load(name))

    async def keep(self, name: str, block: Sealed, depth: int, *, is_copy: bool = False) -> bool:
        """:meth:`put`; a store that serves its blocks starts to serve this one."""
        return self.put(name, block, depth, is_copy=is_copy)

    def put(self, name: str, block: Sealed, depth: int, *, is_copy: bool = False) -> bool:
        """Keep a verified block; false: there is no room.

        Args:
            name: of the block.
            block: its contents must not change from now on.
            depth: its position in its prompt, from 0.
            is_copy: another node keeps the block, so it is evicted first.
        """
        if self.is_refused(name):
            self._on_change(name)
            return False
        victims = self.tiers.memory.put(name, block, depth, is_copy=is_copy)
        if not victims:
            self._report(name, Tier.MEMORY)
            return True
        self._on_change(name)
        for victim, evicted in victims:
            if self.tiers.disk is not None and not evicted.is_copy:
                self.tiers.disk.put(victim, evicted.kept, evicted.depth)
            self._on_change(victim)
        return self.tier(name) is not None

    def remove(self, name: str) -> None:
        """Drop a block, pinned or not."""
        was_in_memory = self.tiers.memory.remove(name)
        if (self.tiers.disk is not None and self.tiers.disk.remove(name)) or was_in_memory:
            self._on_change(name)

    def pin(self, name: str, holder: str, lease_s: float, at_s: float) -> bool:
        """Begin or renew a holder's lease of a block; false: there is no room for it, or no such
        block."""
        tier = self.tiers.memory if name in self.tiers.memory else self.tiers.disk
        if tier is None or not tier.pin(name):
            return False
        self._leases.begin(name, holder, at_s + min(lease_s, self._longest_lease_s))
        return True

    def unpin(self, name: str, holder: str) -> None:
        """End a lease, if there is one."""
        if self._leases.end(name, holder):
            self._unpin(name)

    def drop(self, name: str, holder: str) -> bool:
        """End this holder's lease, and drop the block unless another holder has one; whether it is
        gone."""
        self.unpin(name, holder)
        if name in self._leases:
            return False
        self.remove(name)
        return True

    @property
    def next_lease_end_s(self) -> float:
        """When to call :meth:`expire_leases`."""
        return self._leases.next_end_s

    def expire_leases(self, at_s: float) -> None:
        """End the leases whose time is over."""
        for name in self._leases.take_expired(at_s):
            self._unpin(name)

    def close(self) -> None:
        """End all leases."""
        for name in self._leases.take_all():
            self._unpin(name)

    def _unpin(self, name: str) -> None:
        self.tiers.memory.unpin(name)
        if self.tiers.disk is not None:
            self.tiers.disk.unpin(name)

    def _on_change(self, name: str) -> None:
        """The block's tier may have changed. The leases of a block that is gone end with it."""
        tier = self.tier(name)
        if tier is None:
            self._leases.end_all(name)
        self._report(name, tier)

    def _report(self, name: str, tier: Tier | None) -> None:
        """Report the tier of a block to the listeners, and to this store's own part."""
        for listener in self._listeners:
            listener(name, tier)
        self._on_tier(name, tier)

    def _on_tier(self, name: str, tier: Tier | None) -> None:
        """Called when a block may have moved to ``tier``."""

    def _on_loaded(self, name: str) -> None:
        """Called when a block was loaded from disk: it is served now, and may not be in memory."""

    async def _load(self, name: str) -> Sealed | None:
        assert self.tiers.disk is not None
        read = await self.tiers.disk.get(name)
        if read is None:
            return None
        block = await self._served.add(name, read)
        if block is None:
            self.tiers.disk.remove_damaged(name, read)
            self._on_change(name)
            return await self._load(name) if name in self.tiers.disk else None
        try:
            self.put(name, block, self.tiers.disk.depth(name))
            self._on_loaded(name)
        finally:
            self._served.release(name)
        return block


class ServedStore(LocalStore):
    """A store that other nodes request blocks from.

    Blocks in memory are served; requesters of a block on disk wait until it is loaded, those of a
    deferred block until it is fetched from its producer.

    Attributes:
        index: of deferred blocks.
    """

    def __init__(self, tiers: TieredStore, served: ServedBlocks, settings: PoolSettings) -> None:
        """See the base class."""
        super().__init__(tiers, served, settings)
        self.index = DeferredIndex(settings.leave_out_s)
        # How long a block without room is served after it was loaded or fetched for requesters.
        self._linger_s = settings.answer_s
        self._in_memory: set[str] = set()
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._without_room: dict[str, Sealed] = {}
        self._is_closed = False

    async def start(self, prefix: str) -> None:
        """Serve the blocks on disk whose names begin with ``prefix``."""
        disk = self.tiers.disk
        names = [] if disk is None else [name for name in disk.names() if name.startswith(prefix)]
        for count, name in enumerate(names):
            if self.tier(name) is not Tier.MEMORY:
                self._served.expect(name)
            if count % _NAMES_AT_A_TIME == 0:
                await asyncio.sleep(0)  # there may be many, and other tasks need the event loop

    async def keep(self, name: str, block: Sealed, depth: int, *, is_copy: bool = False) -> bool:
        """Keep and serve a verified block; false: there is no room, or another block of the name,
        which is being served, is damaged."""
        if not self._served.start_serving(name, block, lambda: self._drop(name)):
            served = await self._served.add(name, block)
            if served is None:
                return False
            block = served
        try:
            return self._put_or_linger(name, block, depth, is_copy=is_copy)
        finally:
            self._served.release(name)

    def adopt(self, name: str, block: Sealed, depth: int) -> bool | None:
        """Keep a block that the network serves on its own; false: there is no room, and ``None``:
        another of the name is served."""
        if not self._served.adopt(name, block):
            return None
        self._in_memory.add(name)  # if there is no room, `put` removes it and ends the hold
        return self.put(name, block, depth)

    def defer(self, name: str, block: DeferredBlock) -> None:
        """Add a block of a producer; its requesters wait until it is fetched from there."""
        oldest = self.index.add(name, block)
        if self.tier(name) is None:
            self._served.expect(name)
        if oldest is not None:
            self.forget(oldest)

    def forget(self, name: str) -> None:
        """Forget the producer of a block, and refuse its waiting requesters."""
        if self.index.remove(name) and self.tier(name) is None:
            self._served.refuse(name)

    def refuse(self, name: str) -> None:
        """Refuse the waiting requesters of a deferred block; later ones wait again."""
        if name in self.index and self.tier(name) is None:
            self._served.refuse(name)
            self._served.expect(name)

    def lingering(self, name: str) -> Sealed | None:
        """A block without room that is served to its present requesters."""
        return self._without_room.get(name)

    def _on_loaded(self, name: str) -> None:
        if name in self._in_memory:
            return
        self._served.hold(name)
        self._stop_lingering(name)
        loop = asyncio.get_running_loop()
        self._lingering[name] = loop.call_later(self._linger_s, self._stop_lingering, name)
        if len(self._lingering) > _MOST_LINGERING:
            self._stop_lingering(next(iter(self._lingering)))

    def close(self) -> None:
        """End all leases, and stop serving blocks."""
        super().close()
        self._is_closed = True
        for timer in self._lingering.values():
            timer.cancel()
        self._lingering.clear()
        self._without_room.clear()

    def _put_or_linger(self, name: str, block: Sealed, depth: int, *, is_copy: bool) -> bool:
        if self.put(name, block, depth, is_copy=is_copy):
            return True
        if name in self.index:
            self._on_loaded(name)
            self._without_room[name] = block
        return False

    def _drop(self, name: str) -> None:
        self._stop_lingering(name)
        self.remove(name)

    def _stop_lingering(self, name: str) -> None:
        timer = self._lingering.pop(name, None)
        self._without_room.pop(name, None)
        if timer is not None:
            timer.cancel()
            self._served.release(name)

    def _on_tier(self, name: str, tier: Tier | None) -> None:
        if self._is_closed:
            return
        if tier is Tier.MEMORY:
            if name not in self._in_memory:
                self._in_memory.add(name)
                self._served.hold(name)
            return
        if tier is not None or name in self.index:
            self._served.expect(name)
        else:
            self._served.refuse(name)
        if name in self._in_memory:
            self._in_memory.remove(name)
            self._served.release(name)
        if tier is None:
            self._stop_lingering(name)
