"""SGLang over innet: a storage of HiCache that SGLang loads by the name of this module.

::

    python -m sglang.launch_server --model-path MODEL --enable-hierarchical-cache \\
        --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
            "backend_name": "innet",
            "module_path": "innet.kv.adapters.sglang",
            "class_name": "InnetHiCacheStorage",
            "interface_v1": 1,
            "innet": {"address": "prod", "tenant": "acme", "secret": "acme.secret"}}'
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
)

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions, pool_of_process
from innet.kv.adapters.identity import engine_digest, key_hash, model_facts
from innet.kv.adapters.tensors import bytes_of, tensor_of
from innet.kv.layout import RankPart
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.network import Contents

Result = TypeVar("Result")

_ORDER: Final = "sglang-page"
_OPTIONS_KEY: Final = "innet"
"""Key of the pool's options in SGLang's extra configuration."""


class InnetHiCacheStorage(HiCacheStorage):
    """Pages of the host's cache, kept by all members of a pool.

    Each read returns a whole and verified page, or reports that there is none.

    Args:
        storage_config: SGLang's; ``extra_config["innet"]`` has the options of the pool and of
            :class:`~innet.kv.adapters.engine_pool.AdapterOptions`.
        arguments: other arguments of SGLang's storages; not used.

    Raises:
        KVError: an option is unknown, or its value out of range.
        EmulationError: this process was not started by ``innet run``.
    """

    def __init__(
        self, storage_config: HiCacheStorageConfig, arguments: Mapping[str, Any] | None = None
    ) -> None:
        extra = storage_config.extra_config or {}
        options, pool = AdapterOptions.read(
            f"extra_config[{_OPTIONS_KEY!r}]", extra.get(_OPTIONS_KEY, {}), engine="sglang"
        )
        self._config = storage_config
        self._weights = options.weights
        self._family: BlockFamily | None = None
        self._member = pool_of_process.enter(pool, options.members)
        self._blocks = self._member.blocks
        self._is_open = True

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Register the host's cache: its type and layout are part of the pages' names."""
        super().register_mem_pool_host(mem_pool_host)
        digest = engine_digest("sglang", self._facts(mem_pool_host))
        config, host = self._config, mem_pool_host
        # Ranks of a model with one latent head have the same pages, and share them.
        tensor = (0, 1) if config.is_mla_model else (config.tp_rank, config.tp_size)
        part = RankPart(
            tensor_rank=tensor[0],
            tensor_size=tensor[1],
            pipeline_rank=config.pp_rank,
            pipeline_size=config.pp_size,
        )
        element_type = str(host.dtype).removeprefix("torch.")
        layout = part.layout(_ORDER, element_type, host.page_size)
        self._family = BlockFamily(
            self._member.tenant, digest, layout, host.start_layer, host.end_layer
        )

    def get(
        self, key: str, target_location: Any | None = None, target_sizes: Any | None = None
    ) -> torch.Tensor | None:
        """A page, in ``target_location``'s memory; ``None`` if there is none, or its size differs.

        Args:
            key: of the page.
            target_location: a tensor of the page's type and size.
            target_sizes: not used.
        """
        return self._into(self._do(self._blocks.get(self._key(key))), target_location)

    def batch_get(
        self, keys: list[str], target_locations: Any | None = None, target_sizes: Any | None = None
    ) -> list[torch.Tensor | None]:
        locations = [None] * len(keys) if target_locations is None else target_locations
        blocks = self._do(self._blocks.get_many([self._key(key) for key in keys]))
        return [self._into(block, place) for block, place in zip(blocks, locations, strict=True)]

    def set(
        self,
        key: str,
        value: Any | None = None,
        target_location: Any | None = None,
        target_sizes: Any | None = None,
    ) -> bool:
        """Keep a page; whether a home has it."""
        return self.batch_set([key], [target_location if value is None else value])

    def batch_set(
        self,
        keys: list[str],
        values: Any | None = None,
        target_locations: Any | None = None,
        target_sizes: Any | None = None,
    ) -> bool:
        tensors = target_locations if values is None else values
        if tensors is None or any(tensor is None for tensor in tensors):
            return False
        return all(self._put(keys, [bytes_of(tensor) for tensor in tensors]))

    def exists(self, key: str) -> bool:
        return self._do(self._blocks.exists(self._key(key)))

    def batch_exists(
        self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> int:
        """How many of the first pages exist without a gap."""
        return self._do(self._blocks.count_prefix([self._key(key) for key in keys]))

    def batch_get_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Load pages into the host's cache; for each, whether it was loaded.

        Args:
            keys: of the pages.
            host_indices: of the tokens' places in the host's cache, page by page.
            extra_info: not used.
        """
        blocks = self._do(self._blocks.get_many([self._key(key) for key in keys]))
        starts = self._page_starts(host_indices)
        return [self._load(block, start) for block, start in zip(blocks, starts, strict=True)]

    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Keep pages of the host's cache; for each, whether a home has it."""
        starts = self._page_starts(host_indices)
        return self._put(keys, [bytes_of(self.mem_pool_host.get_data_page(i)) for i in starts])

    def close(self) -> None:
        """Leave the pool. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            pool_of_process.leave()

    def _put(self, keys: list[str], contents: list[Contents]) -> list[bool]:
        names = [self._key(key) for key in keys]
        homes = self._do(self._blocks.put_many(list(zip(names, contents, strict=True))))
        return [count > 0 for count in homes]

    def _load(self, block: Contents | None, start: int) -> bool:
        page = self._into(block, self.mem_pool_host.get_dummy_flat_data_page())
        if page is None:
            return False
        self.mem_pool_host.set_from_flat_data_page(start, page)
        return True

    def _into(self, block: Contents | None, place: torch.Tensor | None) -> torch.Tensor | None:
        if block is None:
            return None
        if place is None:
            return torch.from_numpy(block.copy())
        page = tensor_of(block, place)
        return None if page is None else place.copy_(page)

    def _page_starts(self, host_indices: torch.Tensor) -> list[int]:
        starts: list[int] = host_indices[:: self.mem_pool_host.page_size].tolist()
        return starts

    def _key(self, key: str) -> BlockKey:
        if self._family is None:
            raise KVError("SGLang uses its storage before it has registered a host cache")
        return BlockKey(self._family, key_hash(key))

    def _facts(self, host: Any) -> dict[str, Any]:
        config = self._config
        return {
            **model_facts(config.model_name or "", self._weights),
            "context_parallel": [config.attn_cp_rank, config.attn_cp_size],
            "decode_context_parallel": [config.dcp_rank, config.dcp_size],
            "split_heads": [config.should_split_heads, config.tp_lcm_size],
            "pool": type(host).__name__,
            "layout": host.layout,
            "token_bytes": host.size_per_token,
        }

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._member.submit(work).result()
