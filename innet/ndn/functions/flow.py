"""Data that flows through a chain of functions, each wherever it is served.

The consumer pulls: it asks the last function for items in a window, that asks the one before it,
and so on to the source. A slow function receives fewer requests; no queue grows.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Any

from innet.errors import FunctionError, InterestRefused, TransportError
from innet.names import Name, as_name, number_at, with_component
from innet.ndn import wire
from innet.ndn.client import Client
from innet.ndn.functions.call import DEFAULT_TIMEOUT_S, outcome_of
from innet.ndn.functions.messages import (
    MAX_TIMEOUT_S,
    MAX_WINDOW,
    CallArguments,
    CallOutcome,
    FlowPart,
    new_reflexive_name,
)
from innet.ndn.functions.stage import END, FLOW, item_name
from innet.ndn.functions.transfer import (
    DEFAULT_MOST_BYTES,
    NO_ROUTE_PATIENCE_S,
    fetch_content,
    publication_of,
)
from innet.ndn.objects.publication import Publication
from innet.ndn.production import Answer, Refusal
from innet.ndn.wire import ReceivedInterest
from innet.security.validation import Validator
from innet.tlv_numbers import ComponentType, NackReason


class ItemSource:
    """Answers for ``<prefix>/seq=<n>``.

    Args:
        kept: items kept for repeated requests.
    """

    def __init__(
        self, client: Client, items: Iterable[Any] | AsyncIterable[Any], prefix: Name, kept: int
    ) -> None:
        self.prefix = prefix
        self._client = client
        self._items = aiter(items) if isinstance(items, AsyncIterable) else _one_by_one(items)
        self._kept = kept
        self._taken: dict[int, Publication] = {}
        self._next = 0
        self._end: CallOutcome | None = None
        self._taking = asyncio.Lock()

    async def answer(self, interest: ReceivedInterest) -> Answer:
        """A segment of an item; all before it have been taken from the iterable by then."""
        number = number_at(interest.name, len(self.prefix), ComponentType.SEQUENCE_NUM)
        if number is None or not self._next - self._kept <= number < self._next + self._kept:
            return Refusal(NackReason.NO_DATA)
        async with self._taking:
            while self._next <= number:
                await self._take()
        publication = self._taken.get(number)
        if publication is None:
            return Refusal(NackReason.NO_DATA)
        return await publication.answer(interest)

    async def _take(self) -> None:
        outcome = self._end or await self._next_outcome()
        try:
            content = outcome.encode()
        except FunctionError as error:
            content = CallOutcome(error=str(error)).encode()
        name = item_name(self.prefix, self._next)
        self._taken[self._next] = publication_of(self._client, name, content)
        self._taken.pop(self._next - self._kept, None)
        self._next += 1

    async def _next_outcome(self) -> CallOutcome:
        try:
            return CallOutcome(await anext(self._items))
        except StopAsyncIteration:
            self._end = CallOutcome(last=True)
        except Exception as error:
            self._end = CallOutcome(error=f"the flow's items: {type(error).__name__}: {error}")
        return self._end


async def _one_by_one(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


_ITEMS = b"items"
_OPENING_S = 2 * NO_ROUTE_PATIENCE_S
"""Time within which every stage is found, or known to be unserved."""


async def flow(
    items: Iterable[Any] | AsyncIterable[Any],
    *functions: Name | str,
    client: Client | None = None,
    window: int = 8,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    validator: Validator | None = None,
    most_bytes: int = DEFAULT_MOST_BYTES,
) -> AsyncGenerator[Any, None]:
    """The results of the last function, one for each item, in order.

    Items go from function to function without passing here: the first fetches them from here,
    back along the way of its Interest, and each other from the one before it.

    Args:
        items: each the one argument of the first function; taken as they are requested.
        functions: names, the first one first.
        client: by default one of its own.
        window: items on their way at once, at most.
        timeout_s: how long one item may take at each function.
        validator: of the last function's items; the client's by default.
        most_bytes: of each of them; a larger one ends the flow.

    Raises:
        FunctionError: a function, or ``items``, has raised an exception; the message has its text.
        InterestRefused: no program serves one of the functions.
        ObjectIncomplete: an item did not arrive in time.
        TransportError: an item is too large.
        ValueError: no function, or a window that is not between 1 and 1024.

    Example::

        async for face in innet.flow(frames, "/resize", "/detect"):
            show(face)
    """
    if not functions or window not in range(1, MAX_WINDOW + 1):
        raise ValueError(f"a flow needs a function and a whole window of 1 to {MAX_WINDOW} items")
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(Client())
        opened = _Flow(client, [as_name(name) for name in functions], window, timeout_s, most_bytes)
        source = ItemSource(client, items, with_component(opened.reflexive, _ITEMS), 4 * window)
        stack.push_async_callback(opened.close)
        stack.callback(client.stop_producing, source.prefix)
        client.produce(source.prefix, source.answer)
        opened.start(source.prefix, validator or client.validator)
        async for value in opened.values(validator or client.validator):
            yield value


class _Flow:
    """The stages of one flow, opened from here, and the window of the consumer."""

    def __init__(
        self,
        client: Client,
        functions: list[Name],
        window: int,
        timeout_s: float,
        most_bytes: int,
    ) -> None:
        self._client = client
        self._functions = functions
        self._window = window
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._outputs = [
            with_component(with_component(name, FLOW), secrets.token_hex(16).encode())
            for name in functions
        ]
        self.reflexive = new_reflexive_name()
        self._stages: list[asyncio.Task[None]] = []
        self._started_s = asyncio.get_running_loop().time()
        self._asked: deque[asyncio.Task[CallOutcome]] = deque()

    def start(self, source: Name, validator: Validator) -> None:
        """Open every stage; each stays open until the flow ends."""
        inputs = [source, *self._outputs]
        for number, function in enumerate(self._functions):
            part = FlowPart(inputs[number], self._outputs[number], self._window, self._timeout_s)
            reflexive = self.reflexive if number == 0 else new_reflexive_name()
            self._stages.append(
                asyncio.get_running_loop().create_task(
                    self._keep_open(function, part, reflexive, validator)
                )
            )

    async def _keep_open(
        self, function: Name, part: FlowPart, reflexive: Name, validator: Validator
    ) -> None:
        arguments = CallArguments([], {}, MAX_TIMEOUT_S, part)
        outcome = await outcome_of(self._client, function, arguments, validator, reflexive)
        if outcome.error:
            raise FunctionError(outcome.error)

    async def values(self, validator: Validator) -> AsyncIterator[Any]:
        """Results in order, requested in a window."""
        next_number = 0
        while True:
            while len(self._asked) < self._window:
                self._asked.append(
                    asyncio.get_running_loop().create_task(self._item(next_number, validator))
                )
                next_number += 1
            try:
                outcome = await self._first_asked()
                if outcome.error:
                    raise FunctionError(outcome.error)
            except (FunctionError, TransportError) as error:
                raise await self._cause_of(error) from error
            if outcome.last:
                return
            yield outcome.value

    async def _cause_of(self, error: FunctionError | TransportError) -> Exception:
        """``error``, or that a function is not served: then the others miss its items."""
        opening_s = self._started_s + _OPENING_S - asyncio.get_running_loop().time()
        if opening_s > 0:
            await asyncio.wait(self._stages, timeout=opening_s, return_when=asyncio.FIRST_EXCEPTION)
        for function, stage in zip(self._functions, self._stages, strict=True):
            refused = stage.exception() if stage.done() and not stage.cancelled() else None
            if isinstance(refused, InterestRefused) and refused.reason == NackReason.NO_ROUTE:
                return InterestRefused(
                    f"no program serves {function}: start one (innet.serving), or check "
                    f"the name. {refused}",
                    refused.reason,
                )
        return error

    async def _first_asked(self) -> CallOutcome:
        """The next item; or what a stage has failed with, if that ends the flow before it."""
        first = self._asked.popleft()
        while not first.done():
            # The end of one stage does not show how the stages behind it end.
            running = [stage for stage in self._stages if not _has_ended_well(stage)]
            await asyncio.wait([first, *running], return_when=asyncio.FIRST_COMPLETED)
            for stage in running:
                if stage.done() and not first.done() and not _has_ended_well(stage):
                    first.cancel()
                    stage.result()
        return await first

    async def _item(self, number: int, validator: Validator) -> CallOutcome:
        content = await fetch_content(
            self._client,
            item_name(self._outputs[-1], number),
            validator=validator,
            patience_s=self._timeout_s * len(self._functions),
            most_bytes=self._most_bytes,
        )
        return CallOutcome.decode(content)

    async def close(self) -> None:
        """Stop every stage."""
        for output in self._outputs:
            self._client.send(wire.encode_interest(with_component(output, END), lifetime_s=1.0))
        tasks = [*self._asked, *self._stages]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _has_ended_well(stage: asyncio.Task[None]) -> bool:
    return stage.done() and not stage.cancelled() and stage.exception() is None
