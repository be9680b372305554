"""A pool on a thread of its own, as programs with and without event loops use it."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import innet
from innet.errors import EmulationError, KVError
from innet.kv.model import ModelIdentity
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import MemberOptions, PoolOptions
from tests.kv.fake_network import FakeFabric

ROOT = Path(__file__).parents[2]
MODEL = ModelIdentity(
    architecture="llama", weights="tiny@1", compute="f32", cache_type="f32",
    layers=2, kv_heads=1, head_dim=2,
)  # fmt: skip
TOKENS = [1, 2, 3, 4, 5]
KV = np.arange(2 * 2 * 5 * 2, dtype=np.float32).reshape(2, 2, 5, 1, 2)


def only_member(options: MemberOptions) -> PoolMember:
    """The only member of its pool."""
    fabric = FakeFabric({"h0": 1 << 20})
    return fabric.member("h0", options)


@pytest.fixture
def member() -> Iterator[PoolMember]:
    with only_member(MemberOptions.of({})) as member:
        yield member


@pytest.fixture
def pool(member: PoolMember) -> innet.KVPool:
    return innet.KVPool(MODEL, block_tokens=2, layers_per_block=1, member=member)


def test_programs_without_an_event_loop_block(pool: innet.KVPool) -> None:
    blocking = pool.blocking
    assert blocking.members(at_least=1) == ("h0",)
    assert blocking.put(TOKENS, KV) == 4
    found, kv = blocking.get_longest_prefix(np.array(TOKENS))
    assert found == blocking.exists(TOKENS) == 4
    assert (kv == KV[:, :, :4]).all()
    into = np.zeros_like(KV)
    assert blocking.load_prefix(TOKENS, into) == 4
    assert (into[:, :, :4] == kv).all()
    parts = list(blocking.layers(TOKENS))
    assert (np.concatenate([part.kv for part in parts]) == kv).all()
    assert blocking.prefetch(TOKENS) == blocking.pin(TOKENS) == 4
    blocking.unpin(TOKENS)
    blocking.evict(TOKENS)
    assert blocking.exists(TOKENS) == 0
    assert blocking.statistics().tokens_put == 4


async def test_any_event_loop_can_await(
    pool: innet.KVPool, caplog: pytest.LogCaptureFixture
) -> None:
    assert await pool.members(at_least=2, timeout_s=0.01) == ("h0",)
    assert "1 of 2 members after 0.01 s: h0." in caplog.text
    assert await pool.put_many([(TOKENS, KV), (TOKENS[1:], KV[:, :, 1:])]) == [4, 4]
    [(found, kv), (nothing, _)] = await pool.get_longest_prefixes([TOKENS, [9, 9]])
    assert (found, nothing) == (4, 0)
    assert (kv == KV[:, :, :4]).all()
    assert [part.tokens async for part in pool.layers(TOKENS)] == [4, 4]
    async for _ in pool.layers(TOKENS):
        break  # whoever stops early leaves nothing behind
    assert await pool.exists_many([TOKENS, TOKENS[2:]]) == [4, 0]
    assert await pool.prefetch(TOKENS) == await pool.pin(TOKENS) == 4
    await pool.unpin(TOKENS)
    await pool.evict(TOKENS, first_token=1)
    assert await pool.exists(TOKENS) == 2
    assert (await pool.statistics()).blocks.puts == 8


def test_every_way_to_wait_is_there_with_and_without_an_event_loop(pool: innet.KVPool) -> None:
    def methods(of: object) -> set[str]:
        return {
            name for name in dir(of) if not name.startswith("_") and callable(getattr(of, name))
        }

    assert methods(pool.blocking) == methods(pool) - {"close", "aclose"}
    prompts = [(TOKENS, KV), (TOKENS[2:], KV[:, :, 2:])]
    assert pool.blocking.put_many(prompts) == [4, 2]
    asked = [tokens for tokens, _ in prompts]
    assert pool.blocking.exists_many(asked) == [4, 2]
    for (found, kv), (_, put) in zip(
        pool.blocking.get_longest_prefixes(asked), prompts, strict=True
    ):
        assert (kv == put[:, :, :found]).all()


def test_several_threads_use_one_pool(pool: innet.KVPool) -> None:
    found: dict[int, int] = {}

    def use(number: int) -> None:
        prompt = [number, *TOKENS[1:]]
        pool.blocking.put(prompt, KV + number)
        found[number], kv = pool.blocking.get_longest_prefix(prompt)
        assert (kv == KV[:, :, :4] + number).all()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), 4)


async def test_a_closed_pool_raises(member: PoolMember, pool: innet.KVPool) -> None:
    never = asyncio.ensure_future(member.call(asyncio.Event().wait()))
    await asyncio.sleep(0)
    await asyncio.to_thread(member.close)
    member.close()
    for work in (never, pool.exists(TOKENS)):
        with pytest.raises(KVError, match="closed"):
            await work


def test_an_interrupted_wait_cancels_its_operation(member: PoolMember) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def give_up() -> None:
        async with asyncio.timeout(0.01):
            await member.call(wait())

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert cancelled.wait(30)


FORKS = """
import os, signal
from innet.errors import KVError
from innet import KVPool
from innet.kv.pool_options import MemberOptions
from tests.kv.test_kv_pool import MODEL, TOKENS, only_member
with only_member(MemberOptions.of({})) as member:
    pool = KVPool(MODEL, block_tokens=2, member=member)
    assert pool.blocking.exists(TOKENS) == 0
    if os.fork() == 0:
        signal.alarm(20)
        try:
            pool.blocking.exists(TOKENS)
        except KVError as error:
            os._exit("forked" not in str(error))
        os._exit(2)
    assert os.wait()[1] == 0
"""


def test_a_forked_child_is_refused() -> None:
    subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, check=True, timeout=240)


def test_a_blocking_call_on_the_pools_own_thread_is_refused(member: PoolMember) -> None:
    async def wait() -> None:
        member.run(asyncio.sleep(0))

    with pytest.raises(KVError, match="await"):
        member.run(wait())


@pytest.mark.parametrize("secret", [None, b"16 bytes or more of randomness"])
def test_blocks_on_disk_outlive_a_member_with_a_lasting_secret(
    tmp_path: Path, secret: bytes | None
) -> None:
    options = MemberOptions.of(
        {"secret": secret, "memory": 0, "offered_memory": 0, "offered_disk": "1MiB",
         "folder": str(tmp_path)}
    )  # fmt: skip
    found = []
    for _ in range(2):
        with only_member(options) as member:
            pool = innet.KVPool(MODEL, block_tokens=2, member=member)
            found.append(pool.blocking.exists(TOKENS))
            assert pool.blocking.put(TOKENS, KV) == 4
    assert found == [0, 4 if secret else 0]
    assert list(tmp_path.iterdir()) == ([tmp_path / member.tenant] if secret else [])


def test_blocks_in_an_object_storage_outlive_the_disk_before_it(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install fsspec")
    for secret, found in ((b"16 bytes or more of randomness", [0, 4]), (None, [0, 0])):
        url = f"memory://{tmp_path.name}/{len(secret or b'')}"
        options = MemberOptions.of(
            {"secret": secret, "memory": 0, "offered_memory": 0, "offered_disk": "1MiB",
             "offered_objects": "1MiB", "objects_url": url, "folder": str(tmp_path / "disk")}
        )  # fmt: skip
        for expected in found:
            with only_member(options) as member:
                pool = innet.KVPool(MODEL, block_tokens=2, member=member)
                assert pool.blocking.exists(TOKENS) == expected
                assert pool.blocking.put(TOKENS, KV) == 4
            shutil.rmtree(tmp_path / "disk", ignore_errors=True)
    assert not fsspec.filesystem("memory").find(url), "blocks of the job's own secret are useless"


def test_a_member_whose_disk_cannot_be_opened_does_not_join(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fabric = FakeFabric({"h0": 1 << 20})
    options = MemberOptions.of({"offered_disk": "1MiB", "folder": str(tmp_path / "file")})
    with pytest.raises(KVError, match="blocks cannot be kept in"):
        fabric.member("h0", options)
    assert fabric.joined == []


def test_outside_a_run_the_error_says_how_to_start_one() -> None:
    with pytest.raises(EmulationError, match="innet run"):
        innet.KVPool(MODEL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "1 lightyear"}, "memory of a pool: expected a size"),
        ({"disk": "1GiB"}, "folder="),
        ({"objects": "1GiB", "disk": 1, "folder": "blocks"}, "objects_url="),
        ({"offered_objects": "1GiB", "objects_url": "s3://bucket"}, "s3://bucket is behind a disk"),
        ({"policy": "random"}, "policy of a pool: expected 'lru', 'lfu'.*, found 'random'"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": "2"}, "replicas of a pool: expected a whole number, found '2'"),
        ({"memory": -1}, "memory of a pool: expected a size"),
        ({"memory": None}, "memory of a pool: expected a size.*, found None"),
        ({"tenant": 7}, "tenant of a pool: expected text.*, found 7"),
        ({"folder": 7}, "folder of a pool: expected a Path or text.*, found 7"),
        ({"secret": bytearray(b"hidden")}, "secret of a pool: .* or bytes, found .*bytearray'>"),
        ({"puts": "never"}, "'at-once', 'when-asked' or 'balanced'"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"colour": "red"}, "no option colour"),
    ],
)
def test_invalid_options_are_refused(options: PoolOptions, message: str) -> None:
    with pytest.raises(KVError, match=message):
        MemberOptions.of(options)


def test_an_iterator_of_layers_can_outlive_its_pool(member: PoolMember, pool: innet.KVPool) -> None:
    pool.blocking.put(TOKENS, KV)
    parts = pool.blocking.layers(TOKENS)
    assert next(parts).tokens == 4
    member.close()
    parts.close()  # type: ignore[attr-defined]


def test_a_member_has_one_store_where_homes_fetch_blocks_when_asked() -> None:
    options = MemberOptions.of({"puts": "when-asked", "memory": "1MiB", "offered_memory": "3MiB"})
    assert options.policy == "second-use"
    fabric = FakeFabric({"h0": 3 << 20})
    with fabric.member("h0", options) as member:
        pool = innet.KVPool(MODEL, block_tokens=2, member=member)
        assert pool.blocking.put(TOKENS, KV) == 4
        [(name, tier)] = pool.blocking.statistics().blocks.tiers.items()
    assert (name, tier.capacity_bytes, tier.blocks) == ("shared memory", 4 << 20, 2)


def test_a_purge_drops_a_models_blocks_or_a_prompts_alone(
    member: PoolMember, pool: innet.KVPool
) -> None:
    retrained = dataclasses.replace(MODEL, weights="tiny@2")
    other = innet.KVPool(retrained, block_tokens=2, member=member)
    prompt = [9, 8, 7, 6, 5]
    for each in (pool, other):
        each.blocking.put(TOKENS, KV)
        each.blocking.put(prompt, KV)
    held = {each.model_digest: each.blocks for each in pool.blocking.inventory().families()}
    assert held == {pool.model.digest: 8, other.model.digest: 4}
    assert pool.blocking.purge(older_than_s=60).blocks == 0
    assert pool.blocking.purge(prompt).blocks == 4
    assert (pool.blocking.exists(TOKENS), pool.blocking.exists(prompt)) == (4, 0)
    assert asyncio.run(_purged(pool)) == 4
    assert (pool.blocking.exists(TOKENS), other.blocking.exists(TOKENS)) == (0, 4)
    with pytest.raises(KVError, match="no full block of 2 tokens"):
        pool.blocking.purge([1])


async def _purged(pool: innet.KVPool) -> int:
    assert len((await pool.inventory()).families()) == 2
    return (await pool.purge()).blocks
