"""Blocks that a home's node keeps by itself are registered like those that its pool fetched,
whatever happens at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pytest

from innet._native import _core
from innet.kv.eviction import PolicyName
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NodeBlockNetwork
from innet.kv.pool import BlockPool, Cause, MemoryTier, Place, PoolSettings, TieredStore
from innet.kv.pool.network import Contents, KeepOptions, KeptBlock, Sealed
from innet.kv.pool.requests import DONE, Answer, Keep, name_of_action
from innet.kv.tenant import Tenant
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import load_topology

HOME = "h0"
USERS = ("h1", "h2")
SIZE = 10_000
BLOCKS = 64
SMALL_BYTES = BLOCKS * (SIZE + 1000)
"""Of which a node fills so little by itself that its pool has to do a part."""
CAPACITY_BYTES = 10 * SMALL_BYTES
SETTINGS = PoolSettings(timeout_s=0.5, put_timeout_s=0.5)


class Cluster:
    """A home, and two users of its memory."""

    def __init__(self, sim: Simulation, tenant: Tenant, networks: dict[str, NodeBlockNetwork]):
        self.sim = sim
        self.tenant = tenant
        self.networks = networks
        self.fetched_by_home: list[str] = []
        self.pools: dict[str, BlockPool] = {}

    @property
    def home(self) -> BlockPool:
        return self.pools[HOME]

    def key(self, number: int) -> BlockKey:
        family = BlockFamily(self.tenant.component, "00ff", "raw", 0, 1)
        return BlockKey(family, number.to_bytes(32, "big"))

    async def put(self, *numbers: int, at: str = "h1", depth: int = 0) -> list[int]:
        blocks = [(self.key(n), contents(n)) for n in numbers]
        return await self.pools[at].put_many(blocks, depths=range(depth, depth + len(blocks)))

    async def got(self, number: int, *, at: str = "h2") -> bool:
        """Whether a node gets a block; it is the right one then."""
        block = await self.pools[at].get(self.key(number))
        assert block is None or np.array_equal(block, contents(number))
        return block is not None

    def is_served(self, number: int) -> bool:
        name = _core.Name(self.key(number).name)
        return self.sim.host(HOME).node.object_root(name) is not None

    def drop_caches(self) -> None:
        for switch in self.sim.topology.switches:
            self.sim.network.nodes[switch].drop_cache()

    def watch_fetches(self) -> None:
        """Note what the home's pool fetches, which its node leaves to it."""
        network = self.networks[HOME]
        fetch = network.fetch

        def noted(name: str, *rest: Any, **others: Any) -> asyncio.Future[Sealed | Cause]:
            self.fetched_by_home.append(name)
            return fetch(name, *rest, **others)

        network.fetch = noted  # type: ignore[method-assign]


def contents(number: int) -> Contents:
    return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)


def with_cluster(
    work: Callable[[Cluster], Awaitable[None]],
    *,
    policy: PolicyName = "lru",
    capacity_bytes: int = CAPACITY_BYTES,
) -> None:
    with Simulation(load_topology("star:3").with_overrides(rate_bps=1e9), seed=5) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")

        async def whole() -> None:
            async with AsyncExitStack() as stack:
                offers = {HOME: capacity_bytes} | dict.fromkeys(USERS, 0)
                networks = {
                    host: await stack.enter_async_context(
                        pools.open(host, tenant, capacity_bytes=offered)
                    )
                    for host, offered in offers.items()
                }
                cluster = Cluster(sim, tenant, networks)
                cluster.watch_fetches()
                for host, offered in offers.items():
                    cluster.pools[host] = await stack.enter_async_context(
                        BlockPool(
                            networks[host],
                            local=TieredStore(MemoryTier(0)),
                            offered=TieredStore(MemoryTier(offered, policy)),
                            settings=SETTINGS,
                        )
                    )
                await work(cluster)

        sim.run(whole())


def test_what_a_node_has_kept_is_counted_as_what_its_pool_has() -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.put(*range(10)) == [1] * 10
        assert await cluster.put(*range(10, 15), at="h2") == [1] * 5
        counted = cluster.home.statistics()
        assert counted.kept == {"h1": 10, "h2": 5}
        memory = counted.tiers["home memory"]
        assert memory.blocks == 15
        each = SIZE + _core.BOOKKEEPING_BYTES
        assert 15 * each < memory.used_bytes < 15 * (each + 1000)
        assert not cluster.fetched_by_home
        cluster.drop_caches()
        assert all([await cluster.got(number) for number in range(15)])
        assert cluster.home.statistics().served == 15

    with_cluster(work)


def test_a_node_may_keep_anew_what_its_pool_has_heard_of() -> None:
    async def work(cluster: Cluster) -> None:
        for first in range(0, 120, 4):
            assert await cluster.put(*range(first, first + 4)) == [1] * 4
        assert cluster.home.statistics().tiers["home memory"].blocks == 120
        assert not cluster.fetched_by_home

    with_cluster(work)


def test_a_block_that_gave_way_to_another_publication_is_served_after_that() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        network, name = cluster.networks[HOME], cluster.key(0).name
        await network.publish(name, contents(0))
        network.end_serving([name])
        cluster.drop_caches()
        assert cluster.home.statistics().kept == {}
        await asyncio.sleep(0.1)
        assert cluster.home.statistics().kept == {"h1": 1}
        assert await cluster.got(0)

    with_cluster(work)


def test_a_kept_block_is_withdrawn_once_it_is_adopted() -> None:
    async def work(cluster: Cluster) -> None:
        network, name = cluster.networks[HOME], cluster.key(0).name
        await cluster.home.close()
        network.start_keeping(KeepOptions(b"done", 8, 1.0, 1.0, 1 << 20))
        await asyncio.gather(cluster.put(0), asyncio.sleep(0.01))
        [kept] = [one for one in network.take_events() if isinstance(one, KeptBlock)]
        assert (kept.name, kept.is_served) == (name, True)
        network.withdraw(name)
        await asyncio.sleep(0.01)
        assert cluster.is_served(0)
        network.adopt(name)
        network.end_serving([name])
        await asyncio.sleep(0.01)
        assert not cluster.is_served(0)

    with_cluster(work)


def test_the_home_s_own_program_has_what_was_put_a_moment_ago() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        assert (await cluster.home.look_up(cluster.key(0)))[1] is Place.HOME_MEMORY
        await cluster.put(1)
        assert cluster.home.here(cluster.key(1))
        await cluster.put(2)
        assert await cluster.home.exists(cluster.key(2))
        await cluster.put(3)
        assert await cluster.home.pin([cluster.key(3)], 60.0) == [True]
        await cluster.put(4)
        assert await cluster.home.evict([cluster.key(4)]) == [True]
        assert not cluster.is_served(4)
        assert not cluster.fetched_by_home

    with_cluster(work)


def test_of_a_name_that_others_put_a_moment_ago_the_first_block_stays() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        await cluster.home.put(cluster.key(0), contents(1))
        cluster.drop_caches()
        assert await cluster.got(0)
        assert await cluster.got(0, at=HOME)

    with_cluster(work)


def test_a_home_s_own_program_passes_on_what_was_put_a_moment_ago() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        assert await cluster.home.prefetch([cluster.key(0)], nodes=["h1"]) == [False]
        # It has been asked, and that is why it is not there.
        assert cluster.pools["h1"].statistics().refused == {"no memory is offered": 1}

    with_cluster(work)


def test_a_block_that_two_put_at_once_is_kept_once_for_both() -> None:
    async def work(cluster: Cluster) -> None:
        for ends in await asyncio.gather(cluster.put(*range(6)), cluster.put(*range(6), at="h2")):
            assert ends == [1] * 6
        counted = cluster.home.statistics()
        assert counted.kept == {"h1": 6, "h2": 6}
        assert counted.tiers["home memory"].blocks == 6
        await cluster.put(*range(6), at="h2")  # they are here already
        assert cluster.home.statistics().kept == {"h1": 6, "h2": 12}

    with_cluster(work)


def test_what_home_and_others_put_at_once_is_served_until_it_is_evicted() -> None:
    async def work(cluster: Cluster) -> None:
        puts = (cluster.put(*range(12), at=host) for host in ("h1", HOME, "h2"))
        assert await asyncio.gather(*puts) == [[1] * 12] * 3
        cluster.drop_caches()
        assert all([await cluster.got(number) for number in range(12)])
        assert cluster.home.statistics().tiers["home memory"].blocks == 12
        keys = [cluster.key(number) for number in range(12)]
        assert all(await cluster.pools["h2"].evict(keys))
        await asyncio.sleep(0.1)
        assert not any(map(cluster.is_served, range(12)))

    with_cluster(work)


@pytest.mark.parametrize("policy", ["lru", "lfu", "s3fifo", "prefix-depth"])
def test_a_home_serves_what_its_books_have_and_nothing_else(policy: PolicyName) -> None:
    async def work(cluster: Cluster) -> None:
        numbers = range(3 * BLOCKS)
        for first in range(0, len(numbers), 6):
            await cluster.put(*numbers[first : first + 6], depth=first)
        memory = cluster.home.statistics().tiers["home memory"]
        assert memory.used_bytes <= memory.capacity_bytes
        await asyncio.sleep(0.1)
        here = [n for n in numbers if cluster.home.here(cluster.key(n))]
        assert len(here) == memory.blocks
        assert [n for n in numbers if cluster.is_served(n)] == here

    with_cluster(work, policy=policy, capacity_bytes=SMALL_BYTES)


def test_a_put_counts_as_kept_where_the_policy_lets_it_stay() -> None:
    async def work(cluster: Cluster) -> None:
        put = [await cluster.put(number, depth=number) for number in range(2 * BLOCKS)]
        counted = cluster.home.statistics()
        assert sum(sum(one) for one in put) == counted.tiers["home memory"].blocks
        assert counted.kept.total() == counted.tiers["home memory"].blocks
        assert counted.refused == {"no room": put.count([0])}
        assert 0 < len(cluster.fetched_by_home) < 2 * BLOCKS

    with_cluster(work, policy="prefix-depth", capacity_bytes=SMALL_BYTES)


def test_a_block_larger_than_what_a_node_keeps_by_itself_is_kept_by_its_pool() -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.put(*range(6)) == [1] * 6
        assert set(cluster.fetched_by_home) == {cluster.key(n).name for n in range(6)}
        assert cluster.home.statistics().kept == {"h1": 6}

    with_cluster(work, capacity_bytes=8 * (SIZE + 1000))


def test_what_could_not_be_had_is_answered_and_counted_with_its_cause() -> None:
    async def answer(cluster: Cluster, keep: Keep) -> Answer:
        sealed = await cluster.networks["h1"].request(HOME, name_of_action(keep), 2.0)
        assert isinstance(sealed, Sealed)
        return Answer.decode(sealed.contents)

    async def work(cluster: Cluster) -> None:
        here, gone = cluster.key(0), cluster.key(1)
        await cluster.networks["h1"].publish(here.name, contents(0))
        absent = await answer(cluster, Keep(((gone, 0), (here, 1)), "h1"))
        assert absent == Answer(False, "the block is absent", ("the block is absent", None))
        assert await answer(cluster, Keep(((here, 0),), "h1")) == DONE
        late = await answer(cluster, Keep(((gone, 0),), "h9"))
        assert late.cause in ("the block is late", "the block is unreachable")
        counted = cluster.home.statistics()
        assert counted.kept == {"h1": 2}
        assert counted.refused == {"the block is absent": 1, late.cause: 1}
        assert cluster.fetched_by_home == []

    with_cluster(work)


def test_a_pool_that_is_closed_does_nothing_for_others_whatever_it_is_asked() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.home.close()
        under_way = asyncio.ensure_future(cluster.put(0))
        await asyncio.sleep(0.01)
        assert not cluster.home.here(cluster.key(0))
        assert await under_way == [0]
        assert cluster.pools["h1"].statistics().lost_copies == {Cause.LATE: 1}

    with_cluster(work)


def test_a_pool_that_closes_serves_nothing_and_the_next_one_keeps_again() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(*range(4))
        under_way = asyncio.ensure_future(cluster.put(*range(4, 12)))
        await asyncio.sleep(1e-4)
        await cluster.home.close()
        await asyncio.sleep(0.1)
        assert not any(map(cluster.is_served, range(12)))
        async with BlockPool(
            cluster.networks[HOME],
            local=TieredStore(MemoryTier(0)),
            offered=TieredStore(MemoryTier(CAPACITY_BYTES)),
            settings=SETTINGS,
        ) as again:
            await under_way
            await asyncio.sleep(SETTINGS.leave_out_s)
            assert await cluster.put(*range(20, 24)) == [1] * 4
            assert all(again.here(cluster.key(number)) for number in range(20, 24))

    with_cluster(work)
