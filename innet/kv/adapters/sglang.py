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

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import sglang
import torch
from sglang.srt.mem_cache import utils
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)
from sglang.srt.runtime_context import get_server_args

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions, pool_of_process
from innet.kv.adapters.identity import engine_digest, key_hash, model_facts
from innet.kv.adapters.observation import WeightReplacements
from innet.kv.adapters.sglang_settings import REPLACING, UPDATER, settings_facts
from innet.kv.adapters.tensors import bytes_of, coded_order, tensor_of
from innet.kv.labels import BlockLabel, announce
from innet.kv.layout import RankPart
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.network import Contents

Result = TypeVar("Result")

_ORDER: Final = "sglang-page"
_LABELLED: Final = (
    "load_format",
    "revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "adapters",
)
"""Settings that a label has by their own names."""
_OPTIONS_KEY: Final = "innet"
"""Key of the pool's options in SGLang's extra configuration."""


class InnetHiCacheStorage(HiCacheStorage):
    """Pages of the host's caches, kept by all members of a pool.

    Each read returns a whole and verified page, or reports that there is none. A hybrid model has
    several host caches: keys and values, and beside them states, sliding windows or those of a
    draft model. Pages of each have names of their own.

    Args:
        storage_config: SGLang's; ``extra_config["innet"]`` has the options of the pool and of
            :class:`~innet.kv.adapters.engine_pool.AdapterOptions`.
        arguments: other arguments of SGLang's storages; not used.

    Raises:
        KVError: an option is unknown, or its value out of range; or this SGLang is too old.
        EmulationError: this process was not started by ``innet run``.
    """

    def __init__(
        self, storage_config: HiCacheStorageConfig, arguments: Mapping[str, Any] | None = None
    ) -> None:
        extra = storage_config.extra_config or {}
        options, pool = AdapterOptions.read(
            f"extra_config[{_OPTIONS_KEY!r}]", extra.get(_OPTIONS_KEY, {}), engine="sglang"
        )
        _require_namespaces()
        self._config = storage_config
        self._codec = options.codec
        arguments = _server_arguments()
        # A served name says nothing about the model behind it.
        model = getattr(arguments, "model_path", storage_config.model_name)
        self._settings = settings_facts(arguments, options.weights)
        self._model = model_facts(model or "", options.weights)
        self._replacements = WeightReplacements()
        self._replacements.observe(*UPDATER, REPLACING)
        self._replacements.observe_models()
        self._families: dict[str, BlockFamily] = {}
        self._member = pool_of_process.enter(pool, options.members)
        self._blocks = self._member.blocks
        self._is_open = True

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Register the host's cache: its type and layout are part of the pages' names.

        Raises:
            KVError: it does not have its pages as flat tensors.
        """
        _check_pages(mem_pool_host)
        super().register_mem_pool_host(mem_pool_host)
        digest = engine_digest("sglang", self._facts(mem_pool_host))
        host = mem_pool_host
        layout = self._part(PoolName.KV).layout(self._order, _type_name(host.dtype), host.page_size)
        # In a hybrid model, SGLang gives the last layer there in place of the one after it.
        end_layer = max(host.end_layer, host.start_layer + 1)
        self._families[PoolName.KV.value] = BlockFamily(
            self._member.tenant, digest, layout, host.start_layer, end_layer
        )
        if not self._config.tp_rank and not self._config.pp_rank:
            self._member.submit(
                announce(self._blocks, self._member.tenant, digest, self._label(layout, host))
            )

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: str) -> None:
        """Register one of a hybrid model's host caches; that of keys and values comes first.

        Raises:
            KVError: no cache of keys and values is registered.
        """
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        pool = PoolName(host_pool_name)
        if pool is PoolName.KV:
            return
        anchor = self._key("").family
        page = host_pool.get_dummy_flat_data_page()
        facts = self._facts(self.mem_pool_host) | {
            "host_pool": [pool.value, type(host_pool).__name__, host_pool.layout],
            "page_bytes": page.numel() * page.element_size(),
            "state_types": _state_types(host_pool),
        }
        layout = self._part(pool).layout(self._order, _type_name(page.dtype), host_pool.page_size)
        self._families[pool.value] = BlockFamily(
            anchor.tenant,
            engine_digest("sglang", facts),
            layout,
            anchor.first_layer,
            anchor.end_layer,
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
        [block] = self._found([key])
        return self._into(block, target_location)

    def batch_get(
        self, keys: list[str], target_locations: Any | None = None, target_sizes: Any | None = None
    ) -> list[torch.Tensor | None]:
        locations = [None] * len(keys) if target_locations is None else target_locations
        blocks = self._found(keys)
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
        return all(self._put(keys, [bytes_of(tensor, self._codec) for tensor in tensors]))

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) > 0

    def batch_exists(
        self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> int:
        """How many of the first pages exist without a gap."""
        if self._replacements.method:
            return 0
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
        return self._load_pages(PoolName.KV, self.mem_pool_host, keys, host_indices)

    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Keep pages of the host's cache; for each, whether a home has it."""
        return self._put_pages(PoolName.KV, self.mem_pool_host, keys, host_indices)

    def batch_exists_v2(
        self,
        keys: list[str],
        pool_transfers: list[PoolTransfer] | None = None,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> PoolTransferResult:
        """The longest prefix whose pages exist in all host caches, as each cache's policy says.

        Raises:
            KVError: a cache has a policy other than all pages or the trailing ones.
        """
        count = self.batch_exists(keys)
        hits: dict[str, int] = {PoolName.KV: count} if count else {}
        restorable = list(range(1, count + 1))
        for transfer in pool_transfers or ():
            if not restorable:
                break
            names = [self._key(key, transfer.name) for key in keys[:count]]
            lengths = _restorable(self._do(self._blocks.exists_many(names)), transfer)
            if lengths:
                hits[transfer.name] = lengths[-1]
            restorable = [length for length in restorable if length in lengths]
        return PoolTransferResult(restorable[-1] if restorable else 0, hits, restorable)

    def batch_get_v2(
        self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> dict[str, list[bool]]:
        """Load pages into several host caches; for each cache and page, whether it was loaded."""
        return {
            transfer.name: self._load_pages(transfer.name, host, keys, transfer.host_indices)
            for transfer, host, keys in self._whole(transfers)
        }

    def batch_set_v2(
        self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> dict[str, list[bool]]:
        """Keep pages of several host caches; for each cache and page, whether a home has it."""
        return {
            transfer.name: self._put_pages(transfer.name, host, keys, transfer.host_indices)
            for transfer, host, keys in self._whole(transfers)
        }

    def close(self) -> None:
        """Leave the pool. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            pool_of_process.leave()

    def _whole(
        self, transfers: Sequence[PoolTransfer]
    ) -> Iterator[tuple[PoolTransfer, Any, list[str]]]:
        """The transfers with their host caches and keys.

        Raises:
            KVError: a transfer does not have a place for each token of its pages.
        """
        for transfer in transfers:
            host, keys = self.registered_pools[transfer.name], transfer.keys or []
            places = 0 if transfer.host_indices is None else transfer.host_indices.numel()
            if places != len(keys) * host.page_size:
                raise KVError(
                    f"SGLang's transfer of {transfer.name} has {places} places for {len(keys)} "
                    f"pages of {host.page_size}"
                )
            yield transfer, host, keys

    def _load_pages(
        self, pool: str, host: Any, keys: list[str], host_indices: torch.Tensor
    ) -> list[bool]:
        blocks = self._found(keys, pool)
        starts = _page_starts(host, host_indices)
        return [self._load(host, block, start) for block, start in zip(blocks, starts, strict=True)]

    def _put_pages(
        self, pool: str, host: Any, keys: list[str], host_indices: torch.Tensor
    ) -> list[bool]:
        starts = _page_starts(host, host_indices)
        pages = [bytes_of(host.get_data_page(start), self._codec) for start in starts]
        return self._put(keys, pages, pool)

    def _put(
        self, keys: list[str], contents: list[Contents], pool: str = PoolName.KV
    ) -> list[bool]:
        if self._replacements.method:
            return [False] * len(keys)
        names = [self._key(key, pool) for key in keys]
        homes = self._do(self._blocks.put_many(list(zip(names, contents, strict=True))))
        return [count > 0 for count in homes]

    def _found(self, keys: Sequence[str], pool: str = PoolName.KV) -> list[Contents | None]:
        if self._replacements.method:
            return [None] * len(keys)
        return self._do(self._blocks.get_many([self._key(key, pool) for key in keys]))

    def _load(self, host: Any, block: Contents | None, start: int) -> bool:
        page = self._into(block, host.get_dummy_flat_data_page())
        if page is None:
            return False
        host.set_from_flat_data_page(start, page)
        return True

    def _into(self, block: Contents | None, place: torch.Tensor | None) -> torch.Tensor | None:
        if block is None:
            return None
        if place is None and self._codec is None:
            return torch.from_numpy(block.copy())
        if place is None:
            place = self.mem_pool_host.get_dummy_flat_data_page()
        page = tensor_of(block, place, self._codec)
        return None if page is None else place.copy_(page)

    def _key(self, key: str, pool: str = PoolName.KV) -> BlockKey:
        family = self._families.get(PoolName(pool).value)
        if family is None:
            raise KVError(f"SGLang uses its storage before it has registered the host cache {pool}")
        return BlockKey(family, key_hash(key))

    @property
    def _order(self) -> str:
        return coded_order(_ORDER, self._codec)

    def _part(self, pool: PoolName) -> RankPart:
        config = self._config
        # Ranks of a model with one latent head have the same pages, and share them; states differ.
        is_shared = config.is_mla_model and pool is not PoolName.MAMBA
        return RankPart(
            tensor_rank=0 if is_shared else config.tp_rank,
            tensor_size=1 if is_shared else config.tp_size,
            pipeline_rank=config.pp_rank,
            pipeline_size=config.pp_size,
        )

    def _label(self, layout: str, host: Any) -> BlockLabel:
        own = self._settings
        others = {name: value for name, value in own.items() if name not in _LABELLED}
        settings = {f"--{name.replace('_', '-')}": own.get(name, "") for name in _LABELLED} | {
            "SGLang": sglang.__version__,
            "type, page size and ranks": layout,
            "--hicache-mem-layout": host.layout,
            "--lora-paths and other settings": key_hash(str(others)).hex()[:16],
        }
        name = self._config.model_name or ""
        return BlockLabel.of("sglang", name, self._model["weights"], settings)

    def _facts(self, host: Any) -> dict[str, Any]:
        config = self._config
        return {
            **self._model,
            "sglang": sglang.__version__,
            "settings": self._settings,
            "context_parallel": [config.attn_cp_rank, config.attn_cp_size],
            "decode_context_parallel": [config.dcp_rank, config.dcp_size],
            "split_heads": [config.should_split_heads, config.tp_lcm_size],
            "pool": type(host).__name__,
            "layout": host.layout,
            "token_bytes": host.size_per_token,
        }

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._member.submit(work).result()


def _server_arguments() -> Any:
    """SGLang's arguments; ``None`` where no server runs, such as in its own tests of storages."""
    try:
        return get_server_args()
    except ValueError:
        return None


def _require_namespaces() -> None:
    """
    Raises:
        KVError: prompts with different adapters or salts have the same pages.
    """
    if not hasattr(utils, "storage_namespace_seed"):
        raise KVError(
            f"SGLang {sglang.__version__} names the pages in its storage by their tokens alone, so "
            "prompts with different adapters or salts would load each other's: update it to 0.5.23"
        )


def _check_pages(host: Any) -> None:
    """
    Raises:
        KVError: a host cache does not have its pages as flat tensors.
    """
    try:
        elements = host.get_data_page(0).numel()
        why = "they are empty"
    except (NotImplementedError, ValueError) as error:
        elements, why = 0, str(error)
    if not elements:
        raise KVError(
            f"SGLang's host cache {type(host).__name__} does not have its pages as flat tensors: "
            f"{why.rstrip('.')}. Use another storage for this model"
        )


def _page_starts(host: Any, host_indices: torch.Tensor) -> list[int]:
    starts: list[int] = host_indices[:: host.page_size].tolist()
    return starts


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _state_types(host: Any) -> list[str]:
    """Types of the tensors in a page of states, which has no type of its own."""
    info = getattr(host, "buffer_info", None)
    return [] if info is None else [str(part.dtype) for part in (info.temporal, *info.conv)]


def _restorable(there: Sequence[bool], transfer: PoolTransfer) -> list[int]:
    """Lengths of prefixes, in pages, that a host cache can restore from the pages that exist."""
    if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
        needed = len(there)
    elif transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
        needed = max(1, len(transfer.keys or ()))
    else:
        raise KVError(
            f"the policy {transfer.hit_policy.value} of SGLang's host cache {transfer.name} is not "
            "supported: use another storage for this model"
        )
    return [end for end in range(1, len(there) + 1) if all(there[max(0, end - needed) : end])]
