"""Lists, purges and pins of many blocks, over all processes and tiers of a pool."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import PoolSettings
from innet.kv.pool.administration import HOLD_S
from innet.kv.pool.inventory import BlockFilter, BulkAnswer, BulkRequest
from innet.kv.pool.network import Cause
from innet.kv.pool.requests import Answer, Note, Offer, name_of_action, requests_prefix
from tests.kv.fake_network import TENANT
from tests.kv.pools import FAMILY, Disks, Pools, contents, key, with_pools

EVERYTHING = BlockFilter()
OTHER = BlockFamily(TENANT, "11ee", "raw", 0, 1)
EVERYONE = ("user", "other")


def other_key(number: int) -> BlockKey:
    return BlockKey(OTHER, number.to_bytes(32, "big"))


async def put_other(pools: Pools, *numbers: int) -> None:
    await pools["user"].put_many([(other_key(n), contents(n)) for n in numbers])


async def got(pools: Pools, *numbers: int) -> list[bool]:
    return [await pools.got(number) for number in numbers]


def test_an_inventory_counts_blocks_by_model_and_tier_at_each_process(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10))
        await put_other(pools, *range(5))
        await asyncio.sleep(60)
        found = await pools["other"].administration.inventory(EVERYTHING, EVERYONE)
        assert not found.failed
        assert sorted(found.nodes) == ["h0", "h1", "h2", "other", "user"]
        families = {each.model_digest: each for each in found.families()}
        assert (families["00ff"].blocks, families["11ee"].blocks) == (10, 5)
        assert families["00ff"].tiers.keys() == {"memory", "disk"}
        assert sum(families["00ff"].tiers.values()) == 10
        assert 60 <= families["00ff"].newest_s <= families["00ff"].oldest_s < 70
        only = await pools["other"].administration.inventory(BlockFilter(frozenset({"11ee"})))
        assert only.blocks == 5

    with_pools(work, blocks=2, disks=Disks(tmp_path))


@pytest.mark.parametrize("puts", ["at-once", "when-asked"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_purge_drops_a_model_everywhere_and_leaves_others(
    tmp_path: Path, puts: str, replicas: int
) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10))
        await put_other(pools, 0)
        assert all(await got(pools, *range(10)))
        purged = await pools["other"].administration.purge(
            BlockFilter(frozenset({FAMILY.model_digest})), EVERYONE
        )
        assert purged.blocks >= 10 * replicas
        assert not purged.failed
        assert not any(await got(pools, *range(10)))
        found = await pools["user"].administration.inventory(EVERYTHING, EVERYONE)
        assert {each.model_digest for each in found.families()} == {"11ee"}
        assert not any(pools.serving(number) for number in range(10))

    settings = PoolSettings(puts=puts, replicas=replicas)  # type: ignore[arg-type]
    with_pools(work, blocks=4, local_blocks=4, disks=Disks(tmp_path), settings=settings)


def test_purged_blocks_are_not_on_the_disk_after_a_restart(tmp_path: Path) -> None:
    disks = Disks(tmp_path, is_saved=True)

    async def purge(pools: Pools) -> None:
        await pools.put(*range(20))
        await pools["user"].administration.purge(EVERYTHING, EVERYONE)

    async def restart(pools: Pools) -> None:
        assert not (await pools["user"].administration.inventory(EVERYTHING)).blocks
        assert not any(await got(pools, *range(20)))

    with_pools(purge, blocks=3, disks=disks)
    with_pools(restart, blocks=3, disks=disks)


def test_a_purge_by_prefix_drops_these_blocks_alone() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(40))
        hashes = frozenset(key(number).block_hash for number in range(20))
        purged = await pools["other"].administration.purge(BlockFilter(hashes=hashes), EVERYONE)
        assert purged.blocks == 20
        assert await got(pools, *range(40)) == [False] * 20 + [True] * 20

    with_pools(work)


def test_a_purge_by_age_leaves_newer_blocks() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(5))
        await asyncio.sleep(3600)
        await pools.put(*range(5, 10))
        await pools["other"].administration.purge(BlockFilter(min_age_s=1800), EVERYONE)
        assert await got(pools, *range(10)) == [False] * 5 + [True] * 5

    with_pools(work)


def test_pinned_blocks_are_purged_as_well() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0)
        await pools["user"].pin([key(0)], 600)
        assert (await pools["other"].administration.purge(EVERYTHING, EVERYONE)).blocks == 1
        assert not await pools.got(0)

    with_pools(work)


def test_copies_that_are_on_their_way_do_not_bring_blocks_back() -> None:
    async def work(pools: Pools) -> None:
        producer = pools.fabric.nodes["user"]
        producer.alive = False  # its blocks stay on the way
        putting = asyncio.ensure_future(pools.put(0, 1, 2))
        await asyncio.sleep(1)
        purged = await pools["other"].administration.purge(EVERYTHING)
        assert not purged.blocks, "no home has them yet"
        producer.alive = True
        producer.change()
        await putting
        assert not any(await got(pools, 0, 1, 2))
        await asyncio.sleep(HOLD_S)
        await pools.put(0, 1, 2)
        assert all(await got(pools, 0, 1, 2)), "they can be put again behind it"

    with_pools(work)


@pytest.mark.parametrize("wait_ms", [0, 10**9 - 1])
def test_a_producer_that_missed_a_purge_does_not_bring_a_block_back(wait_ms: int) -> None:
    async def work(pools: Pools) -> None:
        home = next(n for n, node in pools.fabric.nodes.items() if node is pools.first_home(1))
        await pools["other"].administration.purge(EVERYTHING)
        network = pools.fabric.network("user")
        for action in (Note(key(1), 0, "user"), Offer(key(1), 0, "user", wait_ms)):
            sealed = await network.request(home, name_of_action(action), 1.0)
            assert not isinstance(sealed, Cause)
            assert Answer.decode(sealed.contents) == Answer(False, "purged")
        assert key(1).name not in pools.first_home(1).expected

    with_pools(work, settings=PoolSettings(puts="balanced"))


def test_a_process_that_does_not_answer_is_named_and_the_others_are_purged() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(30))
        pools.fabric.nodes["h1"].reachable = False
        purged = await pools["user"].administration.purge(EVERYTHING, EVERYONE, timeout_s=1)
        assert purged.failed == {"h1": "unreachable"}
        assert 0 < purged.blocks < 30

    with_pools(work)


def test_blocks_are_pinned_by_filter_until_anybody_ends_it() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0, 1)
        await put_other(pools, 2)
        model = BlockFilter(frozenset({FAMILY.model_digest}))
        assert (await pools["user"].administration.pin(model, 300)).blocks == 2
        assert await pools["other"].evict([key(0)]) == [False]
        found = await pools["user"].administration.inventory(EVERYTHING)
        assert {each.model_digest: each.pinned for each in found.families()} == {
            "00ff": 2, "11ee": 0,
        }  # fmt: skip
        await pools["other"].administration.pin(model, 0)
        assert await pools["user"].evict([key(0)]) == [True]
        await pools["user"].administration.pin(model, 300)
        await asyncio.sleep(301)
        assert await pools["user"].evict([key(1)]) == [True]
        with pytest.raises(KVError, match="from 0 on"):
            await pools["user"].administration.pin(model, -1)

    with_pools(work)


FILTERS = st.builds(
    BlockFilter,
    st.frozensets(st.from_regex(r"[0-9a-f]{2,64}", fullmatch=True), max_size=8),
    st.frozensets(st.binary(min_size=32, max_size=32), max_size=8),
    st.integers(0, 10**9 - 1),
)


@given(st.sampled_from(["list", "purge", "hold"]), FILTERS, st.integers(0, 10**9 - 1))
def test_a_request_says_all_that_it_was_made_of(
    verb: str, blocks: BlockFilter, duration: int
) -> None:
    request = BulkRequest(verb, blocks, duration)  # type: ignore[arg-type]
    name = f"{requests_prefix(TENANT, 'h0')}/h1/7/{request.action()}"
    assert BulkRequest.of_name(name) == request
    assert len(name) < 1300


@given(st.frozensets(st.binary(min_size=32, max_size=32), max_size=40))
def test_the_parts_of_a_filter_are_all_of_it(hashes: frozenset[bytes]) -> None:
    parts = list(BlockFilter(hashes=hashes, min_age_s=3).parts())
    assert frozenset().union(*(part.hashes for part in parts)) == hashes
    assert all(part.hashes or not hashes for part in parts), "an empty part would be everything"


@pytest.mark.parametrize(
    "action",
    [
        "purge", "purge/-", "purge/-/-/0", "purge/-/-/0/0/0", "purge/-/-/-1/0", "purge/-/-/0/x",
        "purge//-/0/0", "purge/-//0/0", "purge/zz/-/0/0", "purge/-/00/0/0", "purge/00./-/0/0",
        "list/" + ".".join(["00"] * 9) + "/-/0/0", "hold/-/-/0/9999999999", "purge/AA/-/0/0",
    ],
)  # fmt: skip
def test_other_requests_are_refused(action: str) -> None:
    with pytest.raises(KVError):
        BulkRequest.of_name(f"{requests_prefix(TENANT, 'h0')}/h1/7/{action}")


@given(st.binary(max_size=300))
def test_any_answer_is_read_without_an_error(contents: bytes) -> None:
    BulkAnswer.decode(np.frombuffer(contents, np.uint8))


@pytest.mark.parametrize(
    "contents",
    [
        b'{"done": true, "families": [{"model_digest": "00", "layout": "x", "blocks": -1}]}',
        b'{"done": true, "families": [{"model_digest": "00", "layout": "x", "oldest_s": 1e999}]}',
        b'{"done": true, "families": [{"model_digest": "00", "layout": "\\u001b[31m"}]}',
        b'{"done": true, "families": [{"model_digest": "00", "layout": "x", "tiers": {"\\n": 1}}]}',
        b'{"done": true, "families": ' + b"[" * 5000,
    ],
)
def test_a_lying_member_is_an_unreadable_answer(contents: bytes) -> None:
    answer = BulkAnswer.decode(np.frombuffer(contents, np.uint8))
    assert (answer.done, answer.cause) == (False, "an unreadable answer")
