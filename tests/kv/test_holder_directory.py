"""Gets go to the nearest member that had the block lately, and popular blocks to their homes."""

from __future__ import annotations

import asyncio

import pytest

from innet.errors import PlanError
from innet.kv.pool import PoolSettings
from innet.kv.pool.network import Cause, Sealed
from innet.kv.pool.requests import summary_version
from innet.kv.pool.summary import POPULAR, SUMMARY_S
from tests.kv.fake_network import FakeNetwork
from tests.kv.pools import Pools, key, with_pools

WHEN_ASKED = PoolSettings(puts="when-asked")


def homed_at(pools: Pools, home: str, count: int = 1) -> list[int]:
    node = pools.fabric.nodes[home]
    return [number for number in range(200) if pools.first_home(number) is node][:count]


async def learn(pools: Pools, node: str) -> None:
    """Let a node see the others' present blocks."""
    await asyncio.sleep(2 * SUMMARY_S)
    await pools[node].exists(key(999))
    await asyncio.sleep(SUMMARY_S / 2)


def test_a_get_goes_to_the_nearest_member_that_has_the_block() -> None:
    async def work(pools: Pools) -> None:
        (number,) = homed_at(pools, "h3")
        pools.fabric.distances |= {"h1": 4, "h2": 2, "h3": 4}
        await pools.put(number, at="h1")
        assert await pools.got(number, at="h2")
        await learn(pools, "h0")
        fetched = {name: len(node.fetched) for name, node in pools.fabric.nodes.items()}
        assert await pools.got(number, at="h0")
        nodes = pools.fabric.nodes.items()
        assert [n for n, node in nodes if len(node.fetched) > fetched[n]] == ["h2"]

    with_pools(work, members=4, settings=WHEN_ASKED)


def test_a_block_that_a_member_dropped_is_found_at_its_home() -> None:
    async def work(pools: Pools) -> None:
        (number,) = homed_at(pools, "h3")
        await pools.put(number, at="h1")
        assert await pools.got(number, at="h0")  # it is at its home as well
        await learn(pools, "h2")
        pools.fabric.nodes["h1"].serves.pop(key(number).name)
        pools.fabric.nodes["h0"].serves.pop(key(number).name)
        assert await pools.got(number, at="h2")
        pools.fabric.nodes["h1"].alive = False
        assert await pools.got(number, at="other")

    with_pools(work, members=4, settings=WHEN_ASKED)


def test_a_member_with_a_late_summary_stays_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = FakeNetwork.fetch

    async def fetch_late(
        network: FakeNetwork, name: str, source: str, timeout_s: float
    ) -> Sealed | Cause:
        if summary_version(name) is None:
            return await fetch(network, name, source, timeout_s)
        await asyncio.sleep(timeout_s)
        return Cause.LATE

    async def work(pools: Pools) -> None:
        looked_up = pools.first_home(999)
        home = next(name for name in ("h1", "h2") if pools.fabric.nodes[name] is not looked_up)
        (number,) = homed_at(pools, home)
        await pools.put(number, at=home)
        for _ in range(4):
            await learn(pools, "h0")
        await asyncio.sleep(SUMMARY_S)  # the last summary is late by now
        assert await pools.got(number, at="h0")

    monkeypatch.setattr(FakeNetwork, "fetch", fetch_late)
    with_pools(work, members=3, settings=WHEN_ASKED)


def test_a_member_without_a_route_is_requested_last(monkeypatch: pytest.MonkeyPatch) -> None:
    distance = FakeNetwork.distance

    def without_h1(network: FakeNetwork, member: str) -> int:
        if member == "h1":
            raise PlanError("the topology has no node 'h1'")
        return distance(network, member)

    async def work(pools: Pools) -> None:
        (number,) = homed_at(pools, "h3")
        await pools.put(number, at="h1")
        assert await pools.got(number, at="h2")
        await learn(pools, "h0")
        fetched = len(pools.fabric.nodes["h2"].fetched)
        assert await pools.got(number, at="h0")
        assert pools.fabric.nodes["h0"].fetched
        assert len(pools.fabric.nodes["h2"].fetched) == fetched

    monkeypatch.setattr(FakeNetwork, "distance", without_h1)
    with_pools(work, members=4, settings=WHEN_ASKED)


def test_a_block_that_many_load_from_its_producer_moves_to_its_home() -> None:
    async def work(pools: Pools) -> None:
        (number,) = homed_at(pools, "h2")
        await pools.put(number, at="h0")
        for _ in range(POPULAR):
            await learn(pools, "other")
            assert await pools.got(number)
            assert "h2" not in pools.serving(number)
        await learn(pools, "other")
        assert await pools.got(number)
        assert "h2" in pools.serving(number)

    with_pools(work, members=3, settings=PoolSettings(puts="when-asked", keeps_fetched=False))


def test_a_member_that_leaves_hands_over_what_it_has_put_and_no_copies() -> None:
    async def work(pools: Pools) -> None:
        own, other = homed_at(pools, "h1", 2)
        await pools.put(own, at="h0")
        await pools.put(other, at="h2")
        assert await pools.got(other, at="h0")
        assert "h1" in pools.serving(other)  # nobody had heard of it but its home
        assert await pools["h0"].hand_over() == 1
        assert sorted(pools.serving(own)) == ["h0", "h1"]

    with_pools(work, members=3, settings=WHEN_ASKED)


def test_a_member_without_lookups_requests_no_summaries() -> None:
    async def work(pools: Pools) -> None:
        def summaries() -> int:
            names = [name for node in pools.fabric.nodes.values() for name in node.fetched]
            return sum(summary_version(name) is not None for name in names)

        await pools.put(1, at="h0")
        await asyncio.sleep(20 * SUMMARY_S)
        assert summaries() == 0
        await pools["other"].exists(key(1))
        await asyncio.sleep(20 * SUMMARY_S)
        assert summaries() == 3

    with_pools(work, members=3, settings=WHEN_ASKED)
