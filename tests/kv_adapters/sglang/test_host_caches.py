"""SGLang's own host caches, whose pages the storage moves between two hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kv_adapters.running import require_sglang

require_sglang()

from tests.kv_adapters.sglang.on_processor import stand_in

stand_in()

import torch
from sglang.srt.mem_cache.hybrid_cache.hybrid_pool_assembler import _mha_host_inputs
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

from innet.errors import KVError
from innet.kv.adapters import sglang as storage
from innet.kv.adapters.sglang import InnetHiCacheStorage
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.sglang.host_cache import CONFIG, PAGE

_DEVICE: dict[str, Any] = {
    "size": 8 * PAGE,
    "page_size": PAGE,
    "dtype": torch.bfloat16,
    "device": "cpu",
    "enable_memory_saver": False,
}
_TWICE: tuple[float, int, int] = (2.0, 0, PAGE)
"""Size of a host cache, in those of the device's; in GB; and a page's tokens."""


def heads(layout: str, *, layers: int = 3, value_width: int = 8) -> Any:
    """A host cache of keys and values of two heads."""
    device = MHATokenToKVPool(
        **_DEVICE, head_num=2, head_dim=8, v_head_dim=value_width, layer_num=layers
    )
    cache, info, named = _mha_host_inputs(device, ())
    return cache(info, *_TWICE, layout, **named)


def latent(layout: str) -> Any:
    """A host cache of one latent head."""
    device = MLATokenToKVPool(**_DEVICE, kv_lora_rank=16, qk_rope_head_dim=8, layer_num=3)
    return MLATokenToKVPoolHost(
        device.get_device_pool_infos()[0].buffer_info, *_TWICE, layout,
        override_kv_cache_dim=device.kv_cache_dim, device_capacity_tokens=device.size,
        start_layer=device.start_layer, end_layer=device.end_layer,
        target_layer_num=device.layer_num,
    )  # fmt: skip


LAYOUTS = ("layer_first", "page_first", "page_first_direct")
CACHES = [(make, layout) for make in (heads, latent) for layout in LAYOUTS] + [(heads, "page_head")]


def registered(cache: Any) -> InnetHiCacheStorage:
    made = StorageBackendFactory.create_backend("dynamic", CONFIG, cache)
    assert isinstance(made, InnetHiCacheStorage)
    made.register_mem_pool_host(cache)
    return made


@pytest.mark.parametrize(
    ("make", "layout"), CACHES, ids=[f"{make.__name__}-{layout}" for make, layout in CACHES]
)
def test_pages_of_each_layout_reach_another_host(hosts: Hosts, make: Any, layout: str) -> None:
    with hosts.at("a", storage):
        one = registered(make(layout))
    with hosts.at("b", storage):
        other = registered(make(layout))
    host = one.mem_pool_host
    host.kv_buffer.copy_(torch.randn(host.kv_buffer.shape, dtype=torch.float32))
    assert one.batch_set_v1(["p0", "p1"], torch.arange(2 * PAGE, 4 * PAGE)) == [True, True]
    places = torch.cat([torch.arange(PAGE) + start * PAGE for start in (5, 1, 0)])
    assert other.batch_get_v1(["p1", "none", "p0"], places) == [True, False, True]
    loaded = other.mem_pool_host
    assert torch.equal(loaded.get_data_page(5 * PAGE), host.get_data_page(3 * PAGE))
    assert torch.equal(loaded.get_data_page(0), host.get_data_page(2 * PAGE))


def test_layouts_have_pages_of_their_own(hosts: Hosts) -> None:
    with hosts.at("a", storage):
        registered(heads("page_first")).set("p0", heads("page_first").get_data_page(0))
        found = [registered(make(layout)).exists("p0") for make, layout in CACHES]
    assert found == [layout == "page_first" and make is heads for make, layout in CACHES]


def test_a_hybrid_model_can_have_one_layer_of_keys_and_values(hosts: Hosts) -> None:
    """SGLang gives the last layer there in place of the one after it."""
    cache = heads("layer_first", layers=1)
    assert (cache.start_layer, cache.end_layer) == (0, 0)
    with hosts.at("a", storage):
        made = registered(cache)
    assert made.set("p0", cache.get_data_page(0))
    assert made.exists("p0")


def test_caches_without_flat_pages_are_refused(hosts: Hosts) -> None:
    with hosts.at("a", storage), pytest.raises(KVError, match=r"head_dim != v_head_dim.*another"):
        registered(heads("page_first", value_width=4))
