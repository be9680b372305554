"""Pending Interests of a client. Sans-IO: the caller gives waiters and times."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from innet.names import Name, without_digest
from innet.security.validation import ReceivedData

Waiter = TypeVar("Waiter")


@dataclass(eq=False)
class ExpressedInterest(Generic[Waiter]):
    """One Interest under way.

    Attributes:
        name: as in the packet.
        packet: the Interest, to be sent again.
        can_be_prefix: whether Data with a longer name answers it.
        expires_at_s: time of expiry, on the caller's clock.
        waiter: receives the answer.
        key: the name without an implicit digest, which Data do not carry in theirs.
        digest: that implicit digest.
    """

    name: Name
    packet: bytes
    can_be_prefix: bool
    expires_at_s: float
    waiter: Waiter
    key: Name = field(init=False)
    digest: bytes | None = field(init=False)

    def __post_init__(self) -> None:
        self.key = without_digest(self.name)
        self.digest = None if self.key == self.name else self.name[-1][1]

    def answered_by(self, data: ReceivedData, *, same_length: bool) -> bool:
        """Whether ``data``, below ``key`` or called so, is an answer."""
        if self.digest is not None:
            return same_length and self.digest == data.implicit_digest()
        return same_length or self.can_be_prefix


class PendingTable(Generic[Waiter]):
    """The pending Interests of one client, found by the names of Data and by their time."""

    def __init__(self) -> None:
        self._by_name: dict[Name, list[ExpressedInterest[Waiter]]] = {}
        self._by_time: list[tuple[float, int, ExpressedInterest[Waiter]]] = []
        self._order = itertools.count()

    def __iter__(self) -> Iterator[ExpressedInterest[Waiter]]:
        return itertools.chain.from_iterable(self._by_name.values())

    def add(self, pending: ExpressedInterest[Waiter]) -> None:
        """Wait for the answer to ``pending``."""
        self._by_name.setdefault(pending.key, []).append(pending)
        heapq.heappush(self._by_time, (pending.expires_at_s, next(self._order), pending))

    def remove(self, pending: ExpressedInterest[Waiter]) -> bool:
        """Wait no longer; false when it had been taken out already."""
        if not self._waits(pending):
            return False
        same_key = self._by_name[pending.key]
        same_key.remove(pending)
        if not same_key:
            del self._by_name[pending.key]
        return True

    def satisfy(self, data: ReceivedData) -> list[ExpressedInterest[Waiter]]:
        """Take out all that ``data`` answers."""
        name = data.name
        return self._take(
            pending
            for length in range(len(name), 0, -1)
            for pending in self._by_name.get(name.prefix(length), ())
            if pending.answered_by(data, same_length=length == len(name))
        )

    def reject(self, name: Name) -> list[ExpressedInterest[Waiter]]:
        """Take out all of exactly this name, which a Nack has refused."""
        same_key = self._by_name.get(without_digest(name), ())
        return self._take(pending for pending in same_key if pending.name == name)

    def expire(self, now_s: float) -> list[ExpressedInterest[Waiter]]:
        """Take out all that have expired."""
        expired: list[ExpressedInterest[Waiter]] = []
        while (at := self.next_expiry_s()) is not None and at <= now_s:
            expired += self._take([heapq.heappop(self._by_time)[2]])
        return expired

    def next_expiry_s(self) -> float | None:
        """When :meth:`expire` has something to do next; ``None`` when nothing waits."""
        while self._by_time and not self._waits(self._by_time[0][2]):
            heapq.heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else None

    def _waits(self, pending: ExpressedInterest[Waiter]) -> bool:
        return pending in self._by_name.get(pending.key, ())

    def _take(
        self, chosen: Iterator[ExpressedInterest[Waiter]] | list[ExpressedInterest[Waiter]]
    ) -> list[ExpressedInterest[Waiter]]:
        taken = list(chosen)
        for pending in taken:
            self.remove(pending)
        return taken
