"""Labels: blocks are listed by the names of models, and engines that share none say why."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.chunk_hash import chunk_hashes
from innet.kv.labels import EVERYTHING, BlockLabel, PoolInventory, announce, read_labels
from innet.kv.model import digest_of
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool
from innet.kv.pool.administration import HOLD_S
from innet.kv.pool.inventory import LABEL_LAYOUT, FamilyInventory
from tests.kv.fake_network import TENANT
from tests.kv.pools import Pools, contents, with_pools

LLAMA = BlockLabel.of("vllm", "meta-llama/Llama-3.1-8B", "", {"chunk_tokens": 4, "--dtype": "bf16"})
TUNED = LLAMA.model_copy(update={"adapter": "tuned"})
TOKENS = list(range(10))


def block(digest: str, block_hash: bytes = bytes(32)) -> BlockKey:
    return BlockKey(BlockFamily(TENANT, digest, "raw", 0, 1), block_hash)


async def inventory(pool: BlockPool) -> PoolInventory:
    result = await pool.administration.inventory(EVERYTHING)
    return PoolInventory(result, await read_labels(pool, TENANT, result.families()))


def test_engines_with_the_same_settings_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def work(pools: Pools) -> None:
        assert not await announce(pools["user"], TENANT, "aa00", LLAMA)
        assert not await announce(pools["other"], TENANT, "aa00", LLAMA)
        await announce(pools["other"], TENANT, "bb00", TUNED)
        other = BlockLabel.of("vllm", "another/model", "", {"chunk_tokens": 8})
        assert not await announce(pools["other"], TENANT, "cc00", other)
        counts = pools["other"].statistics()
        assert not counts.puts
        assert not counts.hits.total(), "labels are no hits of engines"

    with_pools(work)
    assert not caplog.records


@pytest.mark.parametrize("digest", ["aa00", "ab00"])
def test_an_engine_that_will_share_nothing_says_which_setting_differs(
    caplog: pytest.LogCaptureFixture, digest: str
) -> None:
    async def work(pools: Pools) -> None:
        await announce(pools["user"], TENANT, "aa00", LLAMA)
        changed = LLAMA.model_copy(update={"settings": LLAMA.settings | {"chunk_tokens": "8"}})
        assert await announce(pools["other"], TENANT, digest, changed) == [LLAMA]

    with_pools(work)
    [record] = caplog.records
    said = record.getMessage()
    assert "chunk_tokens is 8 here and 4 there" in said
    assert "--dtype" not in said
    assert "meta-llama/Llama-3.1-8B" in said


def test_engines_of_equal_weights_at_other_paths_are_compared() -> None:
    one = BlockLabel.of("vllm", "/a/model", "files:12", {"x": 1})
    assert one.is_same_model(BlockLabel.of("vllm", "/b/copy", "files:12", {}))
    assert not one.is_same_model(BlockLabel.of("sglang", "/a/model", "files:12", {}))
    retrained = BlockLabel.of("vllm", "/a/model", "files:34", {"x": 1})
    assert retrained.differences(one) == ["weights is files:34 here and files:12 there"]


def test_blocks_are_chosen_by_the_names_of_models_and_adapters() -> None:
    async def work(pools: Pools) -> None:
        await announce(pools["user"], TENANT, "aa00", LLAMA)
        await announce(pools["user"], TENANT, "bb0011", TUNED)
        for digest in ("aa00", "bb0011", "cc0011"):
            await pools["user"].put(block(digest), contents(0))
        found = await inventory(pools["other"])
        assert [found.model(each.model_digest) for each in found.families()] == [
            "cc0011", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B + tuned",
        ]  # fmt: skip
        assert found.digests("Llama-3.1-8B") == {"aa00", "bb0011"}
        assert found.digests("meta-llama/Llama-3.1-8B") == {"aa00", "bb0011"}
        assert found.digests(adapter="tuned") == found.digests("bb00") == {"bb0011"}
        assert found.digests() == {"aa00", "bb0011", "cc0011"}
        for model, adapter in (("cc", ""), ("Llama", ""), ("", "other"), ("cc00", "tuned")):
            with pytest.raises(KVError, match="the pool has no blocks of"):
                found.digests(model, adapter)

    with_pools(work)


def test_a_prompts_blocks_are_chosen_by_its_tokens() -> None:
    async def work(pools: Pools) -> None:
        await announce(pools["user"], TENANT, "aa00", LLAMA)
        named = [digest_of([each]) for each in chunk_hashes(TOKENS, 4)]
        for block_hash in (*named, bytes(32)):
            await pools["user"].put(block("aa00", block_hash), contents(0))
        found = await inventory(pools["user"])
        assert found.prompt_hashes({"aa00"}, TOKENS) == set(named)
        assert not found.prompt_hashes({"aa00"}, TOKENS, "salted") & set(named)
        with pytest.raises(KVError, match=r"chunk_tokens there: 4\)"):
            found.prompt_hashes({"aa00"}, TOKENS[:3])

    with_pools(work)


@pytest.mark.parametrize(
    "lie", [b"", b"{}", b'{"engine": 7}', b'{"engine": "' + b"x" * 300 + b'"}', b"[" * 9000]
)
def test_a_label_that_lies_is_left_out(lie: bytes) -> None:
    async def work(pools: Pools) -> None:
        key = BlockKey(BlockFamily(TENANT, "aa00", "label", 0, 1), bytes(32))
        await pools["user"].put(key, np.frombuffer(lie or b"\0", np.uint8))
        found = await inventory(pools["user"])
        assert (found.labels, found.model("aa00")) == ({}, "aa00")

    with_pools(work)


@pytest.mark.parametrize("members", [1, 3])
def test_a_full_pool_still_has_the_labels_of_running_engines(members: int) -> None:
    async def work(pools: Pools) -> None:
        await announce(pools["h0"], TENANT, "aa00", LLAMA)
        await pools.put(*range(20 * members))
        for _ in range(2):
            found = await inventory(pools["other"])
            assert found.labels == {"aa00": [LLAMA]}
        await pools["user"].administration.purge(EVERYTHING)
        await asyncio.sleep(2 * HOLD_S)
        assert (await inventory(pools["other"])).labels == {"aa00": [LLAMA]}

    with_pools(work, members=members, blocks=4)


def test_a_purge_of_a_model_drops_its_label() -> None:
    async def work(pools: Pools) -> None:
        await announce(pools["user"], TENANT, "aa00", LLAMA)
        found = await inventory(pools["user"])
        await pools["user"].administration.purge(EVERYTHING)
        assert found.labels
        assert not (await inventory(pools["user"])).labels

    with_pools(work)


def test_labels_are_read_at_once() -> None:
    """One that no member has any more takes its whole timeout."""

    class Blocks:
        def __init__(self) -> None:
            self.all_wait = asyncio.Barrier(3)

        async def get_uncounted(self, _key: BlockKey, _timeout_s: float) -> None:
            await self.all_wait.wait()

    async def read() -> None:
        families = [
            FamilyInventory(model_digest=digest, layout=LABEL_LAYOUT, labels=[bytes(32).hex()])
            for digest in ("aa00", "bb00", "cc00")
        ]
        async with asyncio.timeout(60):
            assert await read_labels(Blocks(), TENANT, families) == {}  # type: ignore[arg-type]

    asyncio.run(read())
