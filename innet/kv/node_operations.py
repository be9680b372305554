"""Operations of a node, as futures of a pool's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from innet._native import _core
from innet.worker.collector import BatchedDelivery

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


class _Fetches(asyncio.Future[Any]):
    """The results of fetches, which the node gives up when this is cancelled.

    Attributes:
        delivery: delivers their completions; only that of the last operation wakes the loop up.
        results: of the finished fetches; ``None`` for the others.
        left: places of the unfinished fetches, by operation.
        last: the last operation.
    """

    delivery: BatchedDelivery
    results: list[Any]
    left: dict[int, int]
    last: int

    def end(self, operation: int, result: object) -> bool:
        """Record the result of a fetch; return whether all have ended."""
        self.results[self.left.pop(operation)] = result
        if operation == self.last:
            for other in self.left:
                self.delivery.flush(other)
        return not self.left and not self.done()

    def fail(self, operation: int, error: Exception) -> None:
        """The conversion of a fetch has failed: give the others up."""
        self.end(operation, None)
        if not self.done():
            self._cancel_fetches()
            self.set_exception(error)

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self._cancel_fetches()
        return super().cancel(msg)

    def _cancel_fetches(self) -> None:
        for operation in self.left:
            self.delivery.cancel(operation)


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

    def result_of(
        self, operation: int, convert: Callable[[int, str], Result], *, batched: bool = False
    ) -> asyncio.Future[Result]:
        """An operation's status and detail, converted by ``convert``, or the error that it raises.

        Args:
            operation: of the node.
            convert: raises or returns the result.
            batched: the completion is delivered with others' until the result is awaited.
        """
        delivery = self._delivery

        def end(status: int, detail: str) -> None:
            self._on_end(operation)
            if future.done():  # cancelled
                return
            try:
                future.set_result(convert(status, detail))
            except Exception as error:  # whoever awaits the result would wait for ever
                future.set_exception(error)

        future: asyncio.Future[Result] = (
            _BatchedFuture(partial(delivery.flush, operation)) if batched else asyncio.Future()
        )
        self._under_way.add(operation)
        (delivery.deliver_batched if batched else delivery.deliver)(operation, end)
        return future

    def results_of(
        self,
        fetches: Sequence[tuple[int, _core.ObjectBuffer]],
        convert: Callable[[int, int, str, _core.ObjectBuffer], Result],
        *,
        is_single: bool = False,
    ) -> asyncio.Future[Any]:
        """The results of fetches, when all have ended.

        Args:
            fetches: the operations, and their buffers.
            convert: raises or returns the result of the place, status, detail and buffer of a
                fetch; the other fetches are given up when it raises.
            is_single: there is one fetch, whose result alone is wanted.
        """
        future = _Fetches()
        future.delivery = self._delivery
        future.results = [None] * len(fetches)
        future.left = {operation: place for place, (operation, _) in enumerate(fetches)}
        future.last = fetches[-1][0]

        def end(operation: int, buffer: _core.ObjectBuffer, status: int, detail: str) -> None:
            self._on_end(operation)
            try:
                result = convert(future.left[operation], status, detail, buffer)
            except Exception as error:  # whoever awaits the results would wait for ever
                future.fail(operation, error)
                return
            if future.end(operation, result):
                future.set_result(future.results[0] if is_single else future.results)

        self._under_way.update(future.left)
        self._delivery.deliver_all({each[0]: partial(end, *each) for each in fetches})
        return future

    def _on_end(self, operation: int) -> None:
        self._under_way.remove(operation)
        if not self._under_way:
            self._all_ended.set()
