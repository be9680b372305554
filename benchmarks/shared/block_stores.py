"""Clients of block stores, for ``kv_store.py``: innet's pool, Redis, Mooncake and NIXL.

As a program, this module is one process:

* ``STORE SOCKET HOST:PORT OWN``: a client of Redis, Mooncake or NIXL, at its own address;
* ``mooncake_memory HOST:PORT OWN BYTES``: holds Mooncake's blocks until SIGTERM or the end of its
  parent;
* ``nixl_memory OWN PORT BYTES``: memory for NIXL's clients;
* ``own SOCKET NAME WINDOW BYTES``: a rank of a job. Rank 0 is the client, rank 1 the home of
  all blocks; ``NAME`` is the client's team.

The libraries of peers are imported by their own processes alone.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import KVError
from innet.worker import current_worker
from shared.block_work import Blocks, StoreClient, take_turns
from shared.nixl_blocks import NixlClient, NixlDigestClient, hold_nixl_memory
from shared.own_blocks import OwnClient, be_home

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore

_READ_BYTES = 1 << 20
"""Of one system call. The Redis client's default of 64 KiB is slower with large blocks."""
_LOCAL_BUFFER_BYTES = 64 << 20


class RedisClient:
    """Redis through its own client, with hiredis as the parser; calls at once are a pipeline."""

    def __init__(self, server: str, _own: str) -> None:
        import redis

        host, port = server.split(":")
        self._redis = redis.Redis(host=host, port=int(port), socket_read_size=_READ_BYTES)
        self.version = f"Redis {self._redis.info('server')['redis_version']}"
        self._source = self._landing = np.empty((0, 0), np.uint8)
        self._values: dict[int, bytes] = {}

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Nothing is registered: the client allocates what it returns."""
        self._source, self._landing = source, landing
        self._values.clear()

    def put(self, key: str, row: int) -> None:
        """``SET``, from the array's own memory."""
        self._redis.set(key, memoryview(self._source[row]))

    def get(self, key: str, row: int) -> None:
        """``GET``; the result stays a bytes object, since a user needs no copy of it."""
        self._values[row] = self._redis.get(key)

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Pipelines of ``outstanding`` commands."""
        for first in range(0, len(keys), outstanding):
            with self._redis.pipeline(transaction=False) as pipeline:
                for row, key in enumerate(keys[first : first + outstanding], first):
                    pipeline.set(key, memoryview(self._source[row]))
                pipeline.execute()

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Pipelines of ``outstanding`` commands."""
        for first in range(0, len(keys), outstanding):
            with self._redis.pipeline(transaction=False) as pipeline:
                for key in keys[first : first + outstanding]:
                    pipeline.get(key)
                self._values |= dict(enumerate(pipeline.execute(), first))

    def landed(self) -> Blocks:
        """The received values, copied into the landing."""
        for row, value in self._values.items():
            self._landing[row] = np.frombuffer(value, np.uint8)
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """``DEL``."""
        self._values.clear()
        self._redis.delete(*keys)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class RedisConnectionsClient(RedisClient):
    """Redis with a connection and a thread for each of several calls at once."""

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Puts over ``outstanding`` connections."""
        self._for_all(self.put, keys, outstanding)

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Gets over ``outstanding`` connections."""
        self._for_all(self.get, keys, outstanding)

    def _for_all(
        self, call: Callable[[str, int], None], keys: Sequence[str], outstanding: int
    ) -> None:
        with ThreadPoolExecutor(outstanding) as threads:
            list(threads.map(call, keys, range(len(keys))))


class MooncakeClient:
    """Mooncake over TCP, through registered buffers; its blocks lie in another process."""

    def __init__(self, master: str, own: str) -> None:
        self.version = f"Mooncake {importlib.metadata.version('mooncake-transfer-engine-non-cuda')}"
        self._store = _join_mooncake(master, own, offered_bytes=0)
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Register both buffers, and unregister those of the turn before."""
        for before, now in ((self._source, source), (self._landing, landing)):
            if before is now:
                continue
            if before.size:
                self._store.unregister_buffer(before.ctypes.data)
            _checked("register_buffer", self._store.register_buffer(now.ctypes.data, now.nbytes))
        self._source, self._landing = source, landing

    def put(self, key: str, row: int) -> None:
        """``put_from`` the row."""
        block = self._source[row]
        _checked("put_from", self._store.put_from(key, block.ctypes.data, block.nbytes))

    def get(self, key: str, row: int) -> None:
        """``get_into`` the row."""
        block = self._landing[row]
        got = self._store.get_into(key, block.ctypes.data, block.nbytes)
        _checked("get_into", got - block.nbytes)

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``batch_put_from``, ``outstanding`` blocks at once."""
        for first in range(0, len(keys), outstanding):
            some = keys[first : first + outstanding]
            ends = self._store.batch_put_from(some, *_places(self._source, first, len(some)))
            for end in ends:
                _checked("batch_put_from", end)

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``batch_get_into``, ``outstanding`` blocks at once."""
        for first in range(0, len(keys), outstanding):
            some = keys[first : first + outstanding]
            ends = self._store.batch_get_into(some, *_places(self._landing, first, len(some)))
            for end in ends:
                _checked("batch_get_into", end - self._landing.shape[1])

    def landed(self) -> Blocks:
        """The landing, into which gets write."""
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """Remove the blocks, also those with a lease."""
        for key in keys:
            _checked("remove", self._store.remove(key, True))

    def close(self) -> None:
        """Leave the master."""
        self._store.close()


def _join_mooncake(master: str, own: str, offered_bytes: int) -> MooncakeDistributedStore:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    end = store.setup(own, "P2PHANDSHAKE", offered_bytes, _LOCAL_BUFFER_BYTES, "tcp", "", master)
    _checked("setup", end)
    return store


def _places(blocks: Blocks, first: int, count: int) -> tuple[list[int], list[int]]:
    rows = range(first, first + count)
    return [blocks[row].ctypes.data for row in rows], [blocks.shape[1]] * count


def _checked(call: str, end: int) -> None:
    if end != 0:
        raise KVError(f"Mooncake's {call} failed with {end}; its log says more")


# Processes.

_CLIENTS: dict[str, Callable[[str, str], StoreClient]] = {
    "redis": RedisClient,
    "redis_connections": RedisConnectionsClient,
    "mooncake": MooncakeClient,
    "nixl": NixlClient,
    "nixl_digest": NixlDigestClient,
}
MEMORY = "mooncake_memory"
NIXL_MEMORY = "nixl_memory"
OWN = "own"


def _hold_memory(master: str, own: str, offered_bytes: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    store = _join_mooncake(master, own, int(offered_bytes))
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    store.close()


def _be_rank(path: str, name: str, window: int, offered_bytes: int) -> None:
    if current_worker().rank == 0:
        take_turns(name, path, OwnClient(window))
    else:
        asyncio.run(be_home(path, name, window, offered_bytes))


def main() -> None:
    """Run as a client of a store, as Mooncake's memory, or as a rank of innet's own."""
    store, *arguments = sys.argv[1:]
    if store == MEMORY:
        _hold_memory(*arguments)
        return
    if store == NIXL_MEMORY:
        hold_nixl_memory(*arguments)
        return
    if store == OWN:
        path, name, *numbers = arguments
        _be_rank(path, name, *map(int, numbers))
        return
    set_parent_death_signal(signal.SIGKILL)
    path, server, own = arguments
    take_turns(store, path, _CLIENTS[store](server, own))


if __name__ == "__main__":
    main()
