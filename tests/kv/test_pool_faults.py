"""Pools over a network whose parts fail: no wrong byte, no hang, and the work goes on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

import numpy as np

from innet._native import _core
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import MEMBERS_REFRESH_S
from innet.kv.pool import BlockPool, Cause, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import Topology, load_topology

BLOCK_BYTES = 20_000
BLOCKS = 12
ROUNDS = 60
COMPUTING_S = 0.01
BEGIN_S = 2 * MEMBERS_REFRESH_S
"""All members know each other by then."""
SETTINGS = PoolSettings(timeout_s=1.5, put_timeout_s=1.5, leave_out_s=1.0)
STAR = load_topology("star:4").with_overrides(rate_bps=1e9)
NO_CACHES = STAR.model_copy(
    update={
        "nodes": {
            name: node.model_copy(update={"cache_bytes": 0}) for name, node in STAR.nodes.items()
        }
    }
)
TWO_SPINES = load_topology("leaf-spine:2x2x2").with_overrides(rate_bps=1e9)


def contents(number: int) -> Contents:
    return np.random.default_rng(number).integers(0, 256, BLOCK_BYTES, np.uint8)


EXPECTED = [contents(number) for number in range(BLOCKS)]

Fault = Callable[["Replay"], object]


class Replay:
    """Hosts that ask for blocks in turn, and make and put those that they do not get.

    Attributes:
        sim: the network.
        computed: when blocks were made.
        ended: the hosts that have asked for all they wanted.
    """

    def __init__(self, topology: Topology) -> None:
        self.sim = Simulation(topology, seed=5)
        self.computed: list[float] = []
        self.ended: list[str] = []
        self._simulated = SimulatedPools(self.sim)
        self._tenant = self._simulated.tenant("acme")
        self._pools: dict[str, BlockPool] = {}

    def key(self, number: int) -> BlockKey:
        """Of a block."""
        family = BlockFamily(self._tenant.component, "00ff", "raw", 0, 1)
        return BlockKey(family, number.to_bytes(32, "big"))

    def run(self, *faults: tuple[float, Fault], dies: str = "") -> None:
        """Replay, while each fault happens so many seconds after the beginning.

        Args:
            faults: when, and what.
            dies: a host that is a home, and asks for nothing itself.
        """
        for after_s, fault in faults:
            self.sim.at(BEGIN_S + after_s, fault, self)
        with self.sim:
            self.sim.run(self._replay([host for host in self.sim.topology.hosts if host != dies]))

    def misses(self) -> Counter[Cause]:
        """Of all hosts."""
        return sum((pool.statistics().misses for pool in self._pools.values()), Counter())

    def forge(self, host: str) -> None:
        """Somebody has broken into a home, and gives what he wants under its blocks' names.

        He has no tenant's secret, and signs by a key of his own under the name of the tenant's.
        """
        node = self.sim.host(host).node
        his = bytes.fromhex(self._simulated.tenant("stranger").key.secret)
        key = _core.SigningKey("ed25519", self._tenant.key_name, his)
        for number in range(BLOCKS):
            name = _core.Name(self.key(number).name)
            if node.object_root(name) is not None:
                node.withdraw_object(name)
                node.publish_object(name, 255 - EXPECTED[number], key, self.sim.packet_bytes)

    async def _replay(self, hosts: list[str]) -> None:
        async with AsyncExitStack() as stack:
            for host in self.sim.topology.hosts:
                network = await stack.enter_async_context(
                    self._simulated.open(host, self._tenant, capacity_bytes=1 << 20)
                )
                local, offered = (TieredStore(MemoryTier(size)) for size in (0, 1 << 20))
                self._pools[host] = BlockPool(
                    network, local=local, offered=offered, settings=SETTINGS
                )
                await stack.enter_async_context(self._pools[host])
            await asyncio.sleep(BEGIN_S - self.sim.now_s)
            await asyncio.gather(*map(self._ask, hosts))

    async def _ask(self, host: str) -> None:
        draw = random.Random(host)
        pool = self._pools[host]
        for _ in range(ROUNDS):
            number = draw.randrange(BLOCKS)
            found = await pool.get(self.key(number))
            if found is None:
                self.computed.append(self.sim.now_s - BEGIN_S)
                await pool.put(self.key(number), EXPECTED[number])
            else:
                assert np.array_equal(found, EXPECTED[number]), f"{host}: block {number}"
            await asyncio.sleep(COMPUTING_S)
        self.ended.append(host)


def test_without_faults_each_block_is_made_about_once() -> None:
    replay = Replay(STAR)
    replay.run()
    assert len(replay.ended) == 4
    # Several may ask for a block before the first of them has made it.
    assert BLOCKS <= len(replay.computed) <= 2 * BLOCKS
    assert set(replay.misses()) == {Cause.ABSENT}


def test_blocks_of_a_dead_home_are_cached_or_computed_again_and_kept_elsewhere() -> None:
    for topology in (STAR, NO_CACHES):
        replay = Replay(topology)
        replay.run((0.3, lambda replay: replay.sim.crash("h3")), dies="h3")
        assert len(replay.ended) == 3
        again = [at_s for at_s in replay.computed if at_s > 0.3]
        assert bool(again) == (topology is NO_CACHES)
        assert len(again) <= BLOCKS


def test_a_hung_home_is_excluded() -> None:
    replay = Replay(NO_CACHES)
    replay.run((0.3, lambda replay: replay.sim.pause("h3")), dies="h3")
    assert len(replay.ended) == 3
    assert replay.misses()[Cause.LATE] > 0


def test_a_compromised_home_delivers_no_forged_block() -> None:
    replay = Replay(NO_CACHES)
    replay.run((0.3, lambda replay: replay.forge("h3")), dies="h3")
    assert len(replay.ended) == 3
    assert replay.misses().total() - replay.misses()[Cause.ABSENT] > 0


def test_the_only_switch_dies_and_returns() -> None:
    replay = Replay(STAR)
    replay.run(
        (0.3, lambda replay: replay.sim.crash("s0")),
        (0.8, lambda replay: replay.sim.restart("s0")),
    )
    assert len(replay.ended) == 4


def test_a_spine_dies_and_a_link_is_cut() -> None:
    replay = Replay(TWO_SPINES)
    replay.run(
        (0.2, lambda replay: replay.sim.crash("spine0")),
        (0.6, lambda replay: replay.sim.restart("spine0")),
        (0.8, lambda replay: replay.sim.set_link_up("h1", "leaf0", up=False)),
        (1.5, lambda replay: replay.sim.set_link_up("h1", "leaf0", up=True)),
    )
    assert len(replay.ended) == 4


def test_links_lose_change_repeat_and_reorder_packets() -> None:
    replay = Replay(
        STAR.with_overrides(
            loss=0.01, jitter_s=1e-4, reorder=0.02, reorder_delay_s=2e-3, duplicate=0.05,
            corrupt=0.05,
        )
    )  # fmt: skip
    replay.run()
    assert len(replay.ended) == 4
