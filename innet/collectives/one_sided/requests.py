"""How an asker numbers what it asks of one owner, and how long it keeps what it said."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from innet.errors import CollectiveError

REQUESTS_IN_FLIGHT = 64
"""Requests from one rank to one owner that may be open, or unread, at once."""
REPLIES_KEPT = 2 * REQUESTS_IN_FLIGHT
"""Among so many numbers are all open requests: each may be followed by its release."""


@dataclass(frozen=True)
class Useless:
    """Up to which numbers requests, and what was to be put with them, are of no more use."""

    requests: int
    puts: int


class RequestNumbers:
    """Numbers the requests to one owner. Thread-safe.

    The owner reads them in order, so a reply to one says that all before it were read.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._next = 0
        self._read = 0
        self._gets: set[int] = set()
        self._puts: set[int] = set()

    def take_get(self) -> int:
        """The number of a new get.

        Raises:
            CollectiveError: too many requests are open or unread.
        """
        return self._take(self._gets)

    def take_put(self) -> int:
        """The number of a new put.

        Raises:
            CollectiveError: too many requests are open or unread.
        """
        return self._take(self._puts)

    def take_release(self) -> int:
        """The number of what has no reply; there is one for each get at most."""
        with self._lock:
            self._next += 1
            return self._next - 1

    def close(self, number: int, *, answered: bool) -> Useless:
        """No reply to ``number`` is awaited any more."""
        with self._lock:
            self._gets.discard(number)
            self._puts.discard(number)
            if answered:
                self._read = max(self._read, number + 1)
            return Useless(self._read - 1, min(self._puts, default=self._next) - 1)

    def _take(self, open_numbers: set[int]) -> int:
        with self._lock:
            oldest = min(*self._gets, *self._puts, self._read, self._next)
            if self._next - oldest >= REQUESTS_IN_FLIGHT:
                raise CollectiveError(
                    f"{REQUESTS_IN_FLIGHT} requests to rank {self._owner} are open; wait for some "
                    f"of them. If none ends, has rank {self._owner} called register()?"
                )
            number = self._next
            self._next += 1
            open_numbers.add(number)
            return number
