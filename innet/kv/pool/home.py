"""A node as home of blocks: it keeps and serves them, and answers requests of other members."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from innet.errors import KVError
from innet.kv.pool.bulk_work import BulkWork
from innet.kv.pool.inventory import BulkAnswer, BulkRequest
from innet.kv.pool.network import (
    Cause,
    Contents,
    KeepOptions,
    KeepOutcome,
    KeptBlock,
    NetworkEvent,
    Sealed,
    UnfinishedRequest,
)
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.requests import (
    DONE,
    NOTED,
    Answer,
    Drop,
    Keep,
    Note,
    Offer,
    Pin,
    PoolRequest,
    Unpin,
    is_request,
    summary_version,
)
from innet.kv.pool.store import DeferredBlock, LocalStore, Tier
from innet.kv.pool.summary import POPULAR, Summary
from innet.kv.pool.waiting import SingleFlight, gather, now_s

Result = TypeVar("Result")

PART_FOR_FETCHING: Final = 0.9
"""Share of a put's timeout for fetching blocks. The rest is for the answer, which one late block of
a request must not delay."""

_PART_UNREPORTED: Final = 1 / 16
_MOST_UNREPORTED_BYTES: Final = 64 << 20
"""Limits of the blocks that the network keeps before it reports them: a share of the offered
memory, and a number of bytes. They come on top of the blocks in that memory."""
_MOST_REQUESTS: Final = 4096
"""Requests in progress. More are not answered: they time out at their requesters."""
_MOST_ANSWERS: Final = 4096
"""Answers that can be requested again. Beyond this number, the oldest are withdrawn early."""
_FAILED: Final = "failed"

_log = logging.getLogger(__name__)


class Home:
    """This node as home of blocks.

    It executes requests, registers the blocks that the network keeps on its own, and loads
    requested blocks into memory, from disk or from the producer that still holds them.
    """

    def __init__(self, node: PoolNode) -> None:
        """``node`` is this node's part of the pool."""
        self._node = node
        self._network = node.network
        self._members = node.members
        self._settings = node.settings
        self._counts = node.counts
        self._store = node.store
        self.bulk = BulkWork(node, self.drain_requests)
        self.bulk.on_lease = self._watch_leases
        self._summary = Summary(node.store.tiers.memory)
        if node.directory is not None:  # otherwise no member asks for summaries
            node.store.watch(self._summary.on_tier)
        self._lease_timer: asyncio.TimerHandle | None = None
        # Requesters wait longer than the home waits for the producer, so that they do not
        # take the home for dead when the producer is.
        self._deferred_timeout_s = node.settings.timeout_s / 2
        self._fetches: SingleFlight[str, str | None] = SingleFlight()
        self._fetch_window = asyncio.Semaphore(node.settings.window)
        self._disk_window = asyncio.Semaphore(node.settings.window)
        self._requests: set[str] = set()
        self._answers: dict[str, asyncio.TimerHandle] = {}  # in the order of publication
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_serving = False

    async def serve(self) -> None:
        """Serve other nodes until cancelled, or until the network is closed."""
        try:
            self._start_keeping()
            self._is_serving = True
            while True:
                self._handle(await self._network.next_events())
        except KVError:
            return  # the network is closed
        finally:
            self._stop()

    def close(self) -> None:
        """End all leases, and stop serving blocks."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        for store in self._node.stores:
            store.close()

    def has(self, name: str) -> bool:
        """Whether this node has a block. This does not count as a use."""
        if self.has_now(name):
            return True
        if not self._store.tiers.memory.capacity_bytes:  # the network keeps nothing
            return False
        self.drain_requests()
        return self.has_now(name)

    def has_now(self, name: str) -> bool:
        """:meth:`has`, without draining the events of blocks that the network has kept."""
        return self._store.tier(name) is not None or self._node.local.tier(name) is not None

    async def get(self, name: str) -> Sealed | None:
        """A block from one of this node's stores."""
        self.drain_kept()
        for store in (self._node.local, self._store):
            found = await store.get(name)
            if found is not None:
                return found[0]
        return None

    def drain_requests(self) -> None:
        """Handle pending requests now, and register the blocks that the network kept on its own.

        Without effect while :meth:`serve` does not run: the events are for others of this node.
        """
        if self._is_serving:
            self._handle(self._network.take_events())

    def drain_kept(self) -> None:
        """:meth:`drain_requests`, if this home offers memory: else the network keeps no block."""
        if self._store.tiers.memory.capacity_bytes:
            self.drain_requests()

    async def fetch_deferred(self, name: str) -> bool:
        """Fetch a deferred block from its producer; whether it is here now, if only for a while."""
        if self._store.lingering(name) is not None:
            return True
        entry = self._store.index.get(name)
        is_here = self._store.tier(name) is not None
        if entry is None:
            return is_here
        loop, index = asyncio.get_running_loop(), self._store.index
        began_s = loop.time()
        if not is_here and not index.may_ask(entry.source, began_s):
            self._store.refuse(name)
            return False
        refusal = await self._fetch(name, entry.depth, entry.source, self._deferred_timeout_s)
        if refusal is None or self._store.lingering(name) is not None:
            index.on_delivered(entry.source, loop.time())
            self._store.tiers.memory.use(name)  # it was fetched because of a request
            return True
        if loop.time() < began_s + self._deferred_timeout_s:
            self._store.forget(name)
            return False
        outdated = index.on_late(entry.source, began_s, loop.time())
        for each in outdated:
            self._store.forget(each)
        if not outdated:
            self._store.refuse(name)
        return False

    async def pin(self, name: str, lease_s: float) -> bool:
        """Protect a block from eviction, in one of this node's stores; whether it is here."""
        return await self._pin(name, self._network.node, lease_s, self._node.stores)

    def unpin(self, name: str, holder: str) -> None:
        """End a holder's leases of a block."""
        for store in self._node.stores:
            store.unpin(name, holder)

    def drop(self, name: str, holder: str) -> bool:
        """End a holder's leases, and drop the block unless another holder has one; whether it is
        gone."""
        self._store.forget(name)
        gone = [store.drop(name, holder) for store in self._node.stores]
        return all(gone)

    async def _pin(
        self, name: str, holder: str, lease_s: float, stores: Sequence[LocalStore]
    ) -> bool:
        await self.fetch_deferred(name)
        pinned = any(store.pin(name, holder, lease_s, now_s()) for store in stores)
        self._watch_leases()
        return pinned

    def _watch_leases(self) -> None:
        """Set the timer to the end of the next lease."""
        end_s = min(store.next_lease_end_s for store in self._node.stores)
        if self._lease_timer is not None:
            if self._lease_timer.when() == end_s:
                return
            self._lease_timer.cancel()
            self._lease_timer = None
        if end_s < math.inf:
            self._lease_timer = asyncio.get_running_loop().call_at(end_s, self._expire_leases)

    def _expire_leases(self) -> None:
        self._lease_timer = None
        for store in self._node.stores:
            store.expire_leases(now_s())
        self._watch_leases()

    def _start_keeping(self) -> None:
        """Let the network keep blocks on its own, if this home offers memory."""
        if self._store.tiers.memory.capacity_bytes:
            self._network.start_keeping(
                KeepOptions(
                    DONE.encoded().tobytes(),
                    self._settings.window,
                    PART_FOR_FETCHING * self._settings.put_timeout_s,
                    self._settings.answer_s,
                    self._room_bytes(),
                )
            )

    def _room_bytes(self) -> int:
        """Room for blocks that the network keeps on its own: all of them can be inserted without
        evicting one of them, so this home refuses none."""
        memory = self._store.tiers.memory
        most_bytes = min(int(_PART_UNREPORTED * memory.capacity_bytes), _MOST_UNREPORTED_BYTES)
        return min(most_bytes, memory.room_for_new_bytes)

    def _handle(self, events: Sequence[NetworkEvent]) -> None:
        for event in events:
            if isinstance(event, KeptBlock):
                self._on_kept(event)
            elif isinstance(event, UnfinishedRequest):
                self._on_request(event.name, event.blocks)
            elif is_request(event):
                self._on_request(event, ())
            else:
                self._on_block_requested(event)
        self._network.grant_room(self._room_bytes())

    def _on_kept(self, kept: KeptBlock) -> None:
        depth = self._members.own_depth(kept.depth)
        has_room = self._store.adopt(kept.name, kept.block, depth) if kept.is_served else None
        if has_room is None:
            self._begin(self._keep_beside(kept, depth))
        elif has_room:
            for requester in kept.requesters:  # update() takes as long as all of the above
                self._counts.kept[requester] += 1

    async def _keep_beside(self, kept: KeptBlock, depth: int) -> None:
        """Keep a block under whose name another one was published meanwhile."""
        try:
            if await self._store.keep(kept.name, kept.block, depth):
                self._counts.kept.update(kept.requesters)
        except KVError as error:
            _log.info("%s is not kept: %s", kept.name, error)

    def _on_request(self, name: str, outcomes: Sequence[KeepOutcome]) -> None:
        is_new = name not in self._requests and name not in self._answers
        if is_new and len(self._requests) < _MOST_REQUESTS:
            self._requests.add(name)
            self._begin(self._answer(name, outcomes))

    def _on_block_requested(self, name: str) -> None:
        memory, tier = self._store.tiers.memory, self._store.tier(name)
        entry = memory.entry(name)
        if entry is not None:
            entry.asked += 1
            if entry.asked == POPULAR:
                self._summary.on_tier(name, Tier.MEMORY)
        self._counts.served += tier is not None
        node = self._network.node
        if self._node.directory is not None and node not in self._network.members():
            memory.demote(name)  # only homes request it, and have it afterwards: this is a copy
        else:
            memory.use(name)
        if tier is None:
            if name in self._store.index:
                self._begin(self._fetch_deferred_for_others(name))
        elif tier is not Tier.MEMORY:
            self._begin(self._load(name))

    async def _load(self, name: str) -> None:
        async with self._disk_window:
            await self._store.load(name)

    async def _fetch_deferred_for_others(self, name: str) -> None:
        fetched = await self.fetch_deferred(name)
        self._counts.brought += fetched
        self._counts.served += fetched

    async def _answer(self, name: str, outcomes: Sequence[KeepOutcome]) -> None:
        contents = await self._answer_to(name, outcomes)
        try:
            await self._network.publish(name, contents)
        except KVError as error:  # the network is closed, or the node stops
            _log.info("no answer to %s: %s", name, error)
            return
        finally:
            self._requests.discard(name)
        timer = asyncio.get_running_loop().call_later(self._settings.answer_s, self._forget, name)
        self._answers[name] = timer
        if len(self._answers) > _MOST_ANSWERS:
            self._forget(next(iter(self._answers)))

    def _forget(self, name: str) -> None:
        self._answers.pop(name).cancel()
        self._network.withdraw(name)

    async def _answer_to(self, name: str, outcomes: Sequence[KeepOutcome]) -> Contents:
        if (known := summary_version(name)) is not None:
            return await self._summary.answer(known)
        failed = Answer(False, _FAILED)
        try:
            if (bulk := BulkRequest.of_name(name)) is not None:
                unable = BulkAnswer(done=False, cause=_FAILED)
                done = await self._result_or(name, self.bulk.execute(bulk), unable)
                return done.encoded()
            work = self._execute(PoolRequest.parse(name), outcomes)
            answer = await self._result_or(name, work, failed)
        except KVError:
            answer = Answer(False, "no such request")
        if not answer.done:
            self._counts.refused.update(answer.refusals())
        return answer.encoded()

    async def _execute(self, request: PoolRequest, outcomes: Sequence[KeepOutcome]) -> Answer:
        name, action, requester = request.block.name, request.action, request.requester
        match action:
            case Keep():
                return Answer.of_blocks(await self._keep_all(action, requester, outcomes))
            case Note() | Offer() if self._node.purges.refuse(name):
                return Answer(False, "purged")
            case Note(_, depth, source):
                self._store.defer(name, DeferredBlock(self._members.own_depth(depth), source))
                return DONE
            case Offer():
                return self._take_or_note(action)
            case Pin(_, lease_ms):
                # Not this node's own copy: others cannot request that.
                pinned = await self._pin(name, requester, lease_ms / 1000, [self._store])
                return DONE if pinned else Answer(False, "no such block, or too much is pinned")
            case Unpin():
                self.unpin(name, requester)
                return DONE
            case Drop():
                gone = self.drop(name, requester)
                return DONE if gone else Answer(False, "another has pinned it")

    async def _keep_all(
        self, keep: Keep, requester: str, outcomes: Sequence[KeepOutcome]
    ) -> list[str | None]:
        """For each block ``None``, or why it is not kept; an error with one affects no other.

        ``outcomes`` of the network's own attempts; empty if it made none.
        """
        return await gather(
            [
                self._keep(block.name, depth, keep.source, requester, outcome)
                for (block, depth), outcome in zip(
                    keep.blocks, outcomes or [False] * len(keep.blocks), strict=True
                )
            ]
        )

    async def _keep(
        self, name: str, depth: int, source: str, requester: str, outcome: KeepOutcome
    ) -> str | None:
        if outcome is True:
            return None
        if isinstance(outcome, Cause):
            return _refusal_after(outcome)
        timeout_s = PART_FOR_FETCHING * self._settings.put_timeout_s
        fetch = self._fetch(name, self._members.own_depth(depth), source, timeout_s)
        refusal = await self._result_or(name, fetch, _FAILED)
        if refusal is None:  # a false name of a requester counts only with a block
            self._counts.kept[requester] += 1
        return refusal

    def _take_or_note(self, offer: Offer) -> Answer:
        """Whether a block stays here longer than at its producer; if not, note it."""
        if 1000 * self._store.tiers.next_wait_s > offer.wait_ms:
            return DONE
        depth = self._members.own_depth(offer.depth)
        self._store.defer(offer.block.name, DeferredBlock(depth, offer.source))
        return NOTED

    async def _fetch(self, name: str, depth: int, source: str, timeout_s: float) -> str | None:
        """Keep a block, from ``source`` if it is not here; ``None``, or why it is not kept."""
        if self._store.tier(name) is not None:
            self._store.tiers.memory.use(name)
            return None
        if not self._store.tiers.capacity_bytes:
            return "no memory is offered"

        async def fetch() -> str | None:
            async with self._fetch_window:
                block = await self._network.fetch(name, source, timeout_s)
            if isinstance(block, Cause):
                return _refusal_after(block)
            return None if await self._store.keep(name, block, depth) else "no room"

        return await self._fetches.run(name, fetch)

    async def _result_or(self, what: str, work: Awaitable[Result], failed: Result) -> Result:
        """The result of ``work``, or ``failed`` if it raises."""
        try:
            return await work
        except KVError as error:
            _log.info("%s failed: %s", what, error)
        except Exception:  # the requester would time out, and take this node for dead
            _log.exception("%s failed", what)
        return failed

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        self._is_serving = False
        self._network.stop_keeping()
        for task in self._tasks:
            task.cancel()
        for name, timer in self._answers.items():
            timer.cancel()
            self._network.withdraw(name)


def _refusal_after(cause: Cause) -> str:
    """Why a block is not kept whose fetch failed."""
    return f"the block is {cause.value}"
