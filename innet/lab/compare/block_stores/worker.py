"""A client: ``python -m innet.lab.compare.block_stores.worker STORE SOCKET ARGUMENT``"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import KVError
from innet.lab.compare.block_stores.client import StoreClient
from innet.lab.harness import Hello, process_cpu_s, serve


class BlocksTask(BaseModel):
    """Put so many blocks and get them back: one after the other, and then several at once."""

    block_bytes: int = Field(ge=1)
    blocks: int = Field(ge=1)
    outstanding: int = Field(ge=1, description="puts or gets at once, where throughput is taken")

    def __str__(self) -> str:
        return f"with {self.blocks} blocks of {self.block_bytes} bytes"


class BlocksResult(BaseModel):
    """How long the calls of a turn took."""

    put_s: list[float] = Field(description="of each of the puts in a row")
    get_s: list[float] = Field(description="of each of the gets in a row")
    put_all_s: float = Field(description="of all blocks, several at once")
    get_all_s: float = Field(description="of all blocks, several at once")
    cpu_s: float = Field(description="processor time of the client's process")


class BlocksWork:
    """Takes turns with one client of a store."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Make blocks with contents, the same ones as long as their size is."""
        self._turn = turn
        self._task = BlocksTask.model_validate(task)
        shape = self._task.blocks, self._task.block_bytes
        if self._source.shape != shape:
            random = np.random.default_rng(self._task.block_bytes)
            self._source = random.integers(0, 256, shape, dtype=np.uint8)
            self._landing = np.zeros_like(self._source)
        self._client.load(self._source, self._landing)

    def run(self) -> None:
        """Puts and gets, verified outside of the timed parts."""
        client, outstanding = self._client, self._task.outstanding
        keys = [f"{self._turn}-{row}" for row in range(self._task.blocks)]
        begun_s = process_cpu_s()
        put_s = _each(client.put, keys)
        get_s = _each(client.get, keys)
        self._check()
        client.forget(keys)
        keys = [f"{key}-all" for key in keys]
        put_all_s = _timed(client.put_all, keys, outstanding)
        get_all_s = _timed(client.get_all, keys, outstanding)
        cpu_s = process_cpu_s() - begun_s
        self._check()
        client.forget(keys)
        self._result = BlocksResult(
            put_s=put_s, get_s=get_s, put_all_s=put_all_s, get_all_s=get_all_s, cpu_s=cpu_s
        )

    def report(self) -> BlocksResult:
        """The times."""
        return self._result

    def _check(self) -> None:
        """Compare what came with what was put."""
        if not np.array_equal(self._client.landed(), self._source):
            raise KVError("the blocks that came back are not those that were put")
        self._landing[:] = 0


def _each(call: Callable[[str, int], None], keys: Sequence[str]) -> list[float]:
    durations_s = []
    for row, key in enumerate(keys):
        begun_s = time.perf_counter()
        call(key, row)
        durations_s.append(time.perf_counter() - begun_s)
    return durations_s


def _timed(
    call: Callable[[Sequence[str], int], None], keys: Sequence[str], outstanding: int
) -> float:
    begun_s = time.perf_counter()
    call(keys, outstanding)
    return time.perf_counter() - begun_s


def make_client(store: str, argument: str) -> StoreClient:
    """The client of a store that others have made.

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
        from innet.lab.compare.block_stores.mooncake import MooncakeClient

        return MooncakeClient(int(argument))
    raise KVError(f"no block store {store!r}; known are redis, redis_connections, mooncake")


def take_turns(store: str, path: str, client: StoreClient) -> None:
    """Take turns with a client of ``store`` until the conductor at ``path`` hangs up."""
    serve(path, Hello(team=store, version=client.version), BlocksWork(client))
    client.close()


def main() -> None:
    """Be a client of a store that others have made."""
    set_parent_death_signal(signal.SIGKILL)
    store, path, argument = sys.argv[1:]
    take_turns(store, path, make_client(store, argument))


if __name__ == "__main__":
    main()
