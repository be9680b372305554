"""Hosts with a pool over a fake network, all in this process, though adapters know of one each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import pytest

from innet.kv.events.source import BlockEvents
from innet.kv.loop_thread import LoopThread
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from innet.kv.pool_options import PoolOptions
from tests.kv.fake_network import TENANT, FakeFabric, Node

Result = TypeVar("Result")

ROOM_BYTES = 1 << 26


class Host:
    """What an adapter needs of a member that it has entered.

    See :class:`innet.kv.adapters.engine_pool.Member`.
    """

    tenant = TENANT

    def __init__(self, thread: LoopThread, blocks: BlockPool) -> None:
        self._thread = thread
        self.blocks = blocks
        self.events: BlockEvents | None = None

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return self._thread.submit(work)


class Hosts:
    """Hosts ``a`` and ``b``, and the home of all blocks.

    Attributes:
        hosts: by name.
    """

    def __init__(self) -> None:
        self._fabric = FakeFabric({"home": ROOM_BYTES}, others=("a", "b"))
        self._thread = LoopThread("the hosts' pools")
        self.hosts = {name: self._thread.run(self._open(name)) for name in self._fabric.nodes}

    @property
    def home(self) -> Node:
        """To which no other host is a cache: it can forge, and be out of reach."""
        return self._fabric.nodes["home"]

    @contextmanager
    def at(self, name: str, module: ModuleType) -> Iterator[None]:
        """What the module makes in here is on that host."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "pool_of_process", _OpenPool(self.hosts[name]))
            yield

    @contextmanager
    def slow_to_put(self, name: str) -> Iterator[None]:
        """What the host puts in here is on its way until the end."""
        blocks = self.hosts[name].blocks
        put, arrived = blocks.put, asyncio.Event()

        async def put_later(key: BlockKey, contents: Contents, *, depth: int = 0) -> int:
            await arrived.wait()
            return await put(key, contents, depth=depth)

        async def arrive() -> None:
            arrived.set()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "put", put_later)
            yield
        self._thread.run(arrive())

    def close(self) -> None:
        """Close all pools."""
        for host in self.hosts.values():
            self._thread.run(host.blocks.close())
        self._thread.close()

    async def _open(self, name: str) -> Host:
        blocks = BlockPool(
            self._fabric.network(name),
            local=TieredStore(MemoryTier(0)),
            offered=TieredStore(MemoryTier(self._fabric.members.get(name, 0))),
            settings=PoolSettings(timeout_s=60),  # a slow machine makes no block absent
        )
        await blocks.start()
        return Host(self._thread, blocks)


class _OpenPool:
    """The pool of a process, for whichever options it is asked."""

    is_open = True

    def __init__(self, host: Host) -> None:
        self._host = host

    def enter(self, options: PoolOptions, members: int) -> Host:
        return self._host

    def leave(self) -> None:
        """The test closes the pool."""
