"""A function as one stage of a flow, which computes items on request.

The stage fetches the input of an item and computes it when the consumer requests the item. So
nothing is computed, fetched or kept beyond the window of the last consumer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from innet.errors import FunctionError, SecurityError, TransportError
from innet.names import Name, number_at, with_component
from innet.ndn.client import Client
from innet.ndn.functions.admission import CallRefused
from innet.ndn.functions.function import Function
from innet.ndn.functions.messages import CallOutcome, FlowPart
from innet.ndn.functions.transfer import KeptBytes, Repetitions, publication_of
from innet.ndn.objects.publication import Publication
from innet.ndn.production import Answer, Refusal
from innet.ndn.wire import ReceivedInterest
from innet.tlv_numbers import ComponentType, NackReason

_log = logging.getLogger(__name__)

FLOW = b"flow"
END = b"end"
_MADE_AT_ONCE = 16
"""Items computed at once; each has its input in memory."""
_IDLE_S = 30.0
"""Time without a request after which a stage has lost its consumer."""
_LINGER_S = 2.0
"""Time for which the last item stays available: its answer may have been lost."""


class _Item(NamedTuple):
    content: bytes
    publication: Publication


class FlowStage:
    """Serves the items ``<output>/seq=<n>``, each computed from the same item of its input.

    Args:
        take: fetches the content of an input's item.
        most_bytes: maximum size of all kept items; the latest is always kept.

    Raises:
        FunctionError: the arguments do not fit the function.
    """

    def __init__(
        self,
        client: Client,
        function: Function[..., Any],
        part: FlowPart,
        take: Callable[[int], Awaitable[bytes]],
        most_bytes: int,
    ) -> None:
        self.output = part.output_prefix
        if output_below(function.name, self.output) != self.output:
            raise FunctionError(f"{self.output} is not an output of {function.name}")
        self._client = client
        self._function = function
        self._take = take
        self._kept = 4 * part.window
        self._timeout_s = part.item_timeout_s
        self._items: dict[int, asyncio.Task[_Item]] = {}
        self._made = KeptBytes[int](most_bytes)
        self._dropped: set[int] = set()
        self._making = asyncio.Semaphore(_MADE_AT_ONCE)
        self._answers = Repetitions(kept=self._kept)
        self._ended = asyncio.Event()
        self._asked_at_s = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Serve until the last item was sent, the consumer ends the flow, or no request arrives
        for a long time.
        """
        clock = asyncio.get_running_loop().time
        try:
            while not self._ended.is_set() and (left_s := self._asked_at_s + _IDLE_S - clock()) > 0:
                try:
                    await asyncio.wait_for(self._ended.wait(), left_s)
                except TimeoutError:
                    continue
        finally:
            self._answers.close()
            for item in self._items.values():
                item.cancel()

    def keep(self) -> None:
        """Record that a consumer still uses this stage."""
        self._asked_at_s = asyncio.get_running_loop().time()

    def end(self) -> None:
        """Serve no more items."""
        self._ended.set()

    async def answer(self, interest: ReceivedInterest) -> Answer:
        """The answer to a request for a segment, once the item is computed."""
        self.keep()
        if with_component(self.output, END).is_prefix_of(interest.name):
            self.end()
            return None
        number = number_at(interest.name, len(self.output), ComponentType.SEQUENCE_NUM)
        if number is None or not self._may_ask_for(number):
            return Refusal(NackReason.NO_DATA)
        if self._is_awaited_by_many(number) and interest.name not in self._answers:
            return Refusal(NackReason.CONGESTION)

        async def segment() -> bytes:
            item = await asyncio.shield(self._item(number))
            packet = await item.publication.answer(interest)
            return packet if isinstance(packet, bytes) else b""

        return await self._answers.answer(interest.name, segment) or None

    async def content(self, number: int) -> bytes:
        """An item, for a stage in the same program.

        Raises:
            FunctionError: it is too far from the items requested before.
        """
        self.keep()
        if not self._may_ask_for(number):
            raise FunctionError(f"item {number} is not there any more")
        return (await asyncio.shield(self._item(number))).content

    def _may_ask_for(self, number: int) -> bool:
        if number in self._dropped:
            return False
        newest = max(self._items, default=number)
        return newest - self._kept < number <= newest + self._kept

    def _is_awaited_by_many(self, number: int) -> bool:
        """Whether too many requests wait: a consumer has one open until an item arrives."""
        item = self._items.get(number)
        return (item is None or not item.done()) and self._answers.under_way >= self._kept

    def _item(self, number: int) -> asyncio.Task[_Item]:
        if number not in self._items:
            self._items[number] = asyncio.get_running_loop().create_task(self._make(number))
            self._forget_until(number - self._kept)
        return self._items[number]

    def _forget_until(self, number: int) -> None:
        for old in [n for n in self._items if n <= number]:
            self._items.pop(old).cancel()
            self._made.remove(old)
        self._dropped = {n for n in self._dropped if n > number}

    def _keep_item(self, number: int, size_bytes: int) -> None:
        """Drop the oldest that are there while they are too many bytes."""
        self._made.add(number, size_bytes)
        while self._made.too_many:
            oldest = min(self._made.sizes)
            self._made.remove(oldest)
            self._items.pop(oldest, None)
            self._dropped.add(oldest)

    async def _make(self, number: int) -> _Item:
        async with self._making:
            content = await self._content_of(number)
        self._keep_item(number, len(content))
        name = item_name(self.output, number)
        return _Item(content, publication_of(self._client, name, content))

    async def _content_of(self, number: int) -> bytes:
        try:
            outcome = await self._outcome(number)
            content = outcome.encode()
        except (FunctionError, TransportError, SecurityError) as error:
            return CallOutcome(error=f"{self._function.name}: {error}").encode()
        except CallRefused:
            raise
        except Exception as error:
            return failed_outcome(self._function.name, error).encode()
        if outcome.last:
            asyncio.get_running_loop().call_later(_LINGER_S, self._end_when_quiet)
        return content

    def _end_when_quiet(self) -> None:
        """The last item is made: end when all are, and no request repeats."""
        loop = asyncio.get_running_loop()
        quiet_s = loop.time() - self._asked_at_s
        if quiet_s >= _LINGER_S and all(item.done() for item in self._items.values()):
            self.end()
        elif not self._ended.is_set():
            loop.call_later(_LINGER_S, self._end_when_quiet)

    async def _outcome(self, number: int) -> CallOutcome:
        came = CallOutcome.decode(await self._take(number))
        if came.last or came.error:
            return came
        return await self._function.run([came.value], {}, self._timeout_s)


def failed_outcome(function: Name, error: Exception) -> CallOutcome:
    """The outcome where the serving program failed, such as by an exception of its validator."""
    _log.error("a call of %s failed", function, exc_info=error)
    return CallOutcome(error=f"{function}: its server failed: {type(error).__name__}: {error}")


def output_below(function: Name, name: Name) -> Name | None:
    """The output ``<function>/flow/<id>`` that ``name`` is of; ``None`` when it is of none."""
    own = with_component(function, FLOW)
    return name.prefix(len(own) + 1) if own.is_prefix_of(name) and len(name) > len(own) else None


def item_name(prefix: Name, number: int) -> Name:
    """``<prefix>/seq=<number>``."""
    return prefix.append_number(ComponentType.SEQUENCE_NUM, number)
