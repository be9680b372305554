"""Items that flow through chains of functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import innet
from innet.errors import FunctionError, InterestRefused
from innet.ndn import NackReason, Name, Refusal, encode_interest
from innet.ndn.functions import stage as stage_module
from innet.ndn.functions.call import outcome_of
from innet.ndn.functions.messages import CallArguments, CallOutcome, FlowPart
from innet.ndn.functions.stage import FlowStage
from innet.ndn.wire import parse_interest
from tests.ndn.direct_client import DirectClient


@innet.function("/double")
def double(value: Any) -> Any:
    return value * 2


@innet.function("/add-one")
async def add_one(value: Any) -> Any:
    return value + 1


async def _flow(items: Any, *functions: str, **options: Any) -> list[Any]:
    client = DirectClient()
    async with innet.serving(double, add_one, client=client):
        return [value async for value in innet.flow(items, *functions, client=client, **options)]


async def test_items_pass_through_every_function_in_order() -> None:
    assert await _flow(range(20), "/double", "/add-one") == [2 * i + 1 for i in range(20)]


async def test_a_function_can_be_in_a_flow_twice() -> None:
    assert await _flow([1, 2], "/double", "/double") == [4, 8]


class RoutelessClient(DirectClient):
    """Refuses what nobody serves, as a forwarder without a route does."""

    async def exchange(self, packet: bytes) -> Any:
        interest = parse_interest(packet)
        if self._producers.handler_of(interest.name) is None:
            raise InterestRefused(f"{interest.name}: no route", NackReason.NO_ROUTE)
        return await super().exchange(packet)


@pytest.mark.parametrize(
    "functions", [("/nobody",), ("/nobody", "/double"), ("/double", "/nobody")]
)
async def test_a_function_that_nobody_serves_is_named(functions: tuple[str, ...]) -> None:
    client = RoutelessClient()
    async with innet.serving(double, client=client):
        with pytest.raises(InterestRefused, match=r"no program serves /nobody: .*innet\.serving"):
            async for _ in innet.flow([1], *functions, client=client, timeout_s=20):
                pass


@innet.function("/double/add-one")
async def add_one_below(value: Any) -> Any:
    return value + 1


async def test_function_names_can_begin_with_another_functions_name() -> None:
    for functions in ((double, add_one_below), (add_one_below, double)):
        client = DirectClient()
        async with innet.serving(*functions, client=client):
            for chain in (("/double", "/double/add-one"), ("/double/add-one", "/double")):
                values = [value async for value in innet.flow([1], *chain, client=client)]
                assert values == [3 if chain[0] == "/double" else 4]


async def test_a_function_below_the_name_of_another_can_be_served_elsewhere() -> None:
    client = DirectClient()
    async with (
        innet.serving(double, client=client),
        innet.serving(add_one_below, client=client),
    ):
        results = innet.flow([1, 2], "/double/add-one", "/double", client=client)
        assert [value async for value in results] == [4, 6]


async def test_names_without_an_item_number_are_refused() -> None:
    client = DirectClient()
    async with innet.serving(double, client=client) as server:
        async with asyncio.timeout(20):
            results = innet.flow([1, 2], "/double", client=client)
            await anext(results)
            (output,) = server._stages
            for name in ("/double", "/double/flow", "/double/elsewhere", str(output)):
                interest = parse_interest(encode_interest(name))
                assert await server._answer(interest) == Refusal(NackReason.NO_DATA)
            await results.aclose()


async def test_large_items_and_a_window_of_one() -> None:
    items = [np.full(5000, float(i)) for i in range(3)]
    results = await _flow(items, "/add-one", window=1)
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(5000, i + 1.0))


async def test_the_last_items_can_take_longer_than_the_linger_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_module, "_LINGER_S", 0.01)

    @innet.function("/slow")
    async def slow(value: int) -> int:
        await asyncio.sleep(0.1)
        return value

    client = DirectClient()
    async with innet.serving(double, slow, client=client):
        results = innet.flow([1, 2, 3], "/double", "/slow", client=client)
        assert [value async for value in results] == [2, 4, 6]


async def test_an_empty_flow_gives_nothing() -> None:
    assert await _flow([], "/double") == []


async def test_a_slow_consumer_limits_the_items_in_flight() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for i in range(1000):
            taken += 1
            yield i

    client = DirectClient()
    async with innet.serving(double, add_one, client=client):
        results = innet.flow(items(), "/double", "/add-one", client=client, window=4)
        used = 0
        async for _ in results:
            used += 1
            await asyncio.sleep(0)  # whoever has something to do does it
            assert taken <= used + 4
            if used == 20:
                break
        await results.aclose()


async def test_an_exception_of_a_function_ends_the_flow_at_its_item() -> None:
    @innet.function("/picky")
    def picky(value: int) -> int:
        if value == 3:
            raise ValueError("not three")
        return value

    client = DirectClient()
    async with innet.serving(picky, add_one, client=client):
        results = innet.flow(range(9), "/picky", "/add-one", client=client)
        assert [await anext(results) for _ in range(3)] == [1, 2, 3]
        with pytest.raises(FunctionError, match="/picky: ValueError: not three"):
            await anext(results)


async def test_an_exception_of_the_items_ends_the_flow() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise OSError("the camera is gone")

    with pytest.raises(FunctionError, match="OSError: the camera is gone"):
        await _flow(items(), "/double")


async def test_a_stage_ends_with_its_consumer() -> None:
    client = DirectClient()
    async with innet.serving(double, client=client) as server:
        results = innet.flow(range(100), "/double", client=client)
        async for _ in results:
            assert len(server._stages) == 1
            break
        stage = next(iter(server._stages.values()))
        stage.end()
        await results.aclose()


async def test_a_flow_through_names_of_another_function_is_refused() -> None:
    client = DirectClient()
    async with innet.serving(double, client=client):
        part = FlowPart(Name("/x"), Name("/victim/flow/1"), 4, 1.0)
        outcome = await outcome_of(
            client, double.name, CallArguments([], {}, 1.0, part), client.validator
        )
        assert "not an output of /double" in outcome.error


async def test_a_stage_limits_concurrent_and_kept_results() -> None:
    under_way: set[int] = set()
    most_under_way = 0
    full, gate = asyncio.Event(), asyncio.Event()

    @innet.function("/same")
    async def same(value: Any) -> Any:
        return value

    async def take(number: int) -> bytes:
        nonlocal most_under_way
        under_way.add(number)
        most_under_way = max(most_under_way, len(under_way))
        if len(under_way) == 16:
            full.set()
        await gate.wait()
        under_way.remove(number)
        return CallOutcome(bytes(1000)).encode()

    part = FlowPart(Name("/x"), Name("/same/flow/1"), 8, 5.0)
    stage = FlowStage(DirectClient(), same, part, take, most_bytes=10_000)

    async def ask(segment: int) -> Any:
        name = f"/same/flow/1/seq=0/v=1/seg={segment}"
        return await stage.answer(parse_interest(encode_interest(name)))

    segments = [asyncio.ensure_future(ask(segment)) for segment in range(4 * part.window)]
    items = [asyncio.ensure_future(stage.content(number)) for number in range(30)]
    await full.wait()
    assert await ask(99) == Refusal(NackReason.CONGESTION)
    gate.set()
    sizes = [len(content) for content in await asyncio.gather(*items)]
    assert most_under_way == 16
    assert sum(sizes) > 3 * 10_000 > 3 * sum(stage._made.sizes.values()) > 0
    assert len(stage._items) < 10
    assert await stage.content(29)
    with pytest.raises(FunctionError, match="not there any more"):
        await stage.content(0)
    await asyncio.gather(*segments)


async def test_a_flow_needs_a_function_and_a_window() -> None:
    for functions, window in (
        ((), 8),
        (("/double",), 0),
        (("/double",), 1025),
        (("/double",), "8"),
    ):
        with pytest.raises(ValueError, match="needs a function"):
            await _flow([1], *functions, window=window)
