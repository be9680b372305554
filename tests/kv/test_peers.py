"""Puts that begin together ask a home with few requests, and each has an end of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import Cause
from innet.kv.pool.network import Sealed
from innet.kv.pool.requests import (
    MAX_KEPT_AT_ONCE,
    Answer,
    Keep,
    PoolRequest,
    is_request,
    name_of_action,
)
from innet.kv.pool.store import ServedStore
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import parse_yaml
from tests.kv.fake_network import TENANT, FakeNetwork
from tests.kv.pools import ROOM, SIZE, Pools, contents, key, with_pools

MANY = 2 * MAX_KEPT_AT_ONCE


def requests_to(pools: Pools, node: str) -> list[str]:
    return [name for name in pools.fabric.nodes[node].fetched if is_request(name)]


def test_puts_that_begin_together_share_requests_and_single_ones_have_their_own() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*range(MANY)) == [1] * MANY
        assert len(requests_to(pools, "h0")) == 2
        assert [len(pools.serving(n)) for n in range(MANY)] == [1] * MANY
        for number in range(MANY, MANY + 3):
            assert await pools.put(number) == [1]
        assert len(requests_to(pools, "h0")) == 2 + 3
        assert pools["h0"].statistics().kept == {"user": MANY + 3}

    with_pools(work, members=1)


def test_puts_that_wait_for_others_share_the_next_requests() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*range(10 * MANY)) == [1] * 10 * MANY
        assert len(requests_to(pools, "h0")) == 20

    with_pools(work, members=1)


def test_blocks_of_another_layout_are_not_asked_for_together() -> None:
    other = BlockKey(BlockFamily(TENANT, "00ff", "other", 0, 1), bytes(32))
    layers = BlockKey(BlockFamily(TENANT, "00ff", "raw", 1, 2), bytes(32))

    async def work(pools: Pools) -> None:
        blocks = [(one, contents(0)) for one in (key(0), other, layers)]
        assert await pools["user"].put_many(blocks) == [1, 1, 1]
        assert len(requests_to(pools, "h0")) == 2

    with_pools(work, members=1)


@pytest.mark.parametrize("refused", range(MAX_KEPT_AT_ONCE))
def test_each_put_hears_what_became_of_its_own_block(refused: int) -> None:
    async def work(pools: Pools) -> None:
        sizes = [SIZE] * MAX_KEPT_AT_ONCE
        sizes[refused] = ROOM * (MAX_KEPT_AT_ONCE - 1) + SIZE + 1
        blocks = [(key(n), np.zeros(size, np.uint8)) for n, size in enumerate(sizes)]
        copies = await pools["user"].put_many(blocks)
        assert copies == [int(n != refused) for n in range(MAX_KEPT_AT_ONCE)]
        assert len(requests_to(pools, "h0")) == 1
        assert pools["user"].statistics().lost_copies == {Cause.REFUSED: 1}
        statistics = pools["h0"].statistics()
        assert statistics.refused == {"no room": 1}
        assert statistics.kept == {"user": MAX_KEPT_AT_ONCE - 1}

    with_pools(work, members=1, blocks=MAX_KEPT_AT_ONCE)


@pytest.mark.parametrize("given_up", range(MAX_KEPT_AT_ONCE))
@pytest.mark.parametrize("after_s", [0, 0.0005, 0.0025])
def test_who_gives_up_a_put_leaves_the_others_theirs(given_up: int, after_s: float) -> None:
    async def work(pools: Pools) -> None:
        putting = [asyncio.ensure_future(pools.put(n)) for n in range(MAX_KEPT_AT_ONCE)]
        for _ in range(2):
            await asyncio.sleep(0)
        await asyncio.sleep(after_s)
        assert putting[given_up].cancel()
        ends = await asyncio.gather(*putting, return_exceptions=True)
        assert isinstance(ends.pop(given_up), asyncio.CancelledError)
        assert ends == [[1]] * (MAX_KEPT_AT_ONCE - 1)
        others = [n for n in range(MAX_KEPT_AT_ONCE) if n != given_up]
        assert all([await pools.got(n) for n in others])

    with_pools(work, members=1)


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        ({"reachable": False}, Cause.UNREACHABLE),
        ({"alive": False}, Cause.LATE),
        ({"forges": True}, Cause.UNTRUSTED),
        ({"breaks": True}, Cause.REFUSED),
    ],
)
def test_a_home_that_fails_is_the_end_of_each_put(failure: dict[str, bool], cause: Cause) -> None:
    async def work(pools: Pools) -> None:
        vars(pools.fabric.nodes["h0"]).update(failure)
        assert await pools.put(*range(MAX_KEPT_AT_ONCE)) == [0] * MAX_KEPT_AT_ONCE
        assert pools["user"].statistics().lost_copies == {cause: MAX_KEPT_AT_ONCE}

    with_pools(work, members=1)


def test_a_fault_with_one_block_is_that_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = ServedStore.keep

    async def failing(self: ServedStore, name: str, *arguments: Any) -> bool:
        if name == key(1).name:
            raise OSError("no memory is left")
        return await keep(self, name, *arguments)

    monkeypatch.setattr(ServedStore, "keep", failing)

    async def work(pools: Pools) -> None:
        assert await pools.put(0, 1, 2) == [1, 0, 1]

    with_pools(work, members=1)


def test_a_block_that_does_not_come_in_time_makes_no_other_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch = FakeNetwork.fetch

    async def stuck(self: FakeNetwork, name: str, source: str, timeout_s: float) -> Sealed | Cause:
        if name == key(1).name:
            await asyncio.sleep(timeout_s)
            return Cause.LATE
        return await fetch(self, name, source, timeout_s)

    monkeypatch.setattr(FakeNetwork, "fetch", stuck)

    async def work(pools: Pools) -> None:
        assert await pools.put(0, 1, 2) == [1, 0, 1]
        assert pools["user"].statistics().lost_copies == {Cause.REFUSED: 1}
        # The home has answered, and is asked again.
        assert await pools.put(3) == [1]

    with_pools(work, members=1)


def test_who_asks_for_too_many_blocks_gets_none() -> None:
    async def work(pools: Pools) -> None:
        for number in range(MANY):
            await pools.fabric.network("user").publish(key(number).name, contents(number))
        few = PoolRequest("h0", "user", "f0", _keep(MAX_KEPT_AT_ONCE)).name
        many = few + few.partition("user")[2].partition("/user")[2] * 100
        network = pools.fabric.network("other")
        for name, done in ((few, True), (many, False)):
            answered = await network.fetch(name, "h0", 1.0)
            assert isinstance(answered, Sealed)
            assert Answer.decode(answered.contents).done is done
        assert len(pools.fabric.nodes["user"].fetched) == MAX_KEPT_AT_ONCE
        for number in range(MANY):
            pools.fabric.network("user").withdraw(key(number).name)

    with_pools(work, members=1)


def test_a_request_for_too_many_blocks_or_of_several_kinds_cannot_be_made() -> None:
    other = BlockKey(BlockFamily(TENANT, "00ff", "other", 0, 1), bytes(32))
    for keep in (_keep(MAX_KEPT_AT_ONCE + 1), Keep(((key(0), 0), (other, 0)), "user")):
        with pytest.raises(KVError, match="one request"):
            _ = PoolRequest("h0", "user", "7", keep)


@pytest.mark.parametrize(("mtu", "most"), [(1000, 1), (1500, 4), (3000, MAX_KEPT_AT_ONCE)])
def test_the_longest_request_and_its_answer_fit_into_packets(mtu: int, most: int) -> None:
    asker, member = "a" * 32, "m" * 32
    link = f"{{endpoints: ['{asker}:eth0', '{member}:eth0'], mtu: {mtu}}}"
    nodes = f"{{'{asker}': {{kind: host}}, '{member}': {{kind: host}}}}"
    topology = parse_yaml(f"name: two\ntopology:\n  nodes: {nodes}\n  links: [{link}]")
    with Simulation(topology, seed=1) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")
        layers = 10**9 - 2
        family = BlockFamily(tenant.component, "f" * 128, "l" * 64, layers, layers + 1)
        blocks = [(BlockKey(family, bytes([n] * 32)), 10**9 - 1) for n in range(MAX_KEPT_AT_ONCE)]

        async def exchange() -> None:
            async with (
                pools.open(asker, tenant, capacity_bytes=0) as asking,
                pools.open(member, tenant, capacity_bytes=1) as asked,
            ):
                assert asking.most_kept_at_once == most
                keep = Keep(tuple(blocks[:most]), asker)
                fetching = asyncio.ensure_future(asking.request(member, name_of_action(keep), 1.0))
                [name] = map(str, await asked.next_events())
                assert PoolRequest.parse(name).action == keep
                await asked.publish(name, Answer(False, "failed").encoded())
                assert isinstance(await fetching, Sealed)

        sim.run(exchange())


def _keep(blocks: int) -> Keep:
    return Keep(tuple((key(n), 0) for n in range(blocks)), "user")
