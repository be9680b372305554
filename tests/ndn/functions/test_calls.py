"""Calls by name, between programs whose packets do not leave this one."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import numpy as np
import pytest

import innet
from innet.errors import FunctionError, InterestTimeout, TransportError
from innet.ndn import Name, encode_data
from innet.ndn.functions.function import Function
from innet.ndn.functions.messages import CallOutcome
from innet.ndn.functions.server import Results
from tests.ndn.direct_client import DirectClient


@innet.function("/sum")
def total(values: np.ndarray[Any, Any], *, scale: float = 1.0) -> float:
    return float(values.sum()) * scale


@innet.function("/echo")
async def echo(*values: Any) -> Any:
    return list(values)


async def _call(function: Function[..., Any], *args: Any, **kwargs: Any) -> Any:
    client = DirectClient()
    async with innet.serving(function, client=client):
        return await innet.call(function.name, *args, client=client, **kwargs)


async def test_a_function_is_called_with_arrays_and_keywords() -> None:
    assert await _call(total, np.arange(5.0), scale=2.0) == 20.0
    assert total(np.ones(3)) == 3.0  # here it is what it was


async def test_large_arguments_and_results_are_sent_in_segments() -> None:
    values = np.random.default_rng(1).random(20_000)
    (back,) = await _call(echo, values)
    np.testing.assert_array_equal(back, values)


async def test_arguments_and_results_that_are_too_large_are_refused() -> None:
    client = DirectClient()
    async with innet.serving(echo, client=client, most_bytes=20_000):
        assert await innet.call("/echo", bytes(9_000), client=client) == [bytes(9_000)]
        with pytest.raises(FunctionError, match=r"larger than the 20000 bytes .* most_bytes"):
            await innet.call("/echo", bytes(90_000), client=client)
        fetched = len(client.asked)
        with pytest.raises(FunctionError, match="larger than the 20000 bytes"):
            await innet.call("/echo", bytes(9_000_000), client=client)
        assert len(client.asked) < fetched + 100  # and not when all of it has come
        with pytest.raises(TransportError, match="larger than the 8000 bytes"):
            await innet.call("/echo", bytes(9_000), client=client, most_bytes=8_000)
        results = innet.flow([bytes(30_000)], "/echo", client=client)
        with pytest.raises(FunctionError, match="larger than the 20000 bytes"):
            await anext(results)


async def test_unfetched_results_are_bounded() -> None:
    client = DirectClient()
    results = Results(client, most_bytes=100)
    names = [results.publish(Name("/echo"), bytes(40)) for _ in range(3)]

    def kept() -> list[bool]:
        return [client._producers.handler_of(name) is not None for name in names]

    assert kept() == [False, True, True]
    names.append(results.publish(Name("/echo"), bytes(1000)))
    assert kept() == [False, False, False, True]
    results.close()
    assert not any(kept())


@pytest.mark.parametrize("result", ["/elsewhere/result", "/ec%zz"])
async def test_a_function_cannot_redirect_its_callers(result: str) -> None:
    client = DirectClient()
    outcome = CallOutcome(object_name=result).encode()
    client.produce("/echo", lambda interest: encode_data(interest.name, outcome))
    with pytest.raises(FunctionError, match="says that its result is"):
        await innet.call("/echo", client=client)


async def test_an_exception_of_the_function_is_raised_at_the_caller() -> None:
    @innet.function("/broken")
    def broken() -> None:
        raise ValueError("no such frame")

    with pytest.raises(FunctionError, match="/broken: ValueError: no such frame"):
        await _call(broken)


def _exits() -> None:
    sys.exit(3)


async def _exits_in_the_loop() -> None:
    sys.exit("enough")


async def _awaits_a_cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.Event().wait())
    task.cancel()
    await task


def _stops() -> None:
    raise StopIteration("no more")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_exits, "SystemExit: 3"),
        (_exits_in_the_loop, "SystemExit: enough"),
        (_awaits_a_cancelled_task, "CancelledError"),
        (_stops, "StopIteration: no more"),
    ],
)
async def test_a_function_that_exits_ends_only_its_call(body: Any, why: str) -> None:
    ending: Function[..., Any] = Function(Name("/ending"), body)
    client = DirectClient()
    async with innet.serving(ending, echo, client=client):
        with pytest.raises(FunctionError, match=f"/ending: {why}"):
            await innet.call("/ending", client=client)
        assert await innet.call("/echo", 1, client=client) == [1]


async def test_a_result_that_cannot_be_sent_is_an_error_of_the_function() -> None:
    @innet.function("/wrong")
    def wrong() -> object:
        return object()

    with pytest.raises(FunctionError, match="/wrong: an object of type object cannot be sent"):
        await _call(wrong)


async def test_a_function_that_takes_too_long_is_stopped() -> None:
    stopped = asyncio.Event()

    @innet.function("/slow")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(FunctionError, match="not ended within"):
        await _call(slow, timeout_s=0.05)
    await stopped.wait()


async def test_a_timeout_inside_the_function_is_an_error_of_the_function() -> None:
    @innet.function("/asks-elsewhere")
    async def asks_elsewhere() -> None:
        raise TimeoutError("the database is silent")

    with pytest.raises(FunctionError, match="TimeoutError: the database is silent"):
        await _call(asks_elsewhere)


async def test_a_synchronous_function_does_not_block_the_loop() -> None:
    threads = []

    @innet.function("/blocking")
    def blocking() -> None:
        threads.append(threading.get_ident())

    await _call(blocking)
    assert threads != [threading.get_ident()]


async def test_lost_packets_are_requested_again_and_the_function_runs_once() -> None:
    runs = []

    @innet.function("/once")
    async def once(values: Any) -> int:
        runs.append(1)
        return len(values)

    lost: set[Name] = set()

    def loses(name: Name) -> bool:
        first_time = name not in lost
        lost.add(name)
        return first_time

    client = DirectClient(loses)
    async with innet.serving(once, client=client):
        assert await innet.call("/once", b"x" * 20_000, client=client) == 20_000
    assert runs == [1]
    assert len(lost) >= 4  # the call and three segments


async def test_a_call_without_a_server_is_an_error() -> None:
    with pytest.raises(InterestTimeout):
        await innet.call("/nothing", client=DirectClient(), timeout_s=0.05)


async def test_the_caller_answers_requests_only_during_the_call() -> None:
    client = DirectClient()
    async with innet.serving(echo, client=client):
        await innet.call("/echo", 1, client=client)
        back = next(name for name in client.asked if name[0][0] == 59)
        assert client._producers.handler_of(back) is None


def test_a_function_needs_a_name() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        innet.function("/")
