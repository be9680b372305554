"""Keys and values of prompts' prefixes: what was put is found, and nothing else."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.hash_chain import chain, root_hash
from innet.kv.layout import BlockLayout, KVArray
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.requests import MAX_KEPT_AT_ONCE
from innet.kv.pool.window import BLOCKS_OF_REQUEST
from innet.kv.prefill import PrefillCost
from innet.kv.prefix_cache import LoadedLayers, PrefixCache
from tests.kv.fake_network import TENANT, FakeFabric, run

LAYOUT = BlockLayout(
    layers=3, kv_heads=2, head_dim=4, cache_type="bf16", block_tokens=4, layers_per_block=2
)
TOKENS = list(range(18))
"""Four full blocks, and two tokens more."""


def _kv(tokens: int, seed: int = 0) -> KVArray:
    values = np.random.default_rng(seed).standard_normal(LAYOUT.empty(tokens).shape)
    return values.astype(LAYOUT.dtype)


def _same(one: KVArray, other: KVArray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


class Caches:
    """A cache at the host ``user``, and one at ``other``, over homes ``h0`` to ``h2``."""

    def __init__(self, fabric: FakeFabric) -> None:
        self.fabric = fabric
        self.pools = {
            node: BlockPool(
                fabric.network(node),
                local=TieredStore(MemoryTier(0)),
                offered=TieredStore(MemoryTier(fabric.members.get(node, 0))),
                settings=PoolSettings(timeout_s=0.5, put_timeout_s=0.5),
            )
            for node in fabric.nodes
        }

        self._caches = {node: self.of(node) for node in self.pools}

    def __getitem__(self, node: str) -> PrefixCache:
        return self._caches[node]

    def of(self, node: str, model: str = "00ff", salt: str = "") -> PrefixCache:
        return PrefixCache(
            self.pools[node], tenant=TENANT, model_digest=model, layout=LAYOUT, salt=salt
        )

    def drop(self, block: int, layers: str) -> None:
        """A block is lost by whoever has it."""
        digest = list(chain(TOKENS, LAYOUT.block_tokens, root=root_hash()))[block].hex()
        for node in self.fabric.nodes.values():
            for name in list(node.serves):
                if name.endswith(f"/{layers}/{digest}"):
                    del node.serves[name]


@asynccontextmanager
async def _open(caches: Caches) -> AsyncIterator[Caches]:
    for pool in caches.pools.values():
        await pool.start()
    try:
        yield caches
    finally:
        for pool in caches.pools.values():
            await pool.close()


def with_caches(work: Callable[[Caches], Awaitable[None]]) -> None:
    async def whole() -> None:
        fabric = FakeFabric({f"h{i}": 1 << 20 for i in range(3)}, others=("user", "other"))
        async with _open(Caches(fabric)) as caches:
            await work(caches)

    run(whole())


def test_another_worker_finds_the_longest_prefix() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        done: list[tuple[int, int]] = []
        assert await caches["user"].put(TOKENS, kv, progress=lambda *now: done.append(now)) == 16
        assert done[-1] == (8, 8)
        for prompt, common in ((TOKENS, 16), ([*TOKENS[:9], 99, 98, 97], 8), ([7, *TOKENS], 0)):
            found, got = await caches["other"].get_longest_prefix(prompt)
            assert found == common
            assert _same(got, kv[:, :, :common])
            assert await caches["other"].exists(prompt) == common
        counted = await caches["other"].statistics()
        assert (counted.lookups, counted.tokens_asked, counted.tokens_found) == (3, 44, 24)

    with_caches(work)


def test_the_bytes_of_an_array_are_put_like_the_array() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(8)
        for first, some in ((0, kv.tobytes()), (4, memoryview(kv[:, :, 4:].tobytes()))):
            assert await caches["user"].put(TOKENS[:8], some, first_token=first) == 8
            found, got = await caches["other"].get_longest_prefix(TOKENS)
            assert found == 8
            assert _same(got, kv)
            await caches["user"].evict(TOKENS, first_token=4)
        for wrong in (b"", kv.tobytes()[1:], kv.tobytes() * 2):
            with pytest.raises(KVError, match=r"expected 768 of an array \(3, 2, 8, 2, 4\)"):
                await caches["user"].put(TOKENS[:8], wrong)

    with_caches(work)


def test_the_blocks_of_a_prompt_share_requests() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(4 * 64)
        assert await caches["user"].put(range(4 * 64), kv) == 4 * 64
        requests = [
            name
            for node in caches.fabric.nodes.values()
            for name in node.fetched
            if "/request/" in name
        ]
        blocks = 2 * 64
        assert blocks // MAX_KEPT_AT_ONCE <= len(requests) < blocks // BLOCKS_OF_REQUEST
        found, got = await caches["other"].get_longest_prefix(range(4 * 64))
        assert found == 4 * 64
        assert _same(got, kv)

    with_caches(work)


def test_prompts_are_not_read_after_the_put_of_one_of_them_has_failed() -> None:
    async def work(caches: Caches) -> None:
        tokens, kv = range(4 * 64), _kv(4 * 64)
        array = kv.copy()
        with pytest.raises(KVError):
            await caches["user"].put_many([(tokens, array), (TOKENS, _kv(2))])
        array[:] = 0
        await asyncio.sleep(10)
        found, got = await caches["other"].get_longest_prefix(tokens)
        assert _same(got, kv[:, :, :found])

    with_caches(work)


def test_only_blocks_after_a_found_prefix_are_put() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        await caches["user"].put(TOKENS[:9], kv[:, :, :9])
        puts = (await caches["user"].statistics()).blocks.puts
        assert await caches["user"].put(TOKENS, kv[:, :, 6:], first_token=6) == 16
        assert (await caches["user"].statistics()).blocks.puts == puts + 4
        found, got = await caches["other"].get_longest_prefix(TOKENS)
        assert found == 16
        assert _same(got, kv[:, :, :16])

    with_caches(work)


def test_a_prompt_with_more_blocks_than_the_window_is_loaded_completely() -> None:
    async def work(caches: Caches) -> None:
        prompts = [list(range(seed, seed + 101)) for seed in (0, 1000)]
        kvs = [_kv(101, seed) for seed in (1, 2)]
        assert await caches["user"].put_many(list(zip(prompts, kvs, strict=True))) == [100, 100]
        got = await caches["other"].get_longest_prefixes(prompts)
        for (found, kv), put in zip(got, kvs, strict=True):
            assert found == 100
            assert _same(kv, put[:, :, :100])
        assert await caches["other"].exists_many([*prompts, [1]]) == [100, 100, 0]

    with_caches(work)


def test_models_salts_and_tenants_are_isolated() -> None:
    async def work(caches: Caches) -> None:
        await caches["user"].put(TOKENS, _kv(len(TOKENS)))
        for stranger in (caches.of("other", model="00fe"), caches.of("other", salt="s")):
            assert (await stranger.get_longest_prefix(TOKENS))[0] == 0

    with_caches(work)


def test_a_prefix_can_be_loaded_into_a_given_array() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        # Heads before tokens, as a library may have it; so are the views that it is put from.
        theirs = np.ascontiguousarray(kv.swapaxes(2, 3))
        views = [tuple(layer.swapaxes(1, 2)) for layer in theirs]
        await caches["user"].put(TOKENS, views)
        target = np.zeros((3, 2, 2, 40, 4), LAYOUT.dtype)
        into = [tuple(layer.swapaxes(1, 2)) for layer in target]
        assert await caches["other"].load_prefix(TOKENS, into) == 16
        assert _same(target.swapaxes(2, 3)[:, :, :16], kv[:, :, :16])
        assert not target[:, :, :, 16:].any()

    with_caches(work)


@pytest.mark.parametrize("layers", ["0-1", "2-2"])
def test_a_prefix_ends_before_the_first_block_that_lacks_any_layer(layers: str) -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        await caches["user"].put(TOKENS, kv)
        caches.drop(2, layers)
        found, got = await caches["other"].get_longest_prefix(TOKENS)
        assert found == 8
        assert _same(got, kv[:, :, :8])
        assert await caches["other"].exists(TOKENS) == 8
        parts = [part async for part in caches["other"].layers(TOKENS)]
        assert [part.tokens for part in parts] == [8, 8]

    with_caches(work)


def test_layers_arrive_in_order_and_form_the_whole() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        await caches["user"].put(TOKENS, kv)
        parts = [part async for part in caches["other"].layers(TOKENS)]
        assert [(part.layers.first, part.layers.end) for part in parts] == [(0, 2), (2, 3)]
        assert _same(np.concatenate([part.kv for part in parts]), kv[:, :, :16])
        assert [part async for part in caches["other"].layers([5, 5, 5, 5])] == []

    with_caches(work)


def test_layers_end_early_when_blocks_are_lost() -> None:
    async def work(caches: Caches) -> None:
        await caches["user"].put(TOKENS, _kv(len(TOKENS)))
        parts: list[LoadedLayers] = []
        async for part in caches["other"].layers(TOKENS):
            parts.append(part)
            for node in caches.fabric.nodes.values():
                node.serves.clear()
        assert [part.layers.end for part in parts] == [2]
        assert (await caches["other"].statistics()).tokens_found == 0

    with_caches(work)


def test_forged_blocks_are_not_found() -> None:
    async def work(caches: Caches) -> None:
        await caches["user"].put(TOKENS, _kv(len(TOKENS)))
        for node in caches.fabric.nodes.values():
            node.forges = True
        assert (await caches["other"].get_longest_prefix(TOKENS))[0] == 0

    with_caches(work)


def test_late_blocks_are_left_to_computation() -> None:
    async def work(caches: Caches) -> None:
        await caches["user"].put(TOKENS, _kv(len(TOKENS)))
        for node in caches.fabric.nodes.values():
            node.alive = False
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        found, _ = await caches["other"].get_longest_prefix(TOKENS, deadline_s=0.05)
        assert found == 0
        assert loop.time() - began_s == pytest.approx(0.05)
        parts = [part async for part in caches["other"].layers(TOKENS, deadline_s=0.05)]
        assert parts == []
        assert loop.time() - began_s == pytest.approx(0.1)

    with_caches(work)


def test_an_announced_prompt_is_awaited_and_arrives_unchanged() -> None:
    async def work(caches: Caches) -> None:
        kv, size = _kv(len(TOKENS)), LAYOUT.block_tokens
        waiting = asyncio.ensure_future(
            caches["other"].get_longest_prefix(TOKENS, request="r1", deadline_s=20.0)
        )
        await asyncio.sleep(0.1)
        assert await caches["user"].announce(TOKENS, "r1") == 1
        for start in range(0, 4 * size, size):
            await asyncio.sleep(2.0)
            assert not waiting.done()
            await caches["user"].put(
                TOKENS[: start + size], kv[:, :, start : start + size], first_token=start
            )
        found, loaded = await waiting
        assert found == 4 * size
        assert _same(loaded, kv[:, :, :found])
        await caches["user"].announce([9] * len(TOKENS), "r2")
        await caches["user"].withdraw("r2")
        assert (await caches["other"].get_longest_prefix([9] * size, request="r2"))[0] == 0

    with_caches(work)


def test_blocks_that_are_computed_sooner_are_not_loaded() -> None:
    async def work(caches: Caches) -> None:
        kv = _kv(len(TOKENS))
        await caches["user"].put(TOKENS, kv)
        quick = PrefillCost(token_s=1e-9, pair_s=0.0, start_s=0.0)
        slow = PrefillCost(token_s=1.0, pair_s=0.0, start_s=0.0)
        # Nothing is known of the network before the first load.
        assert (await caches["other"].get_longest_prefix(TOKENS, cost=quick))[0] == 16
        other = caches["other"]
        assert (await other.get_longest_prefix(TOKENS))[0] == 16
        assert (await other.get_longest_prefix(TOKENS, cost=quick))[0] == 0
        assert (await other.get_longest_prefix(TOKENS, cost=slow))[0] == 16
        assert (await other.statistics()).load_time is not None

    with_caches(work)


def test_pins_prefetches_and_evictions_are_by_prompt() -> None:
    async def work(caches: Caches) -> None:
        await caches["user"].put(TOKENS, _kv(len(TOKENS)))
        cache = caches["other"]
        assert await cache.prefetch(TOKENS) == 16
        assert await cache.pin(TOKENS, 1.0) == 16
        await cache.unpin(TOKENS)
        await caches["user"].evict(TOKENS, first_token=7)
        assert await caches["user"].exists(TOKENS) == 8
        assert await cache.prefetch([1, 2, 3, 4]) == 0

    with_caches(work)


def test_arrays_that_do_not_fit_are_refused() -> None:
    async def work(caches: Caches) -> None:
        cache = caches["user"]
        with pytest.raises(KVError, match=r"expected \(18, "):
            await cache.put(TOKENS, _kv(17))
        with pytest.raises(KVError, match="first_token"):
            await cache.put(TOKENS, _kv(0), first_token=19)
        with pytest.raises(KVError, match=r"expected \(16, "):
            await cache.load_prefix(TOKENS, _kv(15))

    with_caches(work)


INVALID_TOKENS: list[Any] = [
    "a prompt",
    b"abc",
    5,
    None,
    iter([1, 2]),
    np.zeros((2, 9), int),
    [1.5] * 18,
]


@pytest.mark.parametrize("tokens", INVALID_TOKENS, ids=lambda each: type(each).__name__)
def test_invalid_tokens_are_refused(tokens: Any) -> None:
    async def work(caches: Caches) -> None:
        cache = caches["user"]
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: cache.get_longest_prefix(tokens),
            lambda: cache.put(tokens, _kv(18)),
            lambda: cache.exists(tokens),
            lambda: cache.announce(tokens, "request"),
        ]
        for call in calls:
            with pytest.raises(KVError, match="invalid token ids"):
                await call()

    with_caches(work)


@pytest.mark.parametrize("seconds", ["5s", math.nan, math.inf, -1, None])
def test_invalid_times_are_refused(seconds: Any) -> None:
    async def work(caches: Caches) -> None:
        cache = caches["user"]
        with pytest.raises(KVError, match="a lease has a length"):
            await cache.pin(TOKENS, seconds)
        with pytest.raises(KVError, match="a lease has a length"):
            await cache.announce(TOKENS, "request", seconds)
        if seconds not in (None, -1):  # no deadline, and one that has passed
            with pytest.raises(KVError, match="a deadline is a number"):
                await cache.get_longest_prefix(TOKENS, deadline_s=seconds)

    with_caches(work)


def test_a_request_without_a_name_is_not_announced() -> None:
    async def work(caches: Caches) -> None:
        with pytest.raises(KVError, match="a request to announce has a name"):
            await caches["user"].announce(TOKENS, "")

    with_caches(work)
