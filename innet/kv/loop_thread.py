"""An event loop on its own thread, for work in parallel to a program that computes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from innet.errors import KVError
from innet.kv.pool.waiting import wait_to_end

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines from any thread."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's, and stands in error messages."""
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start ``coroutine``; cancelling the future cancels it.

        Raises:
            KVError: the loop is closed, or this is a forked child, which has no such thread.
        """
        with self._closing:
            why = self._why_not()
            if not why:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise KVError(why)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``coroutine``; the calling thread waits for it.

        If the wait is interrupted, by Ctrl-C for example, the coroutine is cancelled and has ended
        when this returns, as with :meth:`call`.

        Raises:
            KVError: as of :meth:`submit`, or the caller is the loop's own thread.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise KVError(f"{self._name} cannot wait for itself: await the coroutine instead")
        work, future = self._begin(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise KVError(self._why_not() or f"{self._name} cancelled this") from error
        except BaseException:
            self._cancel(work)
            concurrent.futures.wait([future])
            raise

    async def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``coroutine``, awaited in the caller's event loop.

        If the caller is cancelled, the coroutine is cancelled, too, and has ended when this raises:
        it no longer reads or writes the caller's memory.

        Raises:
            KVError: as of :meth:`submit`.
        """
        work, future = self._begin(coroutine)
        ended = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise KVError(self._why_not()) from error  # the loop ended, not the caller
            self._cancel(work)
            with suppress(asyncio.CancelledError):
                await wait_to_end(ended)
            if not ended.cancelled():
                ended.exception()  # nobody retrieves it
            raise

    def close(self) -> None:
        """Cancel all coroutines and end the thread. Safe to call twice."""
        with self._closing:
            if self._closed or os.getpid() != self._process:
                return
            self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _begin(
        self, coroutine: Coroutine[Any, Any, Result]
    ) -> tuple[_Cancellable[Result], concurrent.futures.Future[Result]]:
        """Start ``coroutine`` so that its end can be awaited after it is cancelled."""
        work = _Cancellable(coroutine)
        try:
            return work, self.submit(work.run())
        except KVError:
            coroutine.close()
            raise

    def _cancel(self, work: _Cancellable[Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the work
            self._loop.call_soon_threadsafe(work.cancel)

    def _why_not(self) -> str:
        if os.getpid() != self._process:
            return (
                f"{self._name} belongs to the process that this one was forked from. Use the pool "
                "in that process only"
            )
        return f"{self._name} is closed; open another" if self._closed else ""

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


class _Cancellable(Generic[Result]):
    """A coroutine that can be cancelled, in its own loop, before and after it has begun."""

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def run(self) -> Result:
        self._task = asyncio.current_task()
        if self._cancelled:
            self._coroutine.close()
            raise asyncio.CancelledError
        return await self._coroutine

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
