"""innet's pool as a block store of ``kv_store.py``: a client, and a home of all blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import numpy as np

from innet import __version__
from innet.errors import KVError
from innet.kv.hash_chain import HASH_BYTES
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import BlockNetwork, Contents
from innet.kv.pool.peers import await_members
from innet.kv.pool_member import tenant_of_job
from innet.kv.worker_network import open_worker_network
from innet.lab.turns import Joined
from innet.worker import current_worker
from shared.block_work import Blocks

T = TypeVar("T")

TENANT = "contest"
_MEMBERS_S = 30.0


class OwnClient:
    """A member of a pool without own memory: all blocks lie in the other process."""

    version = f"innet {__version__}"

    def __init__(self, window: int) -> None:
        """``window``: of its pool."""
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._pool, self._family = self._run(self._open(window))
        self._source = self._landing = np.empty((0, 0), np.uint8)
        self._got: dict[int, Contents] = {}

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Nothing is registered: gets allocate."""
        self._source, self._landing = source, landing
        self._got.clear()

    def put(self, key: str, row: int) -> None:
        """``put`` the row; it ends when the block's home has verified the block."""
        self._run(self._put(key, row))

    def get(self, key: str, row: int) -> None:
        """``get`` the block, verified."""
        self._run(self._get(key, row))

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``put_many``; the pool's window limits the blocks in flight."""
        blocks = [(self._key(key), self._source[row]) for row, key in enumerate(keys)]
        if set(self._run(self._pool.put_many(blocks))) != {1}:
            raise KVError("the home did not receive all blocks")

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``get_many``; the pool's window limits the blocks in flight."""
        found = self._run(self._pool.get_many([self._key(key) for key in keys]))
        for row, contents in enumerate(found):
            if contents is None:
                raise KVError(f"{keys[row]} was not found")
            self._got[row] = contents

    def landed(self) -> Blocks:
        """The received blocks, copied into the landing."""
        for row, contents in self._got.items():
            self._landing[row] = contents
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """``evict``."""
        self._got.clear()
        self._run(self._pool.evict([self._key(key) for key in keys]))

    def close(self) -> None:
        """Leave the pool."""
        self._run(self._stack.aclose())
        self._loop.close()

    async def _open(self, window: int) -> tuple[BlockPool, BlockFamily]:
        worker = current_worker()
        network = await self._stack.enter_async_context(
            open_worker_network(worker, tenant_of_job(worker, TENANT))
        )
        pool = BlockPool(
            network,
            local=TieredStore(MemoryTier(0)),
            settings=PoolSettings(window=window),
        )
        await self._stack.enter_async_context(pool)
        await _home_of(network)
        return pool, BlockFamily(network.tenant, NO_MODEL_DIGEST, "raw", 0, 1)

    async def _put(self, key: str, row: int) -> None:
        if await self._pool.put(self._key(key), self._source[row]) != 1:
            raise KVError(f"the home of {key} did not receive it")

    async def _get(self, key: str, row: int) -> None:
        contents = await self._pool.get(self._key(key))
        if contents is None:
            raise KVError(f"{key} was not found")
        self._got[row] = contents

    def _key(self, key: str) -> BlockKey:
        return BlockKey(self._family, key.encode().rjust(HASH_BYTES, b"\0"))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


async def _home_of(network: BlockNetwork) -> None:
    """Wait until the pool has a member with memory."""
    if not await await_members(network, bool, _MEMBERS_S):
        raise KVError(f"no home joined the pool within {_MEMBERS_S:.0f} s")


async def be_home(path: str, name: str, window: int, offered_bytes: int) -> None:
    """Keep blocks until the conductor closes the connection."""
    worker = current_worker()
    reader, writer = await asyncio.open_unix_connection(path)
    async with (
        open_worker_network(
            worker, tenant_of_job(worker, TENANT), capacity_bytes=offered_bytes
        ) as network,
        BlockPool(
            network,
            local=TieredStore(MemoryTier(0)),
            offered=TieredStore(MemoryTier(offered_bytes)),
            settings=PoolSettings(window=window),
        ),
    ):
        writer.write(Joined(team=f"{name}_home", version=OwnClient.version).line())
        await reader.read()
    writer.close()
