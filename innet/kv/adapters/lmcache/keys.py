"""Names of LMCache's objects in a pool.

The digest covers the model and its weights, see :mod:`innet.kv.adapters.weight_files`. The hash
covers all other parts of LMCache's key: the chunk's hash, which rank's part it is, tags and salts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Final

from lmcache.utils import CacheEngineKey
from lmcache.v1.distributed.api import ObjectKey

from innet.kv.adapters.identity import engine_digest, key_hash
from innet.kv.adapters.weight_files import model_facts
from innet.kv.names import BlockFamily, BlockKey

_LAYOUT: Final = "lmcache"


class ObjectNames:
    """The names of one tenant's objects.

    A local model's weights are read for the first name, in a thread: the event loop serves blocks.

    Args:
        tenant: its component in names.
        weights: identity of the weights, beside the model's name.
    """

    def __init__(self, tenant: str, weights: str) -> None:
        self._tenant = tenant
        self._weights = weights
        self._lock = threading.Lock()
        self._families: dict[str, BlockFamily] = {}

    async def of_objects(self, keys: Sequence[ObjectKey]) -> list[BlockKey]:
        """The names of objects in L2.

        Raises:
            KVError: a key's model is a path whose weights cannot be told from others.
        """
        return [
            BlockKey(
                await self._family(key.model_name),
                key_hash(
                    "object",
                    str(key.kv_rank),
                    str(key.object_group_id),
                    key.cache_salt,
                    key.chunk_hash,
                ),
            )
            for key in keys
        ]

    async def of_chunks(self, keys: Sequence[CacheEngineKey]) -> list[BlockKey]:
        """The names of chunks, or of one layer of each, in a remote store.

        Raises:
            KVError: as :meth:`of_objects`.
        """
        return [
            BlockKey(await self._family(key.model_name), key_hash("chunk", key.to_string()))
            for key in keys
        ]

    async def _family(self, model: str) -> BlockFamily:
        known = self._families.get(model)
        return await asyncio.to_thread(self._identify, model) if known is None else known

    def _identify(self, model: str) -> BlockFamily:
        with self._lock:  # the first tasks come together, and one of them reads the weights
            if model not in self._families:
                digest = engine_digest("lmcache", model_facts(model, self._weights))
                # LMCache knows an object's layers only as part of its contents, or of its key.
                self._families[model] = BlockFamily(self._tenant, digest, _LAYOUT, 0, 1)
            return self._families[model]
