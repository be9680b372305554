"""The clients of stores that others have made, by the names of these."""

from __future__ import annotations

from innet.errors import KVError
from innet.lab.compare.block_stores.client import StoreClient


def make_client(store: str, argument: str) -> StoreClient:
    """The client of a store.

    Args:
        store: ``redis``, ``redis_connections`` or ``mooncake``.
        argument: what it needs to find its server: a port.

    Raises:
        KVError: there is no such store, or it is not to be reached.
    """
    if store == "redis":
        from innet.lab.compare.block_stores.redis_client import RedisClient

        return RedisClient(int(argument))
    if store == "redis_connections":
        from innet.lab.compare.block_stores.redis_client import RedisConnectionsClient

        return RedisConnectionsClient(int(argument))
    if store == "mooncake":
        from innet.lab.compare.block_stores.mooncake_client import MooncakeClient

        return MooncakeClient(int(argument))
    raise KVError(f"no block store {store!r}; known are redis, redis_connections, mooncake")
