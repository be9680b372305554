"""Pools at some nodes, whatever is done with them and whatever fails, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from innet.kv.eviction import POLICIES, PolicyName
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool, DiskTier, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.block_database import BlockDatabase, record_bytes
from innet.kv.pool.peers import Placement
from tests.kv.fake_network import FakeFabric, VirtualTime
from tests.kv.pools import ROOM, ROOT_BYTES, SIZE, InlineDisk, contents, key

Result = TypeVar("Result")

MEMBERS = ("h0", "h1", "h2")
NODES = (*MEMBERS, "user")
BLOCKS = st.integers(0, 9)
SOME_BLOCKS = st.lists(BLOCKS, min_size=1, max_size=6)
RECORD = record_bytes(key(0).name, ROOT_BYTES, SIZE)


def tiers(memory_blocks: int, disk_blocks: int, policy: PolicyName, file: Path) -> TieredStore:
    memory = MemoryTier(memory_blocks * ROOM, policy)
    if not disk_blocks:
        return TieredStore(memory)
    capacity_bytes = disk_blocks * RECORD
    database = BlockDatabase(file, capacity_bytes)
    return TieredStore(memory, DiskTier(database, capacity_bytes, policy, InlineDisk()))


class PoolStates(RuleBasedStateMachine):
    """Does things one after the other, and several at once."""

    def __init__(self) -> None:
        super().__init__()
        self.time = VirtualTime()
        self.folder = TemporaryDirectory()
        self.pools: dict[str, BlockPool] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.time.run(work)

    def here(self, node: str, block: BlockKey) -> bool:
        return self.run(self.pools[node].exists(block, timeout_s=0.0))

    @initialize(
        policy=st.sampled_from(POLICIES),
        replicas=st.integers(1, 2),
        puts=st.sampled_from(["at-once", "when-asked", "balanced"]),
        keeps_fetched=st.booleans(),
        memory_blocks=st.integers(0, 5),
        disk_blocks=st.integers(0, 5),
        local_blocks=st.integers(0, 3),
    )
    def start(
        self,
        policy: PolicyName,
        replicas: int,
        puts: Any,
        keeps_fetched: bool,
        memory_blocks: int,
        disk_blocks: int,
        local_blocks: int,
    ) -> None:
        self.fabric = FakeFabric(dict.fromkeys(MEMBERS, 1), others=("user",))
        self.members_have_room = memory_blocks > 0 or disk_blocks > 0
        self.sound = True
        chosen = PoolSettings(replicas, window=2, puts=puts, keeps_fetched=keeps_fetched)

        async def start() -> None:
            for node in NODES:
                file = Path(self.folder.name, node)
                offers, shares = node in MEMBERS, chosen.shares_store
                offered = tiers(memory_blocks, disk_blocks, policy, file) if offers else None
                local = offered if shares else None
                pool = BlockPool(
                    self.fabric.network(node),
                    local=local or tiers(local_blocks, disk_blocks * (not offers), policy, file),
                    offered=offered,
                    settings=chosen,
                )
                await pool.start()
                self.pools[node] = pool

        self.run(start())

    @rule(
        puts=st.lists(st.tuples(st.sampled_from(NODES), BLOCKS), max_size=5),
        gets=st.lists(
            st.tuples(st.sampled_from(NODES), BLOCKS, st.sampled_from([0.0, 0.002, 5.0])),
            max_size=5,
        ),
    )
    def put_and_get(self, puts: list[tuple[str, int]], gets: list[tuple[str, int, float]]) -> None:
        """At once. Arrays that were put are used for something else afterwards."""

        async def put(node: str, number: int) -> None:
            array = contents(number)
            copies = await self.pools[node].put(key(number), array, depth=number)
            assert 0 <= copies <= 2
            array[:] = 0

        async def get(node: str, number: int, timeout_s: float) -> None:
            got = await self.pools[node].get(key(number), timeout_s=timeout_s)
            assert got is None or np.array_equal(got, contents(number))

        async def both() -> None:
            await asyncio.gather(*(put(*one) for one in puts), *(get(*one) for one in gets))

        self.run(both())

    @precondition(lambda self: self.sound and self.members_have_room)
    @rule(putter=st.sampled_from(NODES), getter=st.sampled_from(NODES), number=BLOCKS)
    def what_is_put_is_got_while_nothing_fails(self, putter: str, getter: str, number: int) -> None:
        async def both() -> None:
            if await self.pools[putter].put(key(number), contents(number)):
                got = await self.pools[getter].get(key(number))
                assert got is not None
                assert np.array_equal(got, contents(number))

        self.run(both())

    @rule(node=st.sampled_from(NODES), number=BLOCKS, after_s=st.sampled_from([0.0, 0.001, 0.003]))
    def give_up(self, node: str, number: int, after_s: float) -> None:
        async def begin_and_cancel() -> None:
            work = [
                asyncio.ensure_future(self.pools[node].get(key(number))),
                asyncio.ensure_future(self.pools[node].put(key(number), contents(number))),
            ]
            await asyncio.sleep(after_s)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

        self.run(begin_and_cancel())

    @rule(
        node=st.sampled_from(NODES),
        numbers=SOME_BLOCKS,
        lease_s=st.sampled_from([0.5, 20.0, 1000.0]),
    )
    def pin(self, node: str, numbers: list[int], lease_s: float) -> None:
        self.run(self.pools[node].pin([key(n) for n in numbers], lease_s))

    @precondition(lambda self: self.sound)
    @rule(node=st.sampled_from(NODES), getter=st.sampled_from(NODES), number=BLOCKS)
    def what_is_pinned_is_got_whatever_is_put(self, node: str, getter: str, number: int) -> None:
        async def whole() -> None:
            if (await self.pools[node].pin([key(number)], 20.0))[0]:
                others = [(key(n), contents(n)) for n in range(10) if n != number]
                await self.pools[node].put_many(others)
                got = await self.pools[getter].get(key(number))
                # A node's own pin of what no home has keeps it for that node.
                assert got is not None or getter != node

        self.run(whole())

    @rule(node=st.sampled_from(NODES), numbers=SOME_BLOCKS)
    def unpin(self, node: str, numbers: list[int]) -> None:
        self.run(self.pools[node].unpin([key(n) for n in numbers]))

    @rule(node=st.sampled_from(NODES), numbers=SOME_BLOCKS)
    def evict(self, node: str, numbers: list[int]) -> None:
        keys = [key(n) for n in numbers]
        gone = self.run(self.pools[node].evict(keys))
        placement = Placement(self.fabric.members, replicas=1) if self.fabric.members else None
        for evicted in (one for one, is_gone in zip(keys, gone, strict=True) if is_gone):
            places = {node} | set(placement.homes(evicted.block_hash) if placement else ())
            for place in places if self.sound else {node}:
                assert not self.here(place, evicted)

    @rule(
        node=st.sampled_from(NODES),
        numbers=SOME_BLOCKS,
        nodes=st.none() | st.lists(st.sampled_from(NODES), max_size=3),
    )
    def prefetch(self, node: str, numbers: list[int], nodes: list[str] | None) -> None:
        self.run(self.pools[node].prefetch([key(n) for n in numbers], nodes=nodes))

    @rule(node=st.sampled_from(NODES))
    def count_prefix(self, node: str) -> None:
        assert 0 <= self.run(self.pools[node].count_prefix([key(n) for n in range(10)])) <= 10

    @rule(
        node=st.sampled_from(MEMBERS),
        alive=st.booleans(),
        reachable=st.booleans(),
        forges=st.booleans(),
    )
    def change(self, node: str, alive: bool, reachable: bool, forges: bool) -> None:
        state = self.fabric.nodes[node]
        state.alive, state.reachable, state.forges = alive, reachable, forges
        self.sound = False
        state.change()

    @rule(node=st.sampled_from(MEMBERS))
    def join_or_leave(self, node: str) -> None:
        if self.fabric.members.pop(node, None) is None:
            self.fabric.members[node] = 1

    @rule(seconds=st.sampled_from([0.01, 6.0]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule()
    def recover(self) -> None:
        """Everything that has failed works again, and that has got about."""
        for state in self.fabric.nodes.values():
            state.alive, state.reachable, state.forges = True, True, False
            state.change()
        self.run(asyncio.sleep(700.0))
        self.sound = True
        for node, pool in self.pools.items():
            served = self.fabric.nodes[node].serves
            assert all(self.here(node, BlockKey.parse(name)) for name in served)
            assert all(tier.pinned_bytes == 0 for tier in pool.statistics().tiers.values())

    @invariant()
    def no_tier_has_more_than_it_may(self) -> None:
        for pool in self.pools.values():
            for tier in pool.statistics().tiers.values():
                assert 0 <= tier.used_bytes <= tier.capacity_bytes
                assert 0 <= tier.pinned_bytes <= tier.capacity_bytes / 2
                assert tier.damaged == tier.failed == 0

    def teardown(self) -> None:
        async def close() -> None:
            for pool in self.pools.values():
                await pool.close()

        self.run(close())
        for node, state in self.fabric.nodes.items():
            assert not state.serves, node
            assert not state.expected, node
        self.time.close()
        self.folder.cleanup()


TestPoolStates = PoolStates.TestCase
TestPoolStates.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
