"""SGLang's storage over a pool, as SGLang's own factory makes it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kv_adapters.running import require_sglang

require_sglang()

from tests.kv_adapters.sglang.on_processor import stand_in

stand_in()

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorageConfig,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

from innet._native import _core
from innet.errors import KVError
from innet.kv.adapters import sglang as storage
from innet.kv.adapters.sglang import InnetHiCacheStorage
from innet.kv.adapters.sglang_settings import REPLACING, UPDATER
from innet.kv.labels import EVERYTHING
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.running import run_on_two_hosts
from tests.kv_adapters.sglang.host_cache import CONFIG, PAGE, HostCache, StateCache

OVERHEAD_BYTES = 200 + _core.BOOKKEEPING_BYTES
"""Of a block's root, at most, and of its entries in tables."""


def make(config: HiCacheStorageConfig = CONFIG, **host: Any) -> InnetHiCacheStorage:
    cache = HostCache(**host)
    made = StorageBackendFactory.create_backend("dynamic", config, cache)
    assert isinstance(made, InnetHiCacheStorage)
    made.register_mem_pool_host(cache)
    return made


@pytest.fixture
def storages(hosts: Hosts) -> Iterator[tuple[InnetHiCacheStorage, InnetHiCacheStorage]]:
    """At two hosts."""
    made = []
    for name in ("a", "b"):
        with hosts.at(name, storage):
            made.append(make())
    yield made[0], made[1]
    for each in made:
        with hosts.at("a", storage):
            each.close()


def page(seed: int) -> torch.Tensor:
    size = HostCache().get_data_page(0).numel()
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def indices(*pages: int) -> torch.Tensor:
    """The tokens' places of these pages."""
    return torch.cat([torch.arange(PAGE) + number * PAGE for number in pages])


def test_versions_of_sglang_share_no_pages(
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage],
    hosts: Hosts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storages[0].set("p0", page(0))
    monkeypatch.setattr("sglang.__version__", "0.6.0")
    with hosts.at("b", storage):
        other = make()
        assert not other.exists("p0")
        other.close()


def test_an_sglang_that_names_pages_by_tokens_alone_is_refused(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("sglang.srt.mem_cache.utils.storage_namespace_seed")
    with hosts.at("a", storage), pytest.raises(KVError, match=r"update it to 0\.5\.23"):
        make()


def test_what_one_host_sets_another_gets(
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage],
) -> None:
    one, other = storages
    assert not other.exists("p0")
    assert one.set("p0", page(0))
    assert one.batch_set(["p1", "p3"], [page(1), page(3)])
    assert other.exists("p0")
    assert other.batch_exists(["p0", "p1", "p2", "p3"]) == 2
    place = torch.zeros_like(page(0))
    got = other.get("p0", place)
    assert got is not None
    assert torch.equal(place, page(0))
    places = [torch.zeros_like(page(0)) for _ in range(4)]
    pages = other.batch_get(["p0", "p1", "p2", "p3"], places)
    assert [found is not None for found in pages] == [True, True, False, True]
    assert torch.equal(places[3], page(3))
    assert not places[2].any()


def test_pages_go_from_host_cache_to_host_cache(
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage],
) -> None:
    one, other = storages
    for number in (2, 5):
        one.mem_pool_host.set_from_flat_data_page(number * PAGE, page(number))
    assert one.batch_set_v1(["p2", "p5"], indices(2, 5)) == [True, True]
    assert other.batch_get_v1(["p2", "none", "p5"], indices(0, 1, 7)) == [True, False, True]
    assert torch.equal(other.mem_pool_host.get_data_page(0), page(2))
    assert torch.equal(other.mem_pool_host.get_data_page(7 * PAGE), page(5))
    assert not other.mem_pool_host.get_data_page(PAGE).any()


def states(policy: PoolHitPolicy, keys: list[str], *places: int) -> PoolTransfer:
    """A transfer of a state space's pages."""
    return PoolTransfer(
        name=PoolName.MAMBA, keys=keys, host_indices=torch.tensor(places), hit_policy=policy
    )


def test_a_hybrid_model_gets_prefixes_that_end_where_its_states_are(
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage],
) -> None:
    for each in storages:
        each.register_mem_host_pool_v2(StateCache(), PoolName.MAMBA)
    one, other = storages
    pages = ["p0", "p1", "p2", "p3", "p4"]
    one.batch_set(pages[:4], [page(number) for number in range(4)])
    one.registered_pools[PoolName.MAMBA].buffer[:] = torch.arange(8)[:, None]
    kept = one.batch_set_v2([states(PoolHitPolicy.TRAILING_PAGES, ["p1", "p3"], 5, 6)])
    assert kept == {PoolName.MAMBA: [True, True]}

    found = other.batch_exists_v2(pages, [states(PoolHitPolicy.TRAILING_PAGES, ["p4"])])
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (4, [2, 4])
    assert found.extra_pool_hit_pages == {PoolName.KV: 4, PoolName.MAMBA: 4}
    for policy, length in ((PoolHitPolicy.TRAILING_PAGES, 2), (PoolHitPolicy.ALL_PAGES, 0)):
        assert other.batch_exists_v2(pages[:3], [states(policy, ["p2"])]).kv_hit_pages == length
    with pytest.raises(KVError, match="block_groups"):
        other.batch_exists_v2(pages, [states(PoolHitPolicy.BLOCK_GROUPS, ["p2"])])

    loaded = other.batch_get_v2([states(PoolHitPolicy.TRAILING_PAGES, ["p3", "p2"], 0, 1)])
    assert loaded == {PoolName.MAMBA: [True, False]}
    assert other.registered_pools[PoolName.MAMBA].buffer[:2, 0].tolist() == [6, 0]


def test_a_poisoned_page_is_not_loaded(
    hosts: Hosts, storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage]
) -> None:
    one, other = storages
    one.set("p0", page(0))
    hosts.home.forges = True
    place = torch.zeros_like(page(0))
    assert other.get("p0", place) is None
    assert other.batch_get_v1(["p0"], indices(0)) == [False]
    assert not place.any()
    assert not other.mem_pool_host.buffer.any()


@pytest.mark.parametrize(
    "change",
    [
        {"model_name": "other"},
        {"tp_size": 2},
        {"pp_size": 2},
        {"extra_config": CONFIG.extra_config | {"innet": {"weights": "fine-tuned"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_pages_of_another_model_or_part_are_others(
    hosts: Hosts,
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage],
    change: dict[str, Any],
) -> None:
    storages[0].set("p0", page(0))
    with hosts.at("b", storage):
        assert not make(replace(CONFIG, **change)).exists("p0")


@pytest.mark.parametrize("codec", ["fp8", "int8"])
def test_a_codec_quantises_pages_whose_names_tell_it(hosts: Hosts, codec: str) -> None:
    options = {"innet": {"tenant": "acme", "codec": codec}}
    coded = replace(CONFIG, extra_config=CONFIG.extra_config | options)
    with hosts.at("a", storage):
        one = make(coded)
    with hosts.at("b", storage):
        other, plain = make(coded), make()
    one.mem_pool_host.set_from_flat_data_page(0, page(0))
    assert one.batch_set_v1(["p0"], indices(0)) == [True]
    assert not plain.exists("p0")
    assert other.batch_get_v1(["p0"], indices(1)) == [True]
    found = other.get("p0")
    assert found is not None
    for each in (found, other.mem_pool_host.get_data_page(PAGE)):
        assert not torch.equal(each, page(0))
        torch.testing.assert_close(each, page(0), rtol=1 / 14, atol=0.02)
    home = hosts.hosts["home"]
    held = home.submit(home.blocks.administration.inventory(EVERYTHING)).result()
    [kept] = [each for each in held.nodes["home"] if each.layout.startswith("sglang-page")]
    assert kept.size_bytes < 0.75 * page(0).nbytes + OVERHEAD_BYTES


def test_pages_of_another_type_are_others(
    hosts: Hosts, storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage]
) -> None:
    storages[0].set("p0", page(0))
    with hosts.at("b", storage):
        assert not make(dtype=torch.float16).exists("p0")


def test_ranks_of_a_latent_cache_share_pages(hosts: Hosts) -> None:
    with hosts.at("a", storage):
        first = make(replace(CONFIG, is_mla_model=True, tp_size=2))
        first.set("p0", page(0))
        assert make(replace(CONFIG, is_mla_model=True, tp_size=2, tp_rank=1)).exists("p0")


def test_an_unknown_option_is_refused(hosts: Hosts) -> None:
    extra = CONFIG.extra_config | {"innet": {"tenent": "acme"}}
    with hosts.at("a", storage), pytest.raises(KVError, match="tenent"):
        make(replace(CONFIG, extra_config=extra))


def test_one_process_loads_what_another_keeps() -> None:
    program = Path(__file__).with_name("pages_on_two_hosts.py")
    printed = run_on_two_hosts([str(program)])
    assert printed["h0"][-1] == "kept [True, True]"
    assert printed["h1"][-1] == "loaded [True, False, True]"


def test_weights_that_are_replaced_while_serving_end_the_sharing(
    storages: tuple[InnetHiCacheStorage, InnetHiCacheStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = storages
    assert one.set("p0", page(0))
    monkeypatch.setattr(one._replacements, "method", "update_weights_from_disk")
    assert not one.set("p1", page(1))
    assert not other.exists("p1")
    assert (one.exists("p0"), one.get("p0"), one.batch_exists(["p0"])) == (False, None, 0)
    assert one.batch_get_v1(["p0"], indices(0)) == [False]
    assert other.exists("p0")


def test_the_methods_that_replace_weights_are_observed() -> None:
    module, owner = UPDATER
    updater = getattr(importlib.import_module(module), owner)
    assert all(hasattr(updater, name) for name in REPLACING)


def test_a_served_name_does_not_identify_a_model(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(model: str) -> str:
        arguments = SimpleNamespace(model_path=model)
        monkeypatch.setattr(storage, "get_server_args", lambda: arguments)
        with hosts.at("a", storage):
            return make()._key("page").name

    assert name("someone/model") != name("someone/other")
