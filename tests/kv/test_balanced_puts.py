"""With balanced puts, a block moves to its home at once if the home keeps it longer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.kv.eviction import POLICIES, PolicyName, make_policy
from innet.kv.pool import PoolSettings
from innet.kv.pool.peers import Placement
from tests.kv.fake_network import HOP_S, Node
from tests.kv.pools import Pools, key, with_pools

BALANCED = PoolSettings(puts="balanced", put_timeout_s=1.0, leave_out_s=0.5)
CAPACITY = 4


def homed_at(pools: Pools, home: str, count: int) -> list[int]:
    node: Node = pools.fabric.nodes[home]
    return [number for number in range(400) if pools.first_home(number) is node][:count]


async def fill(pools: Pools, home: str, *, skip: int = 0) -> Sequence[int]:
    """Fill a member's memory with blocks of its own."""
    own = homed_at(pools, home, skip + CAPACITY)[skip:]
    await pools.put(*own, at=home)
    return own


def balanced(work) -> None:
    with_pools(work, members=2, blocks=CAPACITY, settings=BALANCED, policy="second-use")


def test_a_block_stays_at_its_producer_while_that_has_room() -> None:
    async def work(pools: Pools) -> None:
        (number,) = homed_at(pools, "h1", 1)
        assert await pools.put(number, at="h0") == [1]
        assert pools.serving(number) == ["h0"]
        assert await pools.got(number)

    balanced(work)


def test_a_block_moves_to_a_home_with_room() -> None:
    async def work(pools: Pools) -> None:
        own = await fill(pools, "h0")
        (number,) = homed_at(pools, "h1", 1)
        assert await pools.put(number, at="h0") == [1]
        assert pools.serving(number) == ["h1"]
        assert all([await pools.got(each) for each in (*own, number)])

    balanced(work)


@pytest.mark.parametrize(("older", "has_it"), [("h1", "h1"), ("h0", "h0")])
def test_a_block_goes_where_it_displaces_the_block_that_waited_longer(
    older: str, has_it: str
) -> None:
    async def work(pools: Pools) -> None:
        await fill(pools, older)
        await asyncio.sleep(10)
        await fill(pools, {"h0": "h1", "h1": "h0"}[older])
        (number,) = homed_at(pools, "h1", CAPACITY + 1)[CAPACITY:]
        assert await pools.put(number, at="h0") == [1]
        assert pools.serving(number) == [has_it]
        assert await pools.got(number)

    balanced(work)


def test_a_used_block_counts_as_younger_as_the_policy_keeps_it_longer() -> None:
    async def work(pools: Pools) -> None:
        own = await fill(pools, "h1")
        for each in own:
            assert await pools.got(each, at="h1")
        await asyncio.sleep(8)
        await fill(pools, "h0")
        await asyncio.sleep(10)  # unused blocks waited for 10 s, used ones for 18
        (number,) = homed_at(pools, "h1", CAPACITY + 1)[CAPACITY:]
        await pools.put(number, at="h0")
        assert pools.serving(number) == ["h0"]

    balanced(work)


def test_a_home_that_does_not_answer_leaves_the_block_at_its_producer() -> None:
    async def work(pools: Pools) -> None:
        await fill(pools, "h0")
        pools.fabric.nodes["h1"].alive = False
        (number,) = homed_at(pools, "h1", 1)
        assert await pools.put(number, at="h0") == [0]
        assert "h0" in pools.serving(number)
        assert await pools.got(number, at="h0")

    balanced(work)


def test_a_home_that_hangs_does_not_delay_puts_to_others() -> None:
    async def work(pools: Pools) -> None:
        await fill(pools, "h0")
        hanging = [
            asyncio.ensure_future(pools.put(number, at="h0")) for number in homed_at(pools, "h1", 3)
        ]
        pools.fabric.nodes["h1"].alive = False
        await asyncio.sleep(0)
        (number,) = homed_at(pools, "h2", 1)
        async with asyncio.timeout(BALANCED.put_timeout_s / 2):
            assert await pools.put(number, at="h0") == [1]
        hanging.pop().cancel()
        assert [await put for put in hanging] == [[0], [0]]
        pools.fabric.nodes["h1"].alive = True
        (number,) = homed_at(pools, "h2", 2)[1:]
        assert await pools.put(number, at="h0") == [1]

    with_pools(work, members=3, blocks=CAPACITY, settings=BALANCED, policy="second-use")


def test_a_home_that_replaces_the_asked_one_meanwhile_learns_the_producer() -> None:
    async def work(pools: Pools) -> None:
        await fill(pools, "h0")
        await asyncio.sleep(10)
        await fill(pools, "h2")  # with younger blocks than h0, so it notes what h0 offers
        later = Placement(dict.fromkeys(("h0", "h1"), 1))
        (number, *_) = (
            each
            for each in homed_at(pools, "h2", 40)[CAPACITY:]
            if later.homes(key(each).block_hash) == ("h1",)
        )
        putting = asyncio.ensure_future(pools.put(number, at="h0"))
        await asyncio.sleep(HOP_S)
        del pools.fabric.members["h2"]
        assert await putting == [1]
        assert pools.serving(number) == ["h0"]
        assert await pools.got(number)

    with_pools(work, members=3, blocks=CAPACITY, settings=BALANCED, policy="second-use")


def test_blocks_that_are_put_together_are_divided_as_if_one_came_after_the_other() -> None:
    async def work(pools: Pools) -> None:
        await fill(pools, "h0")
        await asyncio.sleep(10)
        await fill(pools, "h1")
        await asyncio.sleep(1)
        numbers = homed_at(pools, "h1", 3 * CAPACITY)[CAPACITY:]
        await pools.put(*numbers, at="h0")
        stayed = [number for number in numbers if pools.serving(number) == ["h0"]]
        moved = [number for number in numbers if pools.serving(number) == ["h1"]]
        assert len(stayed) == len(moved) == CAPACITY

    balanced(work)


def test_a_block_that_moves_has_all_its_homes() -> None:
    async def work(pools: Pools) -> None:
        for member in ("h0", "h1", "h2"):
            await fill(pools, member)
            await asyncio.sleep(10)
        for number in range(400, 420):
            copies = await pools.put(number, at="h2")
            serving = set(pools.serving(number))
            assert len(serving) <= 2
            assert copies[0] == len(serving) or serving == {"h2"}
            assert await pools.got(number)

    settings = PoolSettings(puts="balanced", replicas=2)
    with_pools(work, members=3, blocks=CAPACITY, settings=settings, policy="second-use")


@pytest.mark.parametrize("policy", POLICIES)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["use", "demote"]), st.integers(0, 5)), max_size=30)
)
def test_the_next_victim_is_the_one_that_is_taken(
    policy: PolicyName, steps: list[tuple[str, int]]
) -> None:
    chosen = make_policy(policy, 6)
    for number in range(6):
        chosen.insert(key(number).name.encode(), number)
    for step, number in steps:
        getattr(chosen, step)(key(number).name.encode())
    demoted = {key(number).name.encode() for step, number in steps if step == "demote"}
    for _ in range(6):
        told = chosen.next_victim()
        taken = chosen.take_victim()
        if told is None:
            assert policy in ("lru", "s3fifo") or taken in demoted
        else:
            assert told.block == taken
    assert chosen.next_victim() is None
