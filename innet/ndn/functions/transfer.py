"""Arguments, items and results as objects of one version; kept content, and repeated requests."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from innet.errors import TransportError
from innet.names import Name, with_version
from innet.ndn.client import Client
from innet.ndn.objects.object_fetch import FetchOptions, ObjectFetch
from innet.ndn.objects.publication import Cut, Publication
from innet.ndn.objects.sink import MemorySink
from innet.ndn.objects.sources import MemorySource
from innet.security.validation import Validator

_VERSION = 1
_SEGMENT_BYTES = 8000
_FRESHNESS_S = 4.0
NO_ROUTE_PATIENCE_S = 1.0
"""Time for the announcement of a new server to reach every node."""
DEFAULT_MOST_BYTES = 64 << 20
"""Limit of a call's arguments, of its result, and of an item of a flow."""


def publication_of(client: Client, name: Name, content: bytes) -> Publication:
    """``content`` in segments below ``<name>/v=1``; the caller lets it answer Interests."""
    cut = Cut(_SEGMENT_BYTES, _FRESHNESS_S)
    return Publication(name, _VERSION, MemorySource(content), cut, client.signer)


async def fetch_content(
    client: Client,
    name: Name,
    *,
    validator: Validator,
    patience_s: float,
    most_bytes: int,
    deadline_s: float | None = None,
) -> bytes:
    """Fetch the bytes that :func:`publication_of` offers elsewhere.

    Args:
        patience_s: how long one segment may go unanswered.
        deadline_s: time within which all of it must arrive; the caller's own limits by default.

    Raises:
        ObjectIncomplete: some of it did not arrive; the message says why.
        SecurityError: the validator refused a segment.
        TransportError: it has more than ``most_bytes``, or the deadline has passed.
    """
    options = FetchOptions(
        validator=validator,
        patience_s=patience_s,
        no_route_patience_s=NO_ROUTE_PATIENCE_S,
        most_bytes=most_bytes,
    )
    fetch = ObjectFetch(client, with_version(name, _VERSION), MemorySink(), options)
    limit = asyncio.timeout(deadline_s)
    try:
        async with limit:
            return (await fetch.run()).content
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TransportError(
            f"{name}: not all of it arrived within {deadline_s:g} s; send less at once"
        ) from error


_Key = TypeVar("_Key", bound=Hashable)


class KeptBytes(Generic[_Key]):
    """Sizes of kept content, oldest first; a single one is never too much.

    Args:
        most_bytes: of them together.

    >>> kept = KeptBytes[str](most_bytes=5)
    >>> kept.add("a", 3)
    >>> kept.add("b", 3)
    >>> kept.too_many, list(kept.sizes)
    (True, ['a', 'b'])
    """

    def __init__(self, most_bytes: int) -> None:
        self.sizes: dict[_Key, int] = {}
        self._most_bytes = most_bytes
        self._total_bytes = 0

    @property
    def too_many(self) -> bool:
        """Whether something has to go."""
        return len(self.sizes) > 1 and self._total_bytes > self._most_bytes

    def add(self, key: _Key, size_bytes: int) -> None:
        """``key`` is kept from now on; it was not before."""
        self.sizes[key] = size_bytes
        self._total_bytes += size_bytes

    def remove(self, key: _Key) -> bool:
        """``key`` is not kept any more; whether it was."""
        size_bytes = self.sizes.pop(key, None)
        self._total_bytes -= size_bytes or 0
        return size_bytes is not None


@dataclass
class _Asked:
    answer: asyncio.Future[bytes]
    times: int = 0


class Repetitions:
    """Answers to repeated Interests: each is made once and sent once.

    Args:
        kept: answers kept for repeated requests; the oldest are evicted first.
    """

    def __init__(self, kept: int = 1024) -> None:
        self._kept = kept
        self._asked: OrderedDict[Name, _Asked] = OrderedDict()

    @property
    def under_way(self) -> int:
        """Answers that are being made."""
        return sum(not asked.answer.done() for asked in self._asked.values())

    def __contains__(self, name: Name) -> bool:
        return name in self._asked

    async def answer(self, name: Name, make: Callable[[], Awaitable[bytes]]) -> bytes | None:
        """The packet that ``make`` returns, for the latest request of ``name``; ``None`` for
        earlier requests, which the latest replaced in the PIT.
        """
        asked = self._asked.get(name)
        if asked is None:
            asked = _Asked(asyncio.ensure_future(make()))
            self._asked[name] = asked
            self._forget_oldest()
        asked.times += 1
        time = asked.times
        packet = await asyncio.shield(asked.answer)
        return packet if time == asked.times else None

    def forget(self, name: Name) -> None:
        """Drop the answer of ``name`` unless it is being made; the next request makes it again."""
        if name in self._asked and self._asked[name].answer.done():
            del self._asked[name]

    def _forget_oldest(self) -> None:
        for name in list(self._asked)[: max(0, len(self._asked) - self._kept)]:
            if self._asked[name].answer.done():
                del self._asked[name]

    def close(self) -> None:
        """Stop making answers."""
        for asked in self._asked.values():
            asked.answer.cancel()
        self._asked.clear()
