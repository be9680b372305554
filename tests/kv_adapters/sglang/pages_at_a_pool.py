"""A process that attaches to a standing pool, and keeps pages there or loads them.

Usage: pages_at_a_pool.py keep|load OPTIONS, with the documented JSON of SGLang's storage. Prints
which pages it kept or loaded.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from tests.kv_adapters.sglang.on_processor import stand_in

stand_in()

import torch
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

from tests.kv_adapters.sglang.host_cache import CONFIG, PAGE, HostCache

PAGES = 2


def main() -> None:
    cache = HostCache()
    config = replace(CONFIG, extra_config=json.loads(sys.argv[2]))
    storage = StorageBackendFactory.create_backend("dynamic", config, cache)
    storage.register_mem_pool_host(cache)
    values = torch.arange(cache.buffer.numel()).reshape(cache.buffer.shape).to(cache.dtype)
    if sys.argv[1] == "keep":
        cache.buffer.copy_(values)
        print(storage.batch_set_v1(["p0", "p1"], torch.arange(PAGES * PAGE)))
    else:
        print(storage.batch_get_v1(["p0", "none", "p1"], torch.arange((PAGES + 1) * PAGE)))
        assert torch.equal(cache.get_data_page(0), values[:, :, :PAGE].flatten())
        second = values[:, :, PAGE : PAGES * PAGE].flatten()
        assert torch.equal(cache.get_data_page(PAGES * PAGE), second)
    storage.close()


main()
