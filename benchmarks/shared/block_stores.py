"""Clients of block stores, for ``kv_store.py``: innet's pool, Redis and Mooncake.

Each takes turns: puts and gets, timed and verified. As a program, this file is one process:

* ``STORE SOCKET PORT``: a client of Redis or Mooncake;
* ``mooncake_memory PORT BYTES``: holds Mooncake's blocks until SIGTERM or the end of its parent;
* ``own SOCKET NAME OUTSTANDING BYTES``: a rank of a job. Rank 0 is the client, rank 1 the home of
  all blocks; ``NAME`` is the client's team.

The libraries of Redis and Mooncake are imported by their own processes alone.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from innet import __version__
from innet.cluster.emulation.local_fabric import free_port
from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import EmulationError, KVError
from innet.kv.hash_chain import HASH_BYTES
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import BlockNetwork, Contents
from innet.kv.pool.peers import await_members
from innet.kv.pool_member import open_worker_network, tenant_of_job
from innet.lab.harness import Joined, process_cpu_s, serve
from innet.worker import current_worker

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore

T = TypeVar("T")

Blocks = npt.NDArray[np.uint8]
"""Blocks of equal size, one below the other: ``(blocks, bytes of one)``."""


class StoreClient(Protocol):
    """A client of a store in another process, used in the way that is fastest for this store.

    A put ends when another client would find the block; a get, when its bytes are in this process.

    Attributes:
        version: of the store, for the report.
    """

    version: str

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Prepare to put the rows of ``source``, and to get into the rows of ``landing``."""
        ...

    def put(self, key: str, row: int) -> None:
        """Put a row of the source."""
        ...

    def get(self, key: str, row: int) -> None:
        """Get a stored block for a row of the landing."""
        ...

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Put all rows, at most ``outstanding`` at once."""
        ...

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Get all rows, at most ``outstanding`` at once."""
        ...

    def landed(self) -> Blocks:
        """The blocks that gets have received since :meth:`load`."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Let the store drop these blocks."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class BlocksTask(BaseModel):
    """Put blocks and get them back: one after the other, then several at once."""

    block_bytes: int = Field(ge=1)
    blocks: int = Field(ge=1)
    outstanding: int = Field(ge=1, description="puts or gets at once, where throughput is taken")

    def __str__(self) -> str:
        return f"with {self.blocks} blocks of {self.block_bytes} bytes"


class BlocksResult(BaseModel):
    """The durations of the calls of a turn."""

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
        """Make the blocks; turns with blocks of one size share their contents."""
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
        """Compare the received blocks with the source."""
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


def take_turns(store: str, path: str, client: StoreClient) -> None:
    """Take turns with a client of ``store`` until the conductor at ``path`` hangs up."""
    serve(path, Joined(team=store, version=client.version), BlocksWork(client))
    client.close()


_READ_BYTES = 1 << 20
"""Of one system call. The Redis client's default of 64 KiB is slower with large blocks."""
_LOCAL_BUFFER_BYTES = 64 << 20
_START_S = 30.0
_POLL_S = 0.02
_PROGRAM = (sys.executable, str(Path(__file__).resolve()))


class RedisClient:
    """Redis through its own client, with hiredis as the parser; calls at once are a pipeline."""

    def __init__(self, port: int) -> None:
        import redis

        self._redis = redis.Redis(host="127.0.0.1", port=port, socket_read_size=_READ_BYTES)
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

    def __init__(self, master_port: int) -> None:
        self.version = f"Mooncake {importlib.metadata.version('mooncake-transfer-engine-non-cuda')}"
        self._store = _join_mooncake(master_port, offered_bytes=0)
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


def _join_mooncake(master_port: int, offered_bytes: int) -> MooncakeDistributedStore:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    end = store.setup(
        "127.0.0.1",
        "P2PHANDSHAKE",
        offered_bytes,
        _LOCAL_BUFFER_BYTES,
        "tcp",
        "",
        f"127.0.0.1:{master_port}",
    )
    _checked("setup", end)
    return store


def _places(blocks: Blocks, first: int, count: int) -> tuple[list[int], list[int]]:
    rows = range(first, first + count)
    return [blocks[row].ctypes.data for row in rows], [blocks.shape[1]] * count


def _checked(call: str, end: int) -> None:
    if end != 0:
        raise KVError(f"Mooncake's {call} failed with {end}; its log says more")


# innet's own pool.

TENANT = "contest"
_MEMBERS_S = 30.0


class OwnClient:
    """A member of a pool without own memory: all blocks lie in the other process."""

    version = f"innet {__version__}"

    def __init__(self, outstanding: int) -> None:
        """``outstanding``: the window of its pool."""
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._pool, self._family = self._run(self._open(outstanding))
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

    async def _open(self, outstanding: int) -> tuple[BlockPool, BlockFamily]:
        worker = current_worker()
        network = await self._stack.enter_async_context(
            open_worker_network(worker, tenant_of_job(worker, TENANT))
        )
        pool = BlockPool(
            network,
            local=TieredStore(MemoryTier(0)),
            settings=PoolSettings(window=outstanding),
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


async def be_home(path: str, name: str, outstanding: int, offered_bytes: int) -> None:
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
            settings=PoolSettings(window=outstanding),
        ),
    ):
        writer.write(Joined(team=f"{name}_home", version=OwnClient.version).line())
        await reader.read()
    writer.close()


# Servers.


def missing_requirement(store: str) -> str | None:
    """What ``store`` needs and this machine lacks; ``None`` when it can run."""
    if store.startswith("redis"):
        if shutil.which("redis-server") is None:
            return "redis-server is not installed (apt-get install redis-server)"
        for module in ("redis", "hiredis"):
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed (pip install redis hiredis)"
    if store == "mooncake" and importlib.util.find_spec("mooncake") is None:
        return "Mooncake is not installed (pip install --no-deps mooncake-transfer-engine-non-cuda)"
    return None


def client_command(store: str, socket_path: Path, *arguments: str) -> tuple[str, ...]:
    """The command of a client's process, which takes turns at the conductor's socket.

    ``arguments`` are the port, or of innet's own ranks (``own``) the rest of theirs.
    """
    return (*_PROGRAM, store, str(socket_path), *arguments)


async def start_redis(processes: ProcessGroup) -> str:
    """Start a Redis server without persistence; returns its port."""
    port = free_port()
    command = f"redis-server --bind 127.0.0.1 --port {port} --appendonly no --save"
    server = processes.spawn(ProcessSpec("redis-server", (*command.split(), "")))
    await _listening(server, port)
    return str(port)


async def start_mooncake(processes: ProcessGroup, offered_bytes: int) -> str:
    """Start Mooncake's master, and a process with memory for blocks; returns the master's port."""
    import mooncake

    port, metrics_port = free_port(), free_port()
    program = Path(next(iter(mooncake.__path__))) / "mooncake_master"
    options = (
        f"--rpc_address=127.0.0.1 --rpc_port={port} "
        f"--metrics_host=127.0.0.1 --metrics_port={metrics_port} --logtostderr"
    )
    master = processes.spawn(ProcessSpec("mooncake-master", (str(program), *options.split())))
    await _listening(master, port)
    argv = (*_PROGRAM, _MEMORY, str(port), str(offered_bytes))
    memory = processes.spawn(ProcessSpec("mooncake-memory", argv))
    await _until(memory, lambda: "ready" in memory.tail)
    return str(port)


async def _listening(server: SupervisedProcess, port: int) -> None:
    def accepts() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await _until(server, accepts)


async def _until(server: SupervisedProcess, is_ready: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_START_S):
            while not is_ready():
                if server.returncode is not None:
                    raise EmulationError(server.failure_report())
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise EmulationError(
            f"not ready after {_START_S:.0f} s: {server.failure_report()}"
        ) from None


# Processes.

_CLIENTS: dict[str, Callable[[int], StoreClient]] = {
    "redis": RedisClient,
    "redis_connections": RedisConnectionsClient,
    "mooncake": MooncakeClient,
}
_MEMORY = "mooncake_memory"
OWN = "own"


def _hold_memory(master_port: int, offered_bytes: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    store = _join_mooncake(master_port, offered_bytes)
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    store.close()


def _be_rank(path: str, name: str, outstanding: int, offered_bytes: int) -> None:
    if current_worker().rank == 0:
        take_turns(name, path, OwnClient(outstanding))
    else:
        asyncio.run(be_home(path, name, outstanding, offered_bytes))


def main() -> None:
    """Run as a client of a store, as Mooncake's memory, or as a rank of innet's own."""
    store, *arguments = sys.argv[1:]
    if store == _MEMORY:
        _hold_memory(*map(int, arguments))
        return
    if store == OWN:
        path, name, *numbers = arguments
        _be_rank(path, name, *map(int, numbers))
        return
    set_parent_death_signal(signal.SIGKILL)
    path, port = arguments
    take_turns(store, path, _CLIENTS[store](int(port)))


if __name__ == "__main__":
    main()
