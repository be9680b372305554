"""What a member does for others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.answers import Answer
from innet.kv.pool.leases import Leases
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork, Outcome
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.single_flight import SingleFlight
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool.tiers.tiered import Tier
from innet.kv.requests import Drop, Keep, Pin, Request, Unpin, is_request

_DONE = Answer(True)
_MOST_REQUESTS = 4096
"""Requests that are dealt with at once. More are left to end at their askers' deadlines."""


class Home:
    """Answers what this node is asked: blocks that are on disk are loaded, requests are done."""

    def __init__(
        self,
        network: BlockNetwork,
        store: OfferedStore,
        members: Members,
        settings: PoolSettings,
        counts: PoolStatistics,
    ) -> None:
        """
        Args:
            network: of this node.
            store: for blocks that others may ask for.
            members: of the pool.
            settings: of the pool.
            counts: where to count what is done.
        """
        self.leases = Leases(store.tiers, settings.longest_lease_s)
        self._network = network
        self._store = store
        self._members = members
        self._settings = settings
        self._counts = counts
        self._keeping: SingleFlight[str, Answer] = SingleFlight()
        self._window = asyncio.Semaphore(settings.window)
        self._requests: dict[str, asyncio.TimerHandle | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answer until cancelled, or until the network is closed."""
        try:
            while True:
                for name in await self._network.asked():
                    self._on_asked(name)
        except KVError:
            return  # the network is closed
        finally:
            self._close()

    async def keep(self, key: BlockKey, depth: int, source: str) -> Answer:
        """Have a block, from ``source`` if it is not here."""
        name = key.name
        if self._store.tiers.tier(name) is not None:
            self._store.tiers.use(name)
            return _DONE
        return await self._keeping.run(name, lambda: self._fetch(name, depth, source))

    def _on_asked(self, name: str) -> None:
        if is_request(name):
            if name not in self._requests and len(self._requests) < _MOST_REQUESTS:
                self._requests[name] = None
                self._begin(self._answer(name))
            return
        tier = self._store.tiers.tier(name)
        if tier is not None:
            self._counts.served += 1
            self._store.tiers.use(name)
        if tier is Tier.DISK:
            self._begin(self._load(name))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for name, timer in self._requests.items():
            if timer is not None:
                timer.cancel()
                self._network.withdraw(name)

    async def _load(self, name: str) -> None:
        async with self._window:
            await self._store.load(name)

    async def _answer(self, name: str) -> None:
        try:
            answer = await self._done(Request.parse(name))
        except KVError:
            answer = Answer(False, "no such request")
        if not answer.done:
            self._counts.refused[answer.cause] += 1
        try:
            await self._network.publish(name, answer.encoded())
        except KVError:
            return  # the network is closed
        timer = asyncio.get_running_loop().call_later(self._settings.answer_s, self._forget, name)
        self._requests[name] = timer

    def _forget(self, name: str) -> None:
        self._requests.pop(name)
        self._network.withdraw(name)

    async def _done(self, request: Request) -> Answer:
        name, action = request.action.block.name, request.action
        match action:
            case Keep(block, depth, source):
                answer = await self.keep(block, self._members.own_depth(depth), source)
                self._counts.kept[request.asker] += answer.done
                return answer
            case Pin(_, lease_ms):
                pinned = self.leases.pin(name, request.asker, lease_ms / 1000)
                return _DONE if pinned else Answer(False, "no such block, or too much is pinned")
            case Unpin():
                self.leases.unpin(name, request.asker)
                return _DONE
            case Drop():
                gone = self.leases.drop(name, request.asker)
                return _DONE if gone else Answer(False, "another has pinned it")

    async def _fetch(self, name: str, depth: int, source: str) -> Answer:
        if not self._store.tiers.capacity_bytes:
            return Answer(False, "no memory is offered")
        async with self._window:
            outcome, block = await self._network.fetch(name, source, self._settings.put_timeout_s)
        if block is None or outcome is not Outcome.HERE:
            return Answer(False, f"the block is {outcome.value}")
        kept = await self._store.keep(name, block, depth)
        return _DONE if kept else Answer(False, "no room")
