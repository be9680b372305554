"""LMCache's remote store over a pool: the plugin that its remote backend loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.storage_backend.connector import ConnectorAdapter, ConnectorContext
from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

from innet.errors import KVError
from innet.kv.adapters.engine_pool import pool_of_process
from innet.kv.adapters.lmcache.keys import (
    LMCacheOptions,
    UnnamedWeights,
    engine_facts,
    label_settings,
    require_safe_hash,
)
from innet.kv.adapters.lmcache.objects import ObjectNames, pack, unpack, unpack_into
from innet.kv.labels import BlockLabel, announce
from innet.kv.names import BlockKey
from innet.kv.pool.network import Contents
from innet.kv.pool.waiting import count_done_in_order
from innet.kv.pool_options import PoolOptions

Result = TypeVar("Result")

_SCHEME: Final = "plugin://innet"
_ADDRESS_SCHEME: Final = "innet://"
"""Scheme of refused URLs: LMCache opens a store for ``remote_url`` and for each plugin."""
_LOADER_KEYS: Final = ("module_path", "class_name")
"""Keys of the plugin's configuration that LMCache itself reads."""


class InnetConnectorAdapter(ConnectorAdapter):
    """Makes connectors of the plugin ``innet`` or ``innet.<instance>``."""

    def __init__(self) -> None:
        super().__init__(_SCHEME)

    def can_parse(self, url: str) -> bool:
        return url.startswith((_SCHEME, _ADDRESS_SCHEME))

    def create_connector(self, context: ConnectorContext) -> RemoteConnector:
        """A connector with the options ``remote_storage_plugin.<plugin>.<option>`` of LMCache's
        ``extra_config``: those of the pool and of
        :class:`~innet.kv.adapters.lmcache.keys.LMCacheOptions`.

        Raises:
            KVError: an option is unknown, its value out of range, or the URL has the address; or
                LMCache's hash is unsafe.
            EmulationError: this process was not started by ``innet run``.
        """
        if context.url.startswith(_ADDRESS_SCHEME):
            address = context.url.removeprefix(_ADDRESS_SCHEME).rstrip("/")
            raise KVError(
                f"remote_url: {context.url} is not supported: write "
                f"'remote_storage_plugin.innet.address: {address}' in extra_config instead"
            )
        plugin = context.plugin_name or context.url.removeprefix("plugin://")
        prefix = f"remote_storage_plugin.{plugin}."
        options, pool = LMCacheOptions.read(
            f"extra_config: {prefix}*", _configured(context.config, prefix), "lmcache"
        )
        if context.config is not None:
            require_safe_hash(context.config.pre_caching_hash_algorithm)
        return InnetRemoteConnector(context.local_cpu_backend, options, pool)


class InnetRemoteConnector(RemoteConnector):
    """Chunks, kept by all members of a pool.

    Args:
        local_cpu_backend: allocates the memory that chunks are loaded into.
        options: of the adapter.
        pool: options of the pool.
    """

    def __init__(
        self, local_cpu_backend: LocalCPUBackend, options: LMCacheOptions, pool: PoolOptions
    ) -> None:
        super().__init__(local_cpu_backend.config, local_cpu_backend.metadata)
        self._local = local_cpu_backend
        facts = engine_facts(options.weights)
        self._member = pool_of_process.enter(pool, options.members)
        self._blocks = self._member.blocks
        self._names = ObjectNames(self._member.tenant, options.weights, options.codec, facts)
        self._codec = options.codec
        self._unnamed = UnnamedWeights(options)
        metadata, config = local_cpu_backend.metadata, local_cpu_backend.config
        if metadata is not None and config is not None and not metadata.worker_id:
            settings = label_settings(metadata, config, options, facts)
            self._member.submit(self._announce(metadata, settings))

    async def exists(self, key: CacheEngineKey) -> bool:
        if self._unnamed.are_loaded:
            return False
        [found] = await asyncio.wrap_future(self._start(self._blocks.exists_many, [key]))
        return found

    def exists_sync(self, key: CacheEngineKey) -> bool:
        if self._unnamed.are_loaded:
            return False
        [found] = self._start(self._blocks.exists_many, [key]).result()
        return found

    def support_batched_contains(self) -> bool:
        return True

    def batched_contains(self, keys: list[CacheEngineKey]) -> int:
        if self._unnamed.are_loaded:
            return 0
        return self._start(self._blocks.count_prefix, keys).result()

    async def batched_async_contains(
        self, lookup_id: str, keys: list[CacheEngineKey], pin: bool = False
    ) -> int:
        if self._unnamed.are_loaded:
            return 0
        return await asyncio.wrap_future(self._start(self._blocks.count_prefix, keys))

    async def get(self, key: CacheEngineKey) -> MemoryObj | None:
        [memory] = await self.batched_get([key])
        return memory

    def support_batched_get(self) -> bool:
        return True

    async def batched_get(self, keys: list[CacheEngineKey]) -> list[MemoryObj | None]:
        if self._unnamed.are_loaded:
            return [None] * len(keys)
        blocks = await asyncio.wrap_future(self._start(self._blocks.get_many, keys))
        return [None if block is None else self._loaded(block) for block in blocks]

    async def batched_get_non_blocking(
        self, lookup_id: str, keys: list[CacheEngineKey]
    ) -> list[MemoryObj]:
        """The chunks before the first that was not found."""
        loaded: list[MemoryObj | None] = [None] * len(keys)

        async def load(numbers: range) -> int:
            some = await self.batched_get(keys[numbers.start : numbers.stop])
            loaded[numbers.start : numbers.stop] = some
            return next((place for place, memory in enumerate(some) if memory is None), len(some))

        found = 0
        try:
            found = await count_done_in_order(len(keys), load, *self._batches())
        finally:
            for memory in loaded[found:]:
                if memory is not None:
                    memory.ref_count_down()
        return [memory for memory in loaded[:found] if memory is not None]

    async def put(self, key: CacheEngineKey, memory_obj: MemoryObj) -> None:
        await self.batched_put([key], [memory_obj])

    def support_batched_put(self) -> bool:
        return True

    async def batched_put(self, keys: list[CacheEngineKey], memory_objs: list[MemoryObj]) -> None:
        if self._unnamed.are_loaded:
            return

        async def store(numbers: range) -> int:
            some = slice(numbers.start, numbers.stop)
            blocks = [pack(memory, self._codec) for memory in memory_objs[some]]

            def put(names: list[BlockKey]) -> Awaitable[list[int]]:
                named = list(zip(names, blocks, strict=True))
                return self._blocks.put_many(named, depths=numbers)

            await asyncio.wrap_future(self._start(put, keys[some]))
            return len(numbers)

        await count_done_in_order(len(keys), store, *self._batches())

    def remove_sync(self, key: CacheEngineKey) -> bool:
        """Drop a chunk here and at its homes; whether it is gone from all of them."""
        [gone] = self._start(self._blocks.evict, [key]).result()
        return gone

    async def close(self) -> None:
        await asyncio.to_thread(pool_of_process.leave)

    async def _announce(self, metadata: Any, settings: dict[str, str]) -> None:
        """Put the label of this engine's blocks, and log which others it will not share."""
        try:
            digest = await self._names.digest(metadata.model_name)
        except KVError:  # the first chunk says so
            return
        label = BlockLabel.of("lmcache", metadata.model_name, "", settings)
        await announce(self._blocks, self._member.tenant, digest, label)

    def _start(
        self, work: Callable[[list[BlockKey]], Awaitable[Result]], keys: Sequence[CacheEngineKey]
    ) -> Future[Result]:
        """Run ``work`` on the pool's thread, with the names of the chunks."""

        async def run() -> Result:
            return await work(await self._names.of_chunks(keys))

        return self._member.submit(run())

    def _batches(self) -> tuple[int, int]:
        """Chunks of each call of the pool, and calls at once: some are copied while others are on
        their way."""
        return self._blocks.batches(self.full_chunk_size_bytes)

    def _loaded(self, block: Contents) -> MemoryObj | None:
        try:
            description, _ = unpack(block)
            memory = self._local.allocate(
                description.torch_shapes(),
                description.torch_dtypes(),
                description.memory_format(),
            )
        except ValueError:
            return None
        if memory is None:
            return None
        if not unpack_into(block, memory, self._codec):
            memory.ref_count_down()
            return None
        return memory

    # The last method, because its name hides a type.
    async def list(self) -> list[str]:
        """Empty: a pool does not list its blocks."""
        return []


def _configured(config: LMCacheEngineConfig | None, prefix: str) -> dict[str, Any]:
    """The plugin's options in LMCache's configuration."""
    extra = (config.extra_config if config else None) or {}
    return {
        key.removeprefix(prefix): value
        for key, value in extra.items()
        if key.startswith(prefix) and key.removeprefix(prefix) not in _LOADER_KEYS
    }
