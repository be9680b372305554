"""A worker of a real run: rank 0 keeps pages, and then rank 1 loads them into its host cache."""

from __future__ import annotations

from dataclasses import replace

from tests.kv_adapters.sglang.on_processor import stand_in

stand_in()

import torch
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

import innet
from tests.kv_adapters.sglang.host_cache import CONFIG, PAGE, HostCache

OPTIONS = {"innet": {"tenant": "acme", "members": 2}}


def main() -> None:
    comm = innet.init()
    cache = HostCache()
    config = replace(CONFIG, extra_config=CONFIG.extra_config | OPTIONS)
    storage = StorageBackendFactory.create_backend("dynamic", config, cache)
    storage.register_mem_pool_host(cache)
    values = torch.arange(cache.buffer.numel()).reshape(cache.buffer.shape).to(cache.dtype)
    comm.barrier()
    if comm.rank == 0:
        cache.buffer.copy_(values)
        print("kept", storage.batch_set_v1(["p0", "p1"], torch.arange(2 * PAGE)))
    comm.barrier()
    if comm.rank == 1:
        loaded = storage.batch_get_v1(["p0", "none", "p1"], torch.arange(3 * PAGE))
        assert torch.equal(cache.get_data_page(0), values[:, :, :PAGE].flatten())
        assert torch.equal(cache.get_data_page(2 * PAGE), values[:, :, PAGE : 2 * PAGE].flatten())
        print("loaded", loaded)
    comm.barrier()
    storage.close()


main()
