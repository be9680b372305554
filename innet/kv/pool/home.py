"""What a member does for others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.answers import DONE, Answer
from innet.kv.pool.holdings import Holdings
from innet.kv.pool.intake import Intake, lack_after
from innet.kv.pool.kept_blocks import PART_FOR_FETCHING, KeptBlocks
from innet.kv.pool.members import Members
from innet.kv.pool.network import Asked, BlockNetwork, KeptBlock, Outcome, TriedRequest
from innet.kv.pool.notes import Notes
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool.tiers.tiered import Tier
from innet.kv.pool.verified_store import VerifiedStore
from innet.kv.requests import Drop, Keep, Note, Pin, Request, Unpin, is_request

Result = TypeVar("Result")

_FAILED = "failed"
_MOST_REQUESTS = 4096
"""Requests that are dealt with at once. More are left to end at their askers' deadlines."""
_MOST_ANSWERS = 4096
"""Answers that can be asked for again. Of more, the earliest are withdrawn before their time."""

_log = logging.getLogger(__name__)


class Home:
    """Answers what this node is asked: requests are done, and blocks that are not in memory come
    there, from disk or from where it is noted that they are."""

    def __init__(
        self,
        network: BlockNetwork,
        store: OfferedStore,
        local: VerifiedStore | None,
        holdings: Holdings,
        intake: Intake,
        notes: Notes,
        members: Members,
        settings: PoolSettings,
        counts: PoolStatistics,
    ) -> None:
        """
        Args:
            network: of this node.
            store: for blocks that others may ask for.
            local: what this node keeps for itself, if that is served as well; it may be ``store``.
            holdings: what this node has.
            intake: brings blocks into the store.
            notes: of blocks that are elsewhere.
            members: of the pool.
            settings: of the pool.
            counts: where to count what is done.
        """
        self._holdings = holdings
        self._network = network
        self._store = store
        self._stores = tuple(s for s in dict.fromkeys((store, local)) if s is not None)
        self._is_shared = local is store
        self._intake = intake
        self._notes = notes
        self._members = members
        self._settings = settings
        self._counts = counts
        self._kept = KeptBlocks(network, store, members, settings, counts)
        self._window = asyncio.Semaphore(settings.window)
        self._requests: set[str] = set()
        self._answers: dict[str, asyncio.TimerHandle] = {}  # in the order in which they were given
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_serving = False

    async def serve(self) -> None:
        """Answer until cancelled, or until the network is closed."""
        try:
            self._kept.start()
            self._is_serving = True
            while True:
                self._hear(await self._network.asked())
        except KVError:
            return  # the network is closed
        finally:
            self._close()

    def hear(self) -> None:
        """Take note of what this node was asked for until now: so all of it is counted, and what
        the network has kept by itself is here.

        Before and after :meth:`serve`, all of that is for others of this node to hear.
        """
        if self._is_serving:
            self._hear(self._network.asked_by_now())

    def _hear(self, asked: Sequence[Asked]) -> None:
        for one in asked:
            if isinstance(one, KeptBlock):
                self._kept.add(one)
            elif isinstance(one, TriedRequest):
                self._on_request(one.name, one.outcomes)
            elif is_request(one):
                self._on_request(one, ())
            else:
                self._on_block(one)
        self._kept.settle()

    def _on_request(self, name: str, outcomes: Sequence[Outcome | None]) -> None:
        is_new = name not in self._requests and name not in self._answers
        if is_new and len(self._requests) < _MOST_REQUESTS:
            self._requests.add(name)
            self._begin(self._answer(name, outcomes))

    def _on_block(self, name: str) -> None:
        tiers = {store: store.tiers.tier(name) for store in self._stores}
        # What this node keeps for itself goes to a home, which has it then: that is no use of it.
        if not self._is_shared or self._is_home_of(name):
            self._counts.served += tiers[self._store] is not None
            self._store.tiers.use(name)
        else:
            self._store.tiers.memory.demote(name)
        if Tier.MEMORY in tiers.values():
            return
        for store, tier in tiers.items():
            if tier is Tier.DISK:
                self._begin(self._load(store, name))
                return
        if name in self._notes:
            self._begin(self._bring(name))

    def _is_home_of(self, name: str) -> bool:
        try:
            block_hash = BlockKey.parse(name).block_hash
        except KVError:
            return False
        return self._network.node in self._members.homes(block_hash)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _close(self) -> None:
        self._is_serving = False
        self._kept.close()
        for task in self._tasks:
            task.cancel()
        for name, timer in self._answers.items():
            timer.cancel()
            self._network.withdraw(name)

    async def _load(self, store: VerifiedStore, name: str) -> None:
        async with self._window:
            await store.load(name)

    async def _bring(self, name: str) -> None:
        brought = await self._notes.bring(name)
        self._counts.brought += brought
        self._counts.served += brought

    async def _answer(self, name: str, outcomes: Sequence[Outcome | None]) -> None:
        answer = await self._answer_to(name, outcomes)
        if not answer.done:
            self._counts.refused.update(answer.lacks())
        try:
            await self._network.publish(name, answer.encoded())
        except KVError as error:  # the network is closed, or the node stops
            _log.info("there is no answer to %s: %s", name, error)
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

    async def _answer_to(self, name: str, outcomes: Sequence[Outcome | None]) -> Answer:
        try:
            request = Request.parse(name)
        except KVError:
            return Answer(False, "no such request")
        return await self._tried(name, self._done(request, outcomes), Answer(False, _FAILED))

    async def _keep_all(
        self, keep: Keep, asker: str, outcomes: Sequence[Outcome | None]
    ) -> list[str | None]:
        """For each block ``None``, or why it is not here; what ends in an error harms no other.

        Those whose outcome is known were tried by the network.
        """
        known = outcomes or [None] * len(keep.all_blocks)
        keeping = [
            self._lack_of(block.name, depth, keep.source, asker, outcome)
            for (block, depth), outcome in zip(keep.all_blocks, known, strict=True)
        ]
        # A single one needs no task of its own.
        return [await keeping[0]] if len(keeping) == 1 else await asyncio.gather(*keeping)

    async def _lack_of(
        self, name: str, depth: int, source: str, asker: str, outcome: Outcome | None
    ) -> str | None:
        if outcome is None:
            return await self._tried(name, self._keep(name, depth, source, asker), _FAILED)
        return None if outcome is Outcome.HERE else lack_after(outcome)

    async def _keep(self, name: str, depth: int, source: str, asker: str) -> str | None:
        """Have a block for ``asker``; ``None``, or why it is not here."""
        own_depth = self._members.own_depth(depth)
        timeout_s = PART_FOR_FETCHING * self._settings.put_timeout_s
        lack = await self._intake.keep(name, own_depth, source, timeout_s)
        if lack is None:  # askers may be invented: each that is counted has a block here
            self._counts.kept[asker] += 1
        return lack

    async def _tried(self, what: str, work: Awaitable[Result], failed: Result) -> Result:
        """The result of ``work``, or ``failed`` where it ends in an error."""
        try:
            return await work
        except KVError as error:
            _log.info("%s was not done: %s", what, error)
        except Exception:  # who asked would wait for its deadline, and take this node for dead
            _log.exception("%s was not done", what)
        return failed

    async def _done(self, request: Request, outcomes: Sequence[Outcome | None]) -> Answer:
        name, action = request.action.block.name, request.action
        match action:
            case Keep():
                return Answer.of_blocks(await self._keep_all(action, request.asker, outcomes))
            case Note(_, depth, source):
                self._notes.add(name, self._members.own_depth(depth), source)
                return DONE
            case Pin(_, lease_ms):
                pinned = await self._holdings.pin_for_other(name, request.asker, lease_ms / 1000)
                return DONE if pinned else Answer(False, "no such block, or too much is pinned")
            case Unpin():
                self._holdings.unpin(name, request.asker)
                return DONE
            case Drop():
                gone = self._holdings.drop(name, request.asker)
                return DONE if gone else Answer(False, "another has pinned it")
