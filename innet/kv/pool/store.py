"""A node's stores of blocks, and what of them it serves to others."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from innet.errors import KVError
from innet.kv.pool.network import BlockNetwork, Contents, Sealed
from innet.kv.pool.tiered_store import Tier, TieredStore
from innet.kv.pool.waiting import SingleFlight, wait_to_end

_MOST_LINGERING: Final = 8
_NAMES_AT_A_TIME: Final = 64
_MOST_DEFERRED: Final = 1 << 18
"""About 100 MiB; of more blocks at one home, some are computed again."""


@dataclass
class _Publication:
    publishing: asyncio.Future[Sealed | None]
    holders: int


class ServedBlocks:
    """The blocks that this node serves, each while at least one of its parts holds it.

    Concurrent publishers of one name share the first publication.
    """

    def __init__(self, network: BlockNetwork) -> None:
        self._network = network
        self._publications: dict[str, _Publication] = {}
        self._expected: set[str] = set()
        self._is_closed = False

    async def sign(self, name: str, contents: Contents) -> Sealed:
        """Sign and serve a block, and hold it."""
        while True:
            held = await self._hold(name, lambda: self._network.publish(name, contents))
            if held is not None:
                return held
            await asyncio.sleep(0)  # until the others release the damaged block, too

    def start_signing(self, name: str, contents: Contents) -> asyncio.Future[Sealed | None] | None:
        """Start to sign and serve a block, and hold it; ``None``: one of the name is served.

        Its requesters wait from now on.
        """
        if name in self._publications:
            return None
        return self._begin(name, lambda: self._network.publish(name, contents)).publishing

    async def published(self, publishing: asyncio.Future[Sealed | None]) -> Sealed | None:
        """The block that is being published; cancelling one waiter does not affect the others.

        Raises:
            KVError: the block cannot be published, or the pool closes meanwhile.
        """
        try:
            return publishing.result() if publishing.done() else await asyncio.shield(publishing)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not publishing.cancelled() or (task is not None and task.cancelling()):
                raise
            raise _closed() from None

    async def wait_until_signed(self, name: str) -> None:
        """Wait until nothing is being signed under a name, even if this is cancelled meanwhile."""
        publication = self._publications.get(name)
        if publication is not None:
            await wait_to_end(publication.publishing)

    async def add(self, name: str, block: Sealed) -> Sealed | None:
        """Serve a signed block, and hold it; the block that is served.

        That may be another than ``block``, which is then not verified. ``None``: it is damaged.
        """
        return await self._hold(name, lambda: self._network.publish_sealed(name, block))

    def start_serving(self, name: str, block: Sealed, on_damage: Callable[[], None]) -> bool:
        """Start to serve a verified block, and hold it; false: another of the name is served.

        Its requesters wait from now on; ``on_damage`` is called if it cannot be served.
        """
        if name in self._publications:
            return False

        def ended(serving: asyncio.Future[Sealed | None]) -> None:
            if not serving.cancelled() and (serving.exception() or serving.result() is None):
                on_damage()

        publication = self._begin(name, lambda: self._network.publish_sealed(name, block))
        publication.publishing.add_done_callback(ended)
        return True

    def adopt(self, name: str, block: Sealed) -> bool:
        """Hold a block that the network serves on its own; false: another of the name is served."""
        if name in self._publications:
            return False
        served: asyncio.Future[Sealed | None] = asyncio.get_running_loop().create_future()
        served.set_result(block)
        self._publications[name] = _Publication(served, holders=1)
        self._network.adopt(name)
        return True

    def hold(self, name: str) -> None:
        """Hold a block that another part holds already."""
        if not self._is_closed:
            self._publications[name].holders += 1

    def release(self, name: str) -> None:
        """End one hold of a block."""
        # After close, nothing is held.
        publication = self._publications.get(name)
        if publication is not None:
            self._release(name, publication)

    def expect(self, name: str) -> None:
        """Let requesters of the block wait while nobody holds it."""
        self._expected.add(name)
        if name not in self._publications:
            self._network.expect(name)

    def refuse(self, name: str) -> None:
        """Refuse requesters of the block while nobody holds it."""
        self._expected.discard(name)
        if name not in self._publications:
            self._network.withdraw(name)

    def close(self) -> None:
        """Serve nothing from now on; whoever waits for a publication gets an error."""
        self._is_closed = True
        for name, publication in self._publications.items():
            publication.publishing.cancel()
            self._network.withdraw(name)
        for name in self._expected - set(self._publications):
            self._network.withdraw(name)
        self._publications.clear()
        self._expected.clear()

    def _begin(self, name: str, publish: Callable[[], Awaitable[Sealed | None]]) -> _Publication:
        if self._is_closed:
            raise _closed()
        publication = _Publication(asyncio.ensure_future(publish()), holders=1)
        self._publications[name] = publication
        return publication

    async def _hold(
        self, name: str, publish: Callable[[], Awaitable[Sealed | None]]
    ) -> Sealed | None:
        publication = self._publications.get(name)
        if publication is None:
            publication = self._begin(name, publish)
        else:
            publication.holders += 1
        held = None
        try:
            held = await self.published(publication.publishing)
        finally:
            if held is None:
                self._release(name, publication)
        return held

    def _release(self, name: str, publication: _Publication) -> None:
        publication.holders -= 1
        if publication.publishing.done():
            self._end(name, publication)
        else:
            # A publication in progress cannot be withdrawn, but another part may hold it meanwhile.
            publication.publishing.add_done_callback(lambda _: self._end(name, publication))

    def _end(self, name: str, publication: _Publication) -> None:
        if publication.holders or self._publications.get(name) is not publication:
            return
        del self._publications[name]
        self._network.end_serving(name)
        if name in self._expected:
            self._network.expect(name)


def _closed() -> KVError:
    return KVError("the pool is closed and serves no blocks; open another")


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
        delivered_s: when its last block arrived.
        asked_again_s: after a block was late: when it is asked for blocks again.
    """

    delivered_s: float = -math.inf
    asked_again_s: float | None = None


class DeferredIndex:
    """Index of blocks that are homed here but still held only by their producer.

    An entry stays when its block has arrived, so that the block can be fetched again after its
    eviction. It is removed when its producer no longer has the block; beyond a limit the oldest
    entry is removed.

    A producer that delivers nothing while a block is late is not asked for a while; its entries
    stay, because packets may have been lost. If it is late again after that, they are removed.
    """

    def __init__(self, timeout_s: float, leave_out_s: float) -> None:
        """
        Args:
            timeout_s: for a block to arrive.
            leave_out_s: how long a late producer is not asked.
        """
        self._timeout_s = timeout_s
        self._leave_out_s = leave_out_s
        self._blocks: OrderedDict[str, DeferredBlock] = OrderedDict()
        self._sources: defaultdict[str, _Source] = defaultdict(_Source)

    def __contains__(self, name: str) -> bool:
        return name in self._blocks

    def get(self, name: str) -> DeferredBlock | None:
        """Who has a block."""
        return self._blocks.get(name)

    def add(self, name: str, block: DeferredBlock) -> str | None:
        """Enter a block; the oldest one, to be removed, if there are too many."""
        self._blocks[name] = block
        self._blocks.move_to_end(name)
        return next(iter(self._blocks)) if len(self._blocks) > _MOST_DEFERRED else None

    def remove(self, name: str) -> bool:
        """Forget who has a block; whether that was known."""
        return self._blocks.pop(name, None) is not None

    def may_ask(self, source: str, now_s: float) -> bool:
        """Whether the producer is not left out after being late."""
        asked_again_s = self._sources[source].asked_again_s
        return asked_again_s is None or now_s >= asked_again_s

    def on_delivered(self, source: str, now_s: float) -> None:
        """A block of the producer arrived."""
        self._sources[source] = _Source(delivered_s=now_s)

    def on_late(self, source: str, began_s: float) -> list[str]:
        """A block of the producer, requested at ``began_s``, is late; blocks to be removed."""
        state = self._sources[source]
        if state.delivered_s >= began_s:
            return []
        if state.asked_again_s is None or began_s < state.asked_again_s:
            state.asked_again_s = began_s + self._timeout_s + self._leave_out_s
            return []
        del self._sources[source]
        return [name for name, block in self._blocks.items() if block.source == source]


class LocalStore:
    """A store for this node itself. What is read from disk is verified before use, as the disk may
    be damaged or written to by others.

    Attributes:
        tiers: where the blocks are.
    """

    def __init__(self, tiers: TieredStore, served: ServedBlocks) -> None:
        """
        Args:
            tiers: where the blocks are.
            served: verifies blocks, in that it serves none with other bytes than were signed.
        """
        self.tiers = tiers
        self._served = served
        self._loading: SingleFlight[str, Sealed | None] = SingleFlight()

    async def get(self, name: str) -> tuple[Sealed, Tier] | None:
        """The block and the tier that had it; ``None``: it is not here, or is damaged."""
        block = self.tiers.memory.get(name)
        if block is not None:
            return block, Tier.MEMORY
        block = await self.load(name)
        return None if block is None else (block, Tier.DISK)

    async def load(self, name: str) -> Sealed | None:
        """Copy a block from disk to memory."""
        if self.tiers.tier(name) is not Tier.DISK:
            return None
        return await self._loading.run(name, lambda: self._load(name))

    async def keep(self, name: str, block: Sealed, depth: int) -> bool:
        """Keep a verified block; false: there is no room."""
        return self.put(name, block, depth)

    def put(self, name: str, block: Sealed, depth: int) -> bool:
        """Keep a verified block; false: there is no room."""
        return self.tiers.put(name, block, depth) is not None

    def loaded(self, name: str) -> None:
        """A block came from disk; it is served at this moment and may not be in memory."""

    async def _load(self, name: str) -> Sealed | None:
        read = await self.tiers.read_disk(name)
        if read is None:
            return None
        block = await self._served.add(name, read)
        if block is None:
            self.tiers.remove_damaged(name)
            return None
        try:
            self.tiers.promote(name, block)
            self.loaded(name)
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

    def __init__(
        self, tiers: TieredStore, served: ServedBlocks, index: DeferredIndex, linger_s: float
    ) -> None:
        """
        Args:
            tiers: where the blocks are.
            served: of this node.
            index: of deferred blocks.
            linger_s: how long a block without room is served after it was loaded from disk, or
                fetched for its requesters.
        """
        super().__init__(tiers, served)
        self.index = index
        self._linger_s = linger_s
        self._in_memory: set[str] = set()
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._without_room: dict[str, Sealed] = {}
        tiers.on_change = self._changed

    async def start(self, prefix: str) -> None:
        """Serve the blocks on disk whose names begin with ``prefix``."""
        names = [name for name in self.tiers.disk_names() if name.startswith(prefix)]
        for count, name in enumerate(names):
            if self.tiers.tier(name) is Tier.DISK:
                self._served.expect(name)
            if count % _NAMES_AT_A_TIME == 0:
                await asyncio.sleep(0)  # there may be many, and other tasks need the event loop

    async def keep(self, name: str, block: Sealed, depth: int) -> bool:
        """Keep and serve a verified block; false: there is no room, or another block of the name,
        which is being served, is damaged."""
        if not self._served.start_serving(name, block, lambda: self._drop(name)):
            served = await self._served.add(name, block)
            if served is None:
                return False
            block = served
        try:
            return self._put_or_linger(name, block, depth)
        finally:
            self._served.release(name)

    def adopt(self, name: str, block: Sealed, depth: int) -> bool | None:
        """Keep a block that the network serves on its own; false: there is no room, and ``None``:
        another of the name is served."""
        if not self._served.adopt(name, block):
            return None
        try:
            return self.put(name, block, depth)
        finally:
            self._served.release(name)

    def defer(self, name: str, block: DeferredBlock) -> None:
        """Enter a block of a producer; its requesters wait until it is fetched from there."""
        oldest = self.index.add(name, block)
        if self.tiers.tier(name) is None:
            self._served.expect(name)
        if oldest is not None:
            self.forget(oldest)

    def forget(self, name: str) -> None:
        """Forget who has a block, and refuse its waiting requesters."""
        if self.index.remove(name) and self.tiers.tier(name) is None:
            self._served.refuse(name)

    def refuse(self, name: str) -> None:
        """Refuse the waiting requesters of a deferred block; later ones wait again."""
        if name in self.index and self.tiers.tier(name) is None:
            self._served.refuse(name)
            self._served.expect(name)

    def lingering(self, name: str) -> Sealed | None:
        """A block without room that is served to its present requesters."""
        return self._without_room.get(name)

    def loaded(self, name: str) -> None:
        if name in self._in_memory:
            return
        self._served.hold(name)
        self._stop_lingering(name)
        loop = asyncio.get_running_loop()
        self._lingering[name] = loop.call_later(self._linger_s, self._stop_lingering, name)
        if len(self._lingering) > _MOST_LINGERING:
            self._stop_lingering(next(iter(self._lingering)))

    def close(self) -> None:
        """Serve nothing any more."""
        for timer in self._lingering.values():
            timer.cancel()
        self._lingering.clear()
        self._without_room.clear()
        self.tiers.on_change = lambda name, tier: None

    def _put_or_linger(self, name: str, block: Sealed, depth: int) -> bool:
        if self.put(name, block, depth):
            return True
        if name in self.index:
            self.loaded(name)
            self._without_room[name] = block
        return False

    def _drop(self, name: str) -> None:
        self._stop_lingering(name)
        self.tiers.remove(name)

    def _stop_lingering(self, name: str) -> None:
        timer = self._lingering.pop(name, None)
        self._without_room.pop(name, None)
        if timer is not None:
            timer.cancel()
            self._served.release(name)

    def _changed(self, name: str, tier: Tier | None) -> None:
        if tier is Tier.MEMORY:
            if name not in self._in_memory:
                self._in_memory.add(name)
                self._served.hold(name)
            return
        if tier is Tier.DISK or name in self.index:
            self._served.expect(name)
        else:
            self._served.refuse(name)
        if name in self._in_memory:
            self._in_memory.remove(name)
            self._served.release(name)
        if tier is None:
            self._stop_lingering(name)
