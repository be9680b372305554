"""Where a flow begins: items, taken from an iterable as they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

from innet.errors import FunctionError
from innet.names import Name, number_at
from innet.ndn.client import Client
from innet.ndn.functions.messages import Outcome
from innet.ndn.functions.stage import item_name
from innet.ndn.functions.transfer import publication_of
from innet.ndn.objects.publication import Publication
from innet.ndn.production import Answer, Refusal
from innet.ndn.wire import ReceivedInterest
from innet.tlv_numbers import ComponentType, NackReason


class ItemSource:
    """Answers for ``<prefix>/seq=<n>``.

    Args:
        kept: items that are kept for those who ask again.
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
        self._end: Outcome | None = None
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
            content = Outcome(error=str(error)).encode()
        name = item_name(self.prefix, self._next)
        self._taken[self._next] = publication_of(self._client, name, content)
        self._taken.pop(self._next - self._kept, None)
        self._next += 1

    async def _next_outcome(self) -> Outcome:
        try:
            return Outcome(await anext(self._items))
        except StopAsyncIteration:
            self._end = Outcome(last=True)
        except Exception as error:
            self._end = Outcome(error=f"the flow's items: {type(error).__name__}: {error}")
        return self._end


async def _one_by_one(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item
