"""Operations of a node, as futures of a pool's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from innet.worker.collector import BatchedDelivery, Callback

Result = TypeVar("Result")


class _BatchedFuture(asyncio.Future[Result]):
    """The result of an operation whose completion is batched with others until it is awaited."""

    def __init__(self, flush: Callable[[], None]) -> None:
        """``flush``: delivers the completion like all others from now on."""
        super().__init__()
        self._flush = flush

    def add_done_callback(
        self, callback: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Awaiting a future adds a callback."""
        if not self.done():
            self._flush()
        super().add_done_callback(callback, context=context)


class _Fetch(asyncio.Future[Result]):
    """The result of an operation that the node gives up when this is cancelled."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        super().__init__()
        self._give_up = give_up

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self._give_up()
        return super().cancel(msg)


class NodeOperations:
    """The operations of a node that one pool has in progress."""

    def __init__(self, delivery: BatchedDelivery) -> None:
        """``delivery``: delivers completions in the event loop of the pool."""
        self._delivery = delivery
        self._under_way: set[int] = set()
        self._all_ended = asyncio.Event()

    async def stop(self) -> None:
        """Cancel all operations, and wait until they have ended: later than their futures."""
        for operation in self._under_way:
            self._delivery.flush(operation)
            self._delivery.cancel(operation)
        if self._under_way:
            self._all_ended.clear()
            await self._all_ended.wait()

    def published(
        self, operation: int, convert: Callable[[int, str], Result], *, batched: bool = False
    ) -> asyncio.Future[Result]:
        """The result of a publication, which goes on when it is cancelled.

        Args:
            operation: of the node.
            convert: raises or returns the result, from the operation's status and detail.
            batched: the completion is delivered with others' until the result is awaited.
        """
        if not batched:
            return self._deliver(operation, convert, asyncio.Future(), self._delivery.deliver)
        future = _BatchedFuture[Result](partial(self._delivery.flush, operation))
        return self._deliver(operation, convert, future, self._delivery.deliver_batched)

    def fetched(
        self, operation: int, convert: Callable[[int, str], Result]
    ) -> asyncio.Future[Result]:
        """The result of a fetch, which ends when it is cancelled; else as :meth:`published`."""
        future = _Fetch[Result](partial(self._delivery.cancel, operation))
        return self._deliver(operation, convert, future, self._delivery.deliver)

    def _deliver(
        self,
        operation: int,
        convert: Callable[[int, str], Result],
        future: asyncio.Future[Result],
        deliver: Callable[[int, Callback], None],
    ) -> asyncio.Future[Result]:
        """``future`` with the converted result of the operation, or the error of ``convert``."""

        def end(status: int, detail: str) -> None:
            self._on_end(operation)
            if future.done():  # cancelled
                return
            try:
                future.set_result(convert(status, detail))
            except Exception as error:  # else the result would be awaited for ever
                future.set_exception(error)

        self._under_way.add(operation)
        deliver(operation, end)
        return future

    def _on_end(self, operation: int) -> None:
        self._under_way.remove(operation)
        if not self._under_way:
            self._all_ended.set()
