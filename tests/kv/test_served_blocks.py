"""What a node serves, held by several of its parts."""

from __future__ import annotations

import asyncio
import gc
import weakref

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.pool.network import Sealed
from innet.kv.pool.served import ServedBlocks
from tests.kv.fake_network import FakeFabric, run
from tests.kv.pools import contents, key

NAME = key(1).name
OTHER = key(2).name


def test_a_block_is_served_until_the_last_lets_go_of_it() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        served = fabric.nodes["h0"].serves
        first, second = await asyncio.gather(
            served_blocks.sign(NAME, contents(1)), served_blocks.sign(NAME, contents(1))
        )
        assert first is second
        served_blocks.release(NAME)
        assert NAME in served
        served_blocks.release(NAME)
        assert NAME not in served

    run(work())


def test_what_is_let_go_of_half_published_is_not_served_afterwards() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        signing = asyncio.ensure_future(served_blocks.sign(NAME, contents(1)))
        await asyncio.sleep(0)
        signing.cancel()
        await asyncio.gather(signing, return_exceptions=True)
        await asyncio.sleep(1)
        assert not fabric.nodes["h0"].serves
        assert (await served_blocks.sign(NAME, contents(2))).contents[0] == contents(2)[0]

    run(work())


def test_who_begins_with_a_damaged_block_is_told_and_serves_nothing() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        told: list[str] = []

        def damaged() -> None:
            told.append(NAME)
            served_blocks.release(NAME)

        damaged_block = Sealed(np.zeros(10, np.uint8), b"another's root")
        assert served_blocks.start_serving(NAME, damaged_block, damaged)
        assert not served_blocks.start_serving(NAME, damaged_block, damaged)
        await asyncio.sleep(1)
        assert told == [NAME]
        assert not fabric.nodes["h0"].serves
        await served_blocks.sign(NAME, contents(1))
        assert NAME in fabric.nodes["h0"].serves

    run(work())


def test_who_waited_for_a_damaged_block_together_have_one_signed() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        damaged = Sealed(np.zeros(10, np.uint8), b"another's root")
        added, first, second = await asyncio.gather(
            served_blocks.add(NAME, damaged),
            served_blocks.sign(NAME, contents(1)),
            served_blocks.sign(NAME, contents(1)),
        )
        assert added is None
        assert first is second
        assert NAME in fabric.nodes["h0"].serves

    run(work())


def test_who_waits_when_all_is_closed_is_told_so_and_is_not_cancelled() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        signing = served_blocks.start_signing([(NAME, contents(1))])[NAME]
        waiting = [served_blocks.published(signing), served_blocks.sign(NAME, contents(1))]
        given_up, *others = map(asyncio.ensure_future, (served_blocks.published(signing), *waiting))
        await asyncio.sleep(0)
        given_up.cancel()
        served_blocks.close()
        ends = await asyncio.gather(given_up, *others, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError, KVError, KVError]
        assert not fabric.nodes["h0"].serves

    run(work())


def test_nothing_is_served_that_is_begun_after_the_close() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        block = await served_blocks.sign(NAME, contents(1))
        served_blocks.close()
        served_blocks.hold(NAME)  # who has just got it does not know yet
        served_blocks.release(NAME)
        served_blocks.release(NAME)
        with pytest.raises(KVError, match="closed"):
            await served_blocks.add(NAME, block)
        with pytest.raises(KVError, match="closed"):
            served_blocks.start_signing([(NAME, contents(1))])
        assert not fabric.nodes["h0"].serves

    run(work())


def test_blocks_that_are_signed_together_are_held_and_freed_one_by_one() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        served_blocks = ServedBlocks(fabric.network("h0"))
        first, second = contents(1), contents(2)
        is_left = weakref.ref(second)
        signing = served_blocks.start_signing([(NAME, first), (OTHER, second), (NAME, second)])
        assert list(signing) == [NAME, OTHER]
        assert served_blocks.start_signing([(OTHER, first)]) == {}
        held = await served_blocks.published(signing[NAME])
        assert held is not None
        assert np.array_equal(held.contents, first)
        served_blocks.hold(NAME)
        served_blocks.release(NAME, OTHER)
        assert set(fabric.nodes["h0"].serves) == {NAME}
        del second, signing
        await asyncio.sleep(0)  # until then, this task has the result that it has awaited
        gc.collect()
        assert is_left() is None

    run(work())
