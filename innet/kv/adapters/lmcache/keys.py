"""Names of LMCache's objects in a pool.

The digest covers what LMCache calls the model and the identity of its weights; the hash, all other
parts of LMCache's key: the chunk's own hash, which rank's part it is, tags and salts.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from lmcache.utils import CacheEngineKey
from lmcache.v1.distributed.api import ObjectKey

from innet.kv.adapters.identity import engine_digest, key_hash
from innet.kv.names import BlockFamily, BlockKey

_LAYOUT: Final = "lmcache"


class ObjectNames:
    """The names of one tenant's objects.

    Args:
        tenant: its component in names.
        weights: identity of the weights, beside the model's name.
    """

    def __init__(self, tenant: str, weights: str) -> None:
        # LMCache knows an object's layers only as part of its contents, or of its key.
        self._family = cache(
            lambda model: BlockFamily(
                tenant,
                engine_digest("lmcache", {"model": model, "weights": weights}),
                _LAYOUT,
                0,
                1,
            )
        )

    def of_object(self, key: ObjectKey) -> BlockKey:
        """The name of an object in L2."""
        parts = (str(key.kv_rank), str(key.object_group_id), key.cache_salt, key.chunk_hash)
        return BlockKey(self._family(key.model_name), key_hash("object", *parts))

    def of_chunk(self, key: CacheEngineKey) -> BlockKey:
        """The name of a chunk, or of one layer of it, in a remote store."""
        return BlockKey(self._family(key.model_name), key_hash("chunk", key.to_string()))
