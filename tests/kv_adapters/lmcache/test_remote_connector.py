"""LMCache's remote store over a pool, as LMCache's own manager makes it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

REASON = "LMCache is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("lmcache", reason=REASON)

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.connector import CreateConnector, InstrumentedRemoteConnector
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

from innet.errors import KVError
from innet.kv.adapters.lmcache import InnetRemoteConnector, keys, remote_connector
from innet.kv.loop_thread import LoopThread
from tests.kv_adapters.hosts import Hosts

Result = TypeVar("Result")

PLUGIN = "remote_storage_plugin.innet."
SHAPE = (2, 4, 16, 32)
"""Keys and values, layers, tokens, heads and channels."""


def values(seed: int) -> torch.Tensor:
    """Contents of a chunk."""
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)).bfloat16()


class Remote:
    """An LMCache's remote store at a host."""

    def __init__(
        self, thread: LoopThread, hash_algorithm: str = "sha256_cbor", **options: Any
    ) -> None:
        self._run = thread.run
        config = LMCacheEngineConfig.from_defaults(
            chunk_size=SHAPE[2],
            pre_caching_hash_algorithm=hash_algorithm,
            max_local_cpu_size=0.01,
            remote_storage_plugins=["innet"],
            extra_config={
                f"{PLUGIN}module_path": "innet.kv.adapters.lmcache",
                f"{PLUGIN}class_name": "InnetConnectorAdapter",
                **{PLUGIN + option: value for option, value in options.items()},
            },
        )
        metadata = LMCacheMetadata(
            model_name="model",
            world_size=1,
            local_world_size=1,
            worker_id=0,
            local_worker_id=0,
            kv_dtype=torch.bfloat16,
            kv_shape=(SHAPE[1], 2, SHAPE[2], 4, 8),
            chunk_size=SHAPE[2],
        )
        self.local = LocalCPUBackend(config=config, metadata=metadata, dst_device="cpu")
        loop = thread.run(_running_loop())
        self.connector: InstrumentedRemoteConnector = CreateConnector(
            "plugin://innet", loop, self.local, config, metadata, plugin_name="innet"
        )

    def memory(self, seed: int) -> MemoryObj:
        """A chunk with random contents."""
        memory = self.local.allocate(torch.Size(SHAPE), torch.bfloat16)
        assert memory is not None
        memory.tensor.copy_(values(seed))
        return memory

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._run(work)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture
def remotes(hosts: Hosts) -> Iterator[tuple[Remote, Remote]]:
    with ExitStack() as stack:
        made = []
        for name in ("a", "b"):
            thread = LoopThread(f"LMCache at {name}")
            stack.callback(thread.close)
            with hosts.at(name, remote_connector):
                made.append(Remote(thread))
        yield made[0], made[1]
        with hosts.at("a", remote_connector):
            for remote in made:
                remote.do(remote.connector.close())


def key(number: int, **parts: Any) -> CacheEngineKey:
    fields = {"model_name": "model", "world_size": 1, "worker_id": 0, "dtype": torch.bfloat16}
    return CacheEngineKey(**(fields | parts), chunk_hash=number)


def test_what_one_host_puts_another_gets(remotes: tuple[Remote, Remote]) -> None:
    one, other = remotes
    assert isinstance(one.connector.getWrappedConnector(), InnetRemoteConnector)
    chunk = one.memory(0)
    assert not other.do(other.connector.exists(key(1)))
    assert other.do(other.connector.get(key(1))) is None
    chunk.ref_count_up()
    one.do(one.connector.put(key(1), chunk))
    assert other.do(other.connector.exists(key(1)))
    assert other.connector.exists_sync(key(1))
    got = other.do(other.connector.get(key(1)))
    assert torch.equal(got.tensor, chunk.tensor)


def test_a_codec_quantises_chunks_whose_names_tell_it(
    hosts: Hosts, remotes: tuple[Remote, Remote]
) -> None:
    thread = LoopThread("LMCache with a codec")
    with hosts.at("a", remote_connector):
        coded = Remote(thread, codec="int8")
        chunk = coded.memory(0)
        chunk.ref_count_up()
        coded.do(coded.connector.put(key(1), chunk))
        assert not remotes[1].do(remotes[1].connector.exists(key(1)))
        got = coded.do(coded.connector.get(key(1)))
        torch.testing.assert_close(got.tensor, chunk.tensor, rtol=0.01, atol=0.03)
        assert not torch.equal(got.tensor, chunk.tensor)
        coded.do(coded.connector.close())
    thread.close()


def test_a_prefix_ends_at_its_first_gap(remotes: tuple[Remote, Remote]) -> None:
    one, other = remotes
    for number in (1, 2, 4):
        one.do(one.connector.put(key(number), one.memory(number)))
    keys = [key(number) for number in range(1, 6)]
    assert other.connector.batched_contains(keys) == 2
    assert other.do(other.connector.batched_async_contains("lookup", keys)) == 2
    got = other.do(other.connector.batched_get(keys))
    assert [memory is not None for memory in got] == [True, True, False, True, False]
    assert torch.equal(got[3].tensor, one.memory(4).tensor)


def test_chunks_put_together_are_loaded_up_to_the_first_gap(
    remotes: tuple[Remote, Remote], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = remotes
    keys, chunks = [key(number) for number in range(40)], [one.memory(n) for n in range(40)]
    assert one.connector.support_batched_put()
    one.do(one.connector.batched_put(keys, chunks))
    assert not any(memory.get_ref_count() for memory in chunks)
    assert one.connector.remove_sync(keys[20])
    allocated: list[MemoryObj] = []
    allocate = other.local.allocate

    def noted(*args: Any) -> MemoryObj | None:
        memory = allocate(*args)
        allocated.append(memory)
        return memory

    monkeypatch.setattr(other.local, "allocate", noted)
    got = other.do(other.connector.batched_get_non_blocking("lookup", keys))
    assert len(got) == 20
    assert all(torch.equal(each.tensor, values(number)) for number, each in enumerate(got))
    assert sum(memory.get_ref_count() for memory in allocated) == 20


@pytest.mark.parametrize(
    "parts",
    [{"model_name": "other"}, {"world_size": 2}, {"worker_id": 1}, {"dtype": torch.float16}],
    ids=lambda parts: next(iter(parts)),
)
def test_keys_that_differ_in_any_part_are_others(
    remotes: tuple[Remote, Remote], parts: dict[str, Any]
) -> None:
    one, other = remotes
    one.do(one.connector.put(key(1), one.memory(1)))
    assert not other.do(other.connector.exists(key(1, **parts)))


def _forge(hosts: Hosts) -> None:
    hosts.home.forges = True


def _part(hosts: Hosts) -> None:
    hosts.home.reachable = False


@pytest.mark.parametrize("fault", [_forge, _part])
def test_a_chunk_that_does_not_come_whole_is_a_miss(
    hosts: Hosts, remotes: tuple[Remote, Remote], fault: Callable[[Hosts], None]
) -> None:
    one, other = remotes
    one.do(one.connector.put(key(1), one.memory(1)))
    fault(hosts)
    assert other.do(other.connector.get(key(1))) is None


def engine_config(**model: Any) -> SimpleNamespace:
    """The part of vLLM's configuration that keys and values depend on."""
    fields: dict[str, Any] = {
        "model": "model", "revision": None, "dtype": "bfloat16", "quantization": None,
        "hf_config": SimpleNamespace(to_json_string=lambda: "{}"), "hf_overrides": {},
    }  # fmt: skip
    return SimpleNamespace(
        model_config=SimpleNamespace(**(fields | model)),
        cache_config=SimpleNamespace(cache_dtype="auto"),
        speculative_config=None,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"revision": "v2"},
        {"quantization": "fp8"},
        {"hf_overrides": {"rope_theta": 1.0}},
        {"hf_config": SimpleNamespace(to_json_string=lambda: '{"rope_theta": 1.0}')},
    ],
)
def test_settings_of_the_engine_around_lmcache_count(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    vllm = pytest.importorskip("vllm.config", reason="vLLM is not installed here")
    one = engine_config()
    with ExitStack() as stack:
        stack.callback(keys._engine_config.cache_clear)

        def inside(config: SimpleNamespace) -> Remote:
            monkeypatch.setattr(vllm, "get_current_vllm_config_or_none", lambda: config)
            keys._engine_config.cache_clear()
            thread = LoopThread("LMCache inside vLLM")
            stack.callback(thread.close)
            remote = Remote(thread)
            stack.callback(lambda: remote.do(remote.connector.close()))
            return remote

        stack.enter_context(hosts.at("a", remote_connector))
        first, other, same = inside(one), inside(engine_config(**changed)), inside(one)
        first.do(first.connector.put(key(1), first.memory(1)))
        assert not other.do(other.connector.exists(key(1)))
        assert same.do(same.connector.exists(key(1)))


def test_a_removed_chunk_is_gone(remotes: tuple[Remote, Remote]) -> None:
    one, other = remotes
    one.do(one.connector.put(key(1), one.memory(1)))
    assert one.connector.remove_sync(key(1))
    assert not other.do(other.connector.exists(key(1)))


def context(url: str, **options: str) -> SimpleNamespace:
    """What LMCache gives the plugin's adapter."""
    extra = {PLUGIN + option: value for option, value in options.items()}
    config = SimpleNamespace(extra_config=extra, pre_caching_hash_algorithm="sha256_cbor")
    return SimpleNamespace(url=url, plugin_name=None, config=config, local_cpu_backend=None)


def test_options_name_a_standing_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: dict[str, Any] = {}
    monkeypatch.setattr(
        remote_connector, "InnetRemoteConnector", lambda _local, _own, pool: joined.update(pool)
    )
    options = {"address": "10.0.0.1:4711", "token_file": "prod.token", "secret": "acme.secret"}
    remote_connector.InnetConnectorAdapter().create_connector(context("plugin://innet", **options))
    assert joined == {**options, "engine": "lmcache"}


def test_an_address_in_the_url_is_refused_with_its_option() -> None:
    adapter = remote_connector.InnetConnectorAdapter()
    assert adapter.can_parse("innet://prod")
    assert not adapter.can_parse("redis://prod")
    with pytest.raises(KVError, match=r"remote_storage_plugin\.innet\.address: prod"):
        adapter.create_connector(context("innet://prod"))


def test_a_hash_that_depends_on_the_process_or_collides_is_refused(hosts: Hosts) -> None:
    thread = LoopThread("LMCache")
    try:
        with (
            hosts.at("a", remote_connector),
            pytest.raises(KVError, match="pre_caching_hash_algorithm: sha256_cbor"),
        ):
            Remote(thread, "builtin")
    finally:
        thread.close()


class _Loader:
    """As vLLM's managers of adapters and its workers."""

    def _load_adapter(self, request: object) -> None: ...

    def reload_weights(self) -> None: ...


@pytest.mark.parametrize("method", ["_load_adapter", "reload_weights"])
@pytest.mark.parametrize("adapters", ["", "ignored"])
def test_an_engine_that_loads_what_keys_leave_out_shares_nothing_from_then_on(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, method: str, adapters: str
) -> None:
    monkeypatch.setattr(_Loader, method, getattr(_Loader, method))  # put back at the end
    module = SimpleNamespace(WorkerLoRAManager=_Loader, Worker=_Loader)
    for name in ("vllm.v1.worker.gpu_worker", "vllm.lora.worker_manager"):
        monkeypatch.setitem(sys.modules, name, module)
    thread = LoopThread("LMCache")
    try:
        with hosts.at("a", remote_connector):
            remote = Remote(thread, **({"adapters": adapters} if adapters else {}))
        do, connector = remote.do, remote.connector
        do(connector.put(key(0), remote.memory(0)))
        assert do(connector.exists(key(0)))
        getattr(_Loader(), method)(*[None] * (method == "_load_adapter"))
        is_shared = adapters == "ignored" and method == "_load_adapter"
        assert do(connector.exists(key(0))) is is_shared
        assert (do(connector.get(key(0))) is not None) is is_shared
        do(connector.put(key(1), remote.memory(1)))
        with hosts.at("a", remote_connector):
            do(connector.close())
    finally:
        thread.close()
