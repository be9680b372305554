"""Operations of a node, as futures: whoever awaits one gets a result or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from innet.kv.node_operations import NodeOperations


class Deliveries:
    """A collector whose operations end when the test says so."""

    def __init__(self) -> None:
        self.callbacks: dict[int, Callable[[int, str], None]] = {}
        self.cancelled: list[int] = []
        self.flushed: list[int] = []

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        self.callbacks[operation] = callback

    deliver_batched = deliver

    def flush(self, operation: int) -> None:
        self.flushed.append(operation)

    def cancel(self, operation: int) -> None:
        self.cancelled.append(operation)


def refuse(*_: object) -> None:
    raise ValueError("not a block")


async def test_a_result_that_cannot_be_converted_is_an_error() -> None:
    deliveries = Deliveries()
    operations = NodeOperations(deliveries)
    result = operations.published(1, refuse)
    deliveries.callbacks[1](0, "")
    with pytest.raises(ValueError, match="not a block"):
        await asyncio.wait_for(result, 5)


async def test_the_node_gives_up_cancelled_fetches_alone() -> None:
    deliveries = Deliveries()
    operations = NodeOperations(deliveries)
    operations.published(1, refuse).cancel()
    operations.fetched(2, refuse).cancel()
    assert deliveries.cancelled == [2]
    for end in deliveries.callbacks.values():
        end(1, "cancelled")
    await asyncio.wait_for(operations.stop(), 5)


async def test_stopping_waits_for_cancelled_operations_without_a_turn_of_the_loop() -> None:
    # Simulated time passes only while all programs wait.
    deliveries = Deliveries()
    operations = NodeOperations(deliveries)
    operations.published(1, refuse).cancel()
    stopping = operations.stop().__await__()
    waited_for = next(stopping)
    assert waited_for is not None
    assert not waited_for.done()
    deliveries.callbacks[1](1, "cancelled")
    with pytest.raises(StopIteration):
        next(stopping)
