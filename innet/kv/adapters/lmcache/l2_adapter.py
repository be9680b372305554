"""LMCache's L2 over a pool: the plugin that ``lmcache.v1.distributed`` loads."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.internal_api import L1MemoryDesc, L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.platform import create_event_notifier

from innet.kv.adapters.engine_pool import pool_of_process
from innet.kv.adapters.lmcache.keys import LMCacheOptions, require_known_adapters
from innet.kv.adapters.lmcache.objects import ObjectNames, pack, unpack_into
from innet.kv.labels import BlockLabel, put_label
from innet.kv.pool import PoolStatistics
from innet.kv.pool.waiting import count_done_in_order

_LOCK_S: Final = 60.0
"""How long an object is pinned after a lookup, unless it is unlocked before."""


class InnetL2Adapter(L2AdapterInterface):
    """Objects of L2, kept by all members of a pool.

    The pool's policy evicts; LMCache's eviction and quotas have no effect on it. A lock is a lease
    at the object's home.

    Args:
        adapter_params: options of the pool, and those of
            :class:`~innet.kv.adapters.lmcache.keys.LMCacheOptions`.
        l1_memory_desc: not used.

    Raises:
        KVError: ``adapter_params`` has an unknown key, a value out of range, or does not say
            whether engines have adapters.
        EmulationError: this process was not started by ``innet run``.
    """

    def __init__(
        self, adapter_params: Mapping[str, Any], l1_memory_desc: L1MemoryDesc | None = None
    ) -> None:
        super().__init__()
        options, pool = LMCacheOptions.read("adapter_params", adapter_params, engine="lmcache")
        require_known_adapters(options)
        self._member = pool_of_process.enter(pool, options.members)
        self._blocks = self._member.blocks
        self._names = ObjectNames(self._member.tenant, options.weights, options.codec)
        self._codec = options.codec
        self._labelled: set[str] = set()
        submit, numbers = self._member.submit, itertools.count()
        self._stores = Tasks(submit, numbers, lambda _: L2StoreResult(False, 0))
        self._lookups = Tasks(submit, numbers, Bitmap)
        self._loads = Tasks(submit, numbers, Bitmap)

    def get_store_event_fd(self) -> int:
        return self._stores.descriptor

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._lookups.descriptor

    def get_load_event_fd(self) -> int:
        return self._loads.descriptor

    def submit_store_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        return self._stores.start(self._store(keys, objects), len(keys))

    def pop_completed_store_tasks(self) -> dict[int, L2StoreResult]:
        return self._stores.take_all()

    def submit_lookup_and_lock_task(
        self, keys: list[ObjectKey], group_layout_descs: dict[int, MemoryLayoutDesc]
    ) -> int:
        return self._lookups.start(self._lookup(keys), len(keys))

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        return self._lookups.take(task_id)

    def submit_unlock(self, keys: list[ObjectKey]) -> None:
        # If it fails, the leases expire.
        self._member.submit(self._unlock(keys))

    def submit_load_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        return self._loads.start(self._load(keys, objects), len(keys))

    def query_load_result(self, task_id: int) -> Bitmap | None:
        return self._loads.take(task_id)

    def delete(self, keys: list[ObjectKey]) -> None:
        """Drop objects here and at their homes; returns before they are gone."""
        self._member.submit(self._delete(keys))

    def report_status(self) -> dict[str, Any]:
        statistics = self._member.submit(self._statistics()).result()
        return {
            "is_healthy": True,
            "type": type(self).__name__,
            "hits": {place.value: count for place, count in statistics.hits.items()},
            "misses": {cause.value: count for cause, count in statistics.misses.items()},
            "looked_up": statistics.looked_up,
            "found": statistics.found,
            "stored_object_count": statistics.puts,
        }

    def close(self) -> None:
        for tasks in (self._stores, self._lookups, self._loads):
            tasks.close()
        pool_of_process.leave()

    async def _statistics(self) -> PoolStatistics:
        return self._blocks.statistics()

    async def _store(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> L2StoreResult:
        names = await self._names.of_objects(keys)
        await self._label({key.model_name for key in keys} - self._labelled)
        homes, stored_bytes = list[int](), 0

        async def store(numbers: range) -> int:
            nonlocal stored_bytes
            blocks = [(names[number], pack(objects[number], self._codec)) for number in numbers]
            homes.extend(await self._blocks.put_many(blocks, depths=numbers))
            stored_bytes += sum(block.nbytes for _, block in blocks)
            return len(numbers)

        # Some objects are copied while others are on their way.
        largest = max((memory.get_size() for memory in objects), default=1)
        await count_done_in_order(len(objects), store, *self._blocks.batches(largest))
        return L2StoreResult(all(homes), stored_bytes)

    async def _label(self, models: set[str]) -> None:
        """Put the labels of models whose first objects are stored."""
        self._labelled |= models
        for model in models:
            digest = await self._names.digest(model)
            label = BlockLabel.of("lmcache", model, "", {})
            await put_label(self._blocks, self._member.tenant, digest, label)

    async def _lookup(self, keys: list[ObjectKey]) -> Bitmap:
        names = await self._names.of_objects(keys)
        found = await self._blocks.exists_many(names)
        await self._blocks.pin(
            [name for name, here in zip(names, found, strict=True) if here], _LOCK_S
        )
        return _bitmap(found)

    async def _unlock(self, keys: list[ObjectKey]) -> None:
        await self._blocks.unpin(await self._names.of_objects(keys))

    async def _delete(self, keys: list[ObjectKey]) -> None:
        await self._blocks.evict(await self._names.of_objects(keys))

    async def _load(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> Bitmap:
        names = await self._names.of_objects(keys)
        blocks = await self._blocks.get_many(names)
        return _bitmap(
            [
                block is not None and unpack_into(block, memory, self._codec)
                for block, memory in zip(blocks, objects, strict=True)
            ]
        )


def _bitmap(bits: list[bool]) -> Bitmap:
    bitmap = Bitmap(len(bits))
    for index, bit in enumerate(bits):
        if bit:
            bitmap.set(index)
    return bitmap


Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Tasks(Generic[Result]):
    """Tasks of one kind: submitted, run on the pool's thread, polled after a descriptor's event.

    Args:
        submit: runs coroutines on the pool's thread.
        numbers: of tasks, of all kinds.
        failed: makes the result of a failed task from its number of objects.
    """

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, Result]], Future[Result]],
        numbers: itertools.count[int],
        failed: Callable[[int], Result],
    ) -> None:
        self._submit = submit
        self._numbers = numbers
        self._failed = failed
        self._lock = threading.Lock()
        self._running: dict[int, Future[Result]] = {}
        self._results: dict[int, Result] = {}
        self._notifier = create_event_notifier()
        self._closed = False

    @property
    def descriptor(self) -> int:
        """Readable when a task has finished."""
        descriptor: int = self._notifier.fileno()
        return descriptor

    def start(self, work: Coroutine[Any, Any, Result], objects: int) -> int:
        """Start a task with that many objects; its number."""
        number = next(self._numbers)
        future = self._submit(work)
        with self._lock:
            self._running[number] = future
        future.add_done_callback(lambda done: self._finish(number, done, objects))
        return number

    def take(self, number: int) -> Result | None:
        """The result of a task, once; ``None`` before it has finished."""
        with self._lock:
            return self._results.pop(number, None)

    def take_all(self) -> dict[int, Result]:
        """All results that were not taken yet, by task."""
        with self._lock:
            results, self._results = self._results, {}
        return results

    def close(self) -> None:
        """Cancel running tasks, and wait until none reads or writes its objects."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for future in running:
            future.cancel()
        # The pool's thread handles the cancellations before this.
        self._submit(self._nothing()).result()
        self._notifier.close()

    async def _nothing(self) -> Result:
        return self._failed(0)

    def _finish(self, number: int, done: Future[Result], objects: int) -> None:
        if done.cancelled():
            result = self._failed(objects)
        elif error := done.exception():
            _log.warning("a task of %d objects failed", objects, exc_info=error)
            result = self._failed(objects)
        else:
            result = done.result()
        with self._lock:
            self._running.pop(number, None)
            if not self._closed:
                self._results[number] = result
                self._notifier.notify()
