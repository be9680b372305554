"""The pool's engine over real nodes and switches, in virtual time: all parts of it together."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import numpy as np
import pytest

from innet._native import _core
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool, Cause, MemoryTier, Place, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from innet.kv.pool.waiting import now_s
from innet.kv.tenant import Tenant
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import Topology, load_topology, parse_yaml

HOMES = ("h0", "h1", "h2")
USERS = ("h3", "h4")
SIZE = 30_000
MEMORY_BYTES = 100 * SIZE
SETTINGS = PoolSettings(timeout_s=0.5, put_timeout_s=0.5)


class Cluster:
    """A leaf-spine network in which hosts have a pool: some offer memory, others use it."""

    def __init__(self, sim: Simulation, tenant: Tenant, pools: dict[str, BlockPool]) -> None:
        self.sim = sim
        self.tenant = tenant
        self.pools = pools

    def key(self, number: int) -> BlockKey:
        family = BlockFamily(self.tenant.component, "00ff", "raw", 0, 1)
        return BlockKey(family, number.to_bytes(32, "big"))

    async def put(self, *numbers: int, at: str = "h3") -> list[int]:
        return await self.pools[at].put_many([(self.key(n), contents(n)) for n in numbers])

    async def got(self, number: int, *, at: str = "h4") -> bool:
        """Whether a node gets a block; it is the right one then."""
        block = await self.pools[at].get(self.key(number))
        assert block is None or np.array_equal(block, contents(number))
        return block is not None

    def home_of(self, number: int) -> str:
        """A host that serves the block to others."""
        name = _core.Name(self.key(number).name)
        (home,) = (h for h in HOMES if self.sim.host(h).node.object_root(name) is not None)
        return home

    def drop_caches(self) -> None:
        """Let blocks come from hosts alone."""
        for switch in self.sim.topology.switches:
            self.sim.network.nodes[switch].drop_cache()


def contents(number: int) -> Contents:
    return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)


def with_cluster(
    work: Callable[[Cluster], Awaitable[None]],
    settings: PoolSettings = SETTINGS,
    *,
    local_bytes: int = 0,
    topology: Topology | None = None,
) -> dict[str, int]:
    """Run ``work`` with a pool on each host; what the simulation has counted.

    Each host keeps ``local_bytes`` for itself; where puts are brought home when asked, a host has
    one store of both sizes.
    """
    network = topology or load_topology("leaf-spine:3x2x2").with_overrides(rate_bps=1e9)
    with Simulation(network, seed=5) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")

        async def whole() -> None:
            async with AsyncExitStack() as stack:
                opened = {}
                for host in (h for h in (*HOMES, *USERS) if h in sim.topology.hosts):
                    offered = MEMORY_BYTES if host in HOMES else 0
                    network = await stack.enter_async_context(
                        pools.open(host, tenant, capacity_bytes=offered)
                    )
                    is_shared = settings.shares_store
                    local = TieredStore(MemoryTier(local_bytes + offered * is_shared))
                    opened[host] = BlockPool(
                        network,
                        local=local,
                        offered=local if is_shared else TieredStore(MemoryTier(offered)),
                        settings=settings,
                    )
                for pool in opened.values():
                    await stack.enter_async_context(pool)
                await work(Cluster(sim, tenant, opened))

        sim.run(whole())
        return sim.counters()


NO_SIGNATURE = bytes(64)

NEIGHBOURS = """
name: neighbours
topology:
  nodes: {h0: {kind: host}, h3: {kind: host}}
  links: [{endpoints: ["h3:eth0", "h0:eth0"], rate: 1gbit}]
"""


def test_a_home_requests_no_roots_of_what_its_neighbour_puts() -> None:
    async def work(cluster: Cluster) -> None:
        before = cluster.sim.counters()["packets"]
        assert await cluster.put(*range(8)) == [1] * 8
        packets = cluster.sim.counters()["packets"] - before
        of_segments = 8 * 2 * math.ceil(SIZE / 8192)
        of_requests, of_roots = 2 * 2, 8 * 2
        assert of_requests + of_segments <= packets < of_requests + of_segments + of_roots
        home = cluster.sim.host("h0").node
        for number in range(8):
            name = _core.Name(cluster.key(number).name)
            root = home.object_root(name)
            assert root is not None
            assert root.endswith(NO_SIGNATURE)
            assert await cluster.got(number, at="h3")
            assert home.object_root(name) == root  # nobody has needed the signature

    with_cluster(work, topology=parse_yaml(NEIGHBOURS))


def test_homes_behind_a_switch_have_signed_roots() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        root = cluster.sim.host(cluster.home_of(0)).node.object_root(
            _core.Name(cluster.key(0).name)
        )
        assert root is not None
        assert not root.endswith(NO_SIGNATURE)

    with_cluster(work)


def test_what_homes_have_given_is_counted_when_it_has_arrived() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.put(*range(6))
        cluster.drop_caches()
        before = sum(cluster.pools[home].statistics().served for home in HOMES)
        assert all([await cluster.got(number) for number in range(6)])
        assert sum(cluster.pools[home].statistics().served for home in HOMES) == before + 6

    with_cluster(work)


@pytest.mark.parametrize("puts", ["at-once", "when-asked", "balanced"])
def test_what_one_host_has_put_another_gets_and_no_one_after_its_eviction(puts):
    async def work(cluster: Cluster) -> None:
        assert await cluster.put(*range(12)) == [1] * 12
        assert all([await cluster.got(number) for number in range(12)])
        assert not await cluster.got(12)
        assert await cluster.pools["h4"].exists(cluster.key(0))
        assert await cluster.pools["h4"].pin([cluster.key(0)], 60.0) == [True]
        assert await cluster.pools["h3"].evict([cluster.key(0), cluster.key(1)]) == [False, True]

    settings = PoolSettings(timeout_s=0.5, put_timeout_s=0.5, puts=puts)
    with_cluster(work, settings, local_bytes=0 if puts == "at-once" else MEMORY_BYTES)


@pytest.mark.parametrize("ends", ["put", "withdrawn", "crashed"])
def test_announced_blocks_are_awaited_at_their_producer(ends):
    async def work(cluster: Cluster) -> None:
        producer, consumer = cluster.pools["h3"], cluster.pools["h4"]
        keys = [cluster.key(number) for number in range(6)]
        assert await producer.announcements.announce("r1", keys)
        announced = await consumer.announcements.follow("r1", timeout_s=1.0)
        assert announced is not None
        assert announced.keys == tuple(keys)
        waiting = asyncio.gather(
            *(consumer.get(key, producer=announced.producer, timeout_s=20.0) for key in keys)
        )
        await asyncio.sleep(2.5)
        for pool in (consumer, producer):  # a home's answer to them does not end the waiting
            assert not await pool.exists(keys[0])
        await asyncio.sleep(0.5)
        assert not waiting.done()
        begin_s = now_s()
        if ends == "put":
            await cluster.put(*range(6))
            found = await waiting
            for number, block in enumerate(found):
                assert block is not None
                assert np.array_equal(block, contents(number))
            assert consumer.statistics().hits[Place.PRODUCER] > 0
        elif ends == "withdrawn":
            producer.announcements.withdraw("r1")
            assert await waiting == [None] * 6
        else:
            cluster.sim.crash("h3")
            assert await waiting == [None] * 6
        assert now_s() - begin_s < (17.5 if ends == "crashed" else 0.5)
        await asyncio.sleep(0.1)  # operations that the deadline has cancelled end

    with_cluster(work)


def test_the_same_seed_gives_the_same_packets():
    async def work(cluster: Cluster) -> None:
        await cluster.put(*range(6))
        assert all([await cluster.got(number) for number in range(6)])

    assert with_cluster(work) == with_cluster(work)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_home_that_dies_costs_at_most_what_had_no_replica(replicas):
    async def work(cluster: Cluster) -> None:
        await cluster.put(*range(12))
        cluster.sim.crash("h1")
        cluster.drop_caches()
        found = [await cluster.got(number) for number in range(12)]
        assert all(found) == (replicas == 2)
        assert any(found)
        assert all(await cluster.put(*range(20, 32)))
        assert all([await cluster.got(number) for number in range(20, 32)])

    with_cluster(work, PoolSettings(replicas=replicas, timeout_s=0.5, put_timeout_s=0.5))


def test_a_switch_that_dies_and_comes_back_costs_no_block():
    async def work(cluster: Cluster) -> None:
        await cluster.put(*range(12))
        for switch in ("spine0", "leaf0"):
            cluster.sim.crash(switch)
            cluster.sim.restart(switch)
        assert all([await cluster.got(number) for number in range(12)])

    with_cluster(work)


def test_a_poisoned_home_gives_nothing_wrong():
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        home, name = cluster.home_of(0), _core.Name(cluster.key(0).name)
        node = cluster.sim.host(home).node
        stranger = Tenant("stranger", bytes(range(32))).key.secret
        forged = _core.SigningKey("ed25519", cluster.tenant.key_name, bytes.fromhex(stranger))
        node.withdraw_object(name)
        node.publish_object(name, contents(1), forged, 1000)
        cluster.drop_caches()
        assert not await cluster.got(0)

    with_cluster(work)


def test_statistics_tell_where_blocks_were_and_why_not():
    async def work(cluster: Cluster) -> None:
        await cluster.put(0)
        await cluster.got(0)
        await cluster.got(1)
        counted = cluster.pools["h4"].statistics()
        assert counted.hits[Place.NETWORK] == 1
        assert counted.misses[Cause.ABSENT] == 1

    with_cluster(work)


def test_a_tenant_that_floods_takes_no_room_of_another():
    """Both have the same hosts, of which each offers room for 8 blocks to each tenant."""
    quota_bytes = 8 * (SIZE + 4096)
    flood = 4 * 8 * len(HOMES)
    with Simulation(load_topology("leaf-spine:3x2x2"), seed=5) as sim:
        pools = SimulatedPools(sim)
        tenants = [pools.tenant("calm"), pools.tenant("flooding")]

        async def whole() -> None:
            async with AsyncExitStack() as stack:
                clusters = []
                for tenant in tenants:
                    opened = {}
                    for host in (*HOMES, *USERS):
                        offered = quota_bytes if host in HOMES else 0
                        network = await stack.enter_async_context(
                            pools.open(host, tenant, capacity_bytes=offered)
                        )
                        opened[host] = BlockPool(
                            network,
                            local=TieredStore(MemoryTier(0)),
                            offered=TieredStore(MemoryTier(offered)),
                            settings=SETTINGS,
                        )
                    for pool in opened.values():
                        await stack.enter_async_context(pool)
                    clusters.append(Cluster(sim, tenant, opened))
                calm, flooding = clusters
                await calm.put(*range(6))
                copies = await flooding.put(*range(flood))
                assert all(copies), "a flood evicts the flooding tenant's own blocks"
                calm.drop_caches()
                assert all([await calm.got(number) for number in range(6)])
                assert not any(
                    tier.evicted
                    for pool in calm.pools.values()
                    for tier in pool.statistics().tiers.values()
                )
                used = [
                    tier.used_bytes
                    for pool in flooding.pools.values()
                    for tier in pool.statistics().tiers.values()
                ]
                assert 0 < max(used) <= quota_bytes

        sim.run(whole())
