"""What a node serves, held by several of its parts."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.pool.network import Sealed
from innet.kv.pool.publications import Publications
from tests.kv.fake_network import FakeFabric, run
from tests.kv.pools import contents, key

NAME = key(1).name


def test_a_block_is_served_until_the_last_lets_go_of_it() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        served = fabric.nodes["h0"].serves
        first, second = await asyncio.gather(
            publications.sign(NAME, contents(1)), publications.sign(NAME, contents(1))
        )
        assert first is second
        publications.release(NAME)
        assert NAME in served
        publications.release(NAME)
        assert NAME not in served

    run(work())


def test_what_is_let_go_of_half_published_is_not_served_afterwards() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        signing = asyncio.ensure_future(publications.sign(NAME, contents(1)))
        await asyncio.sleep(0)
        signing.cancel()
        await asyncio.gather(signing, return_exceptions=True)
        await asyncio.sleep(1)
        assert not fabric.nodes["h0"].serves
        assert (await publications.sign(NAME, contents(2))).contents[0] == contents(2)[0]

    run(work())


def test_who_begins_with_a_damaged_block_is_told_and_serves_nothing() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        told: list[str] = []

        def damaged() -> None:
            told.append(NAME)
            publications.release(NAME)

        damaged_block = Sealed(np.zeros(10, np.uint8), b"another's root")
        assert publications.begin(NAME, damaged_block, damaged)
        assert not publications.begin(NAME, damaged_block, damaged)
        await asyncio.sleep(1)
        assert told == [NAME]
        assert not fabric.nodes["h0"].serves
        await publications.sign(NAME, contents(1))
        assert NAME in fabric.nodes["h0"].serves

    run(work())


def test_who_waited_for_a_damaged_block_together_have_one_signed() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        damaged = Sealed(np.zeros(10, np.uint8), b"another's root")
        added, first, second = await asyncio.gather(
            publications.add(NAME, damaged),
            publications.sign(NAME, contents(1)),
            publications.sign(NAME, contents(1)),
        )
        assert added is None
        assert first is second
        assert NAME in fabric.nodes["h0"].serves

    run(work())


def test_who_waits_when_all_is_closed_is_told_so_and_is_not_cancelled() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        signing = publications.begin_signing(NAME, contents(1))
        assert signing is not None
        waiting = [publications.end_of(signing), publications.sign(NAME, contents(1))]
        given_up, *others = map(asyncio.ensure_future, (publications.end_of(signing), *waiting))
        await asyncio.sleep(0)
        given_up.cancel()
        publications.close()
        ends = await asyncio.gather(given_up, *others, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError, KVError, KVError]
        assert not fabric.nodes["h0"].serves

    run(work())


def test_nothing_is_served_that_is_begun_after_the_close() -> None:
    async def work() -> None:
        fabric = FakeFabric({"h0": 1})
        publications = Publications(fabric.network("h0"))
        block = await publications.sign(NAME, contents(1))
        publications.close()
        publications.hold(NAME)  # who has just got it does not know yet
        publications.release(NAME)
        publications.release(NAME)
        with pytest.raises(KVError, match="closed"):
            await publications.add(NAME, block)
        with pytest.raises(KVError, match="closed"):
            publications.begin_signing(NAME, contents(1))
        assert not fabric.nodes["h0"].serves

    run(work())
