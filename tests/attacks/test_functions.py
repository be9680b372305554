"""What callers of functions may do without harm to other callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

import innet
from innet.errors import FunctionError, SecurityError
from innet.names import with_segment, with_version
from innet.ndn import NackReason, Name, Refusal, encode_interest
from innet.ndn.client import InterestReply
from innet.ndn.functions.admission import InputLimits
from innet.ndn.functions.messages import (
    CallArguments,
    CallOutcome,
    new_reflexive_name,
    trigger_name,
)
from innet.ndn.functions.server import FunctionServer
from innet.ndn.functions.transfer import publication_of
from innet.ndn.wire import parse_data, parse_interest
from innet.security.validation import IntegrityValidator, ReceivedData
from tests.ndn.direct_client import DirectClient

FOREVER_S = 1e6


@innet.function("/echo")
async def echo(*values: Any) -> Any:
    return list(values)


@innet.function("/other")
async def other() -> str:
    return "served"


class Callers(DirectClient):
    """Callers that answer for so many segments of their arguments, and are silent then."""

    def __init__(self) -> None:
        super().__init__()
        self.silent: set[Name] = set()
        self.asked_silent = asyncio.Event()

    async def exchange(self, packet: bytes) -> InterestReply:
        name = parse_interest(packet).name
        if name in self.silent:
            self.asked_silent.set()
            await asyncio.Event().wait()
        return await super().exchange(packet)

    def add(self, content: bytes | None = None, segments: int = 0) -> Name:
        """A caller that answers for the first ``segments`` of ``content`` alone."""
        back = new_reflexive_name()
        if content is not None:
            self.produce(back, publication_of(self, back, content).answer)
        unanswered = range(segments, 9)
        self.silent |= {with_segment(with_version(back, 1), number) for number in unanswered}
        return back


class OnlyArguments:
    """Lets those call whose packets are not too small; a policy would look at their keys."""

    async def check(self, name: str, data: ReceivedData) -> None:
        """As :meth:`Validator.check`."""
        if b"forged" in data.content:
            raise SecurityError(f"{name} is forged")
        await IntegrityValidator().check(name, data)


def calls_of(
    server: FunctionServer, backs: Iterable[Name], function: Name = echo.name
) -> list[asyncio.Task[Any]]:
    """What the server says to each of these callers."""
    loop = asyncio.get_running_loop()
    triggers = (encode_interest(str(trigger_name(function, back))) for back in backs)
    return [loop.create_task(answer(server, trigger)) for trigger in triggers]


async def answer(server: FunctionServer, trigger: bytes) -> Any:
    said = await server._answer(parse_interest(trigger))
    return CallOutcome.decode(parse_data(said).content) if isinstance(said, bytes) else said


async def settle() -> None:
    """Let everybody who can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_silent_callers_give_way_to_one_that_answers() -> None:
    client = Callers()
    limits = InputLimits(unvalidated=8, validation_s=FOREVER_S, undisturbed_s=0.0)
    async with innet.serving(echo, client=client, limits=limits) as server:
        silent = calls_of(server, [client.add() for _ in range(20)])
        await settle()
        assert server._admission.unvalidated == 4
        assert sum(call.done() for call in silent) == 16
        assert await innet.call("/echo", 1, client=client) == [1]
        await settle()
        displaced = [call.result() for call in silent if call.done()]
        assert displaced == [Refusal(NackReason.CONGESTION)] * 17  # they may ask again


async def test_calls_of_one_function_leave_room_for_another() -> None:
    client = Callers()
    limits = InputLimits(unvalidated=8, validation_s=FOREVER_S, undisturbed_s=FOREVER_S)
    async with innet.serving(echo, other, client=client, limits=limits) as server:
        calls_of(server, [client.add() for _ in range(20)])
        await settle()
        assert server._admission.unvalidated == 4
        assert await innet.call("/other", client=client) == "served"


async def test_unvalidated_callers_take_no_place_of_validated_ones() -> None:
    client = Callers()
    limits = InputLimits(unvalidated=2, validation_s=FOREVER_S, undisturbed_s=0.0)
    serving = innet.serving(
        echo, client=client, most_calls=1, limits=limits, validator=OnlyArguments()
    )
    async with serving as server:
        (silent,) = calls_of(server, [client.add()])
        await settle()
        assert await innet.call("/echo", 1, client=client) == [1]
        with pytest.raises(FunctionError, match="is forged"):
            await innet.call("/echo", b"forged", client=client)
        assert await innet.call("/echo", 2, client=client) == [2]
        silent.cancel()


@pytest.mark.parametrize(
    ("segments", "limits", "why"),
    [
        (0, InputLimits(validation_s=0.05), "no accepted input arrived within 0.05 s"),
        (2, InputLimits(input_s=0.05), "the input did not arrive within 0.05 s"),
    ],
)
async def test_a_silent_caller_frees_its_place_after_a_timeout(
    segments: int, limits: InputLimits, why: str
) -> None:
    client = Callers()
    content = CallArguments([bytes(50_000)], {}, 5.0).encode()
    async with innet.serving(echo, client=client, most_calls=1, limits=limits) as server:
        (call,) = calls_of(server, [client.add(content, segments)])
        await client.asked_silent.wait()
        assert why in (await call).error
        assert server._admission.unvalidated == 0
        assert await innet.call("/echo", 1, client=client) == [1]


async def test_a_displaced_caller_is_served_when_it_retries() -> None:
    client = Callers()
    limits = InputLimits(unvalidated=2, validation_s=FOREVER_S, undisturbed_s=0.0)
    async with innet.serving(echo, client=client, limits=limits) as server:
        back = client.add(CallArguments([7], {}, 5.0).encode())
        first, _ = calls_of(server, [back, client.add()])
        assert await first == Refusal(NackReason.CONGESTION)
        client.silent.clear()
        (again,) = calls_of(server, [back])
        assert (await again).value == [7]
