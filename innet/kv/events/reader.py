"""Orders a stream's batches at a consumer, and finds lost ones."""

from __future__ import annotations

import math

from innet.kv.events.wire import AllCleared, Batch, Event

_REMEMBERED = 10_000
"""Batches whose times are kept: a restarted publisher's differ from those of duplicates."""


class StreamReader:
    """One stream, as a consumer receives it.

    Live batches go to :meth:`receive`. While :attr:`is_waiting`, batches are missing: the consumer
    requests a replay from :attr:`next_number` on, gives its batches to :meth:`replay`, and calls
    :meth:`end_replay`. The consumer applies the returned events in this order.

    Attributes:
        next_number: of the next batch to apply.
        is_waiting: for a replay; live batches are kept until it has ended.
        lost: batches that no replay had.
        applied: batches whose events were returned, some of them again after a restart.
        unknown: events of these that were skipped, because their types are not known.
        invalid: events of these that were skipped, because their fields are impossible.
    """

    def __init__(self) -> None:
        """A new consumer, which waits for a replay of the whole stream."""
        self.next_number = 0
        self.is_waiting = True
        self.lost = self.applied = self.unknown = self.invalid = 0
        self._kept: list[tuple[int, Batch]] = []
        self._times: dict[int, float] = {}

    def receive(self, number: int, batch: Batch) -> list[Event]:
        """Events to apply after a live batch has arrived."""
        if self.is_waiting:
            self._kept.append((number, batch))
            return []
        if number < self.next_number:
            return self._receive_earlier(number, batch)
        if number > self.next_number:
            self.is_waiting = True
            self._kept.append((number, batch))
            return []
        return self._apply(number, batch)

    def replay(self, number: int, batch: Batch) -> list[Event]:
        """Events to apply after a batch of a replay has arrived."""
        if number < self.next_number:
            return []
        if not (batch.events and isinstance(batch.events[0], AllCleared)):
            self.lost += number - self.next_number
        return self._apply(number, batch)

    def end_replay(self) -> list[Event]:
        """Events to apply after a replay has ended or failed.

        If batches are missing still, the publisher no longer has them: they are lost.
        """
        self.is_waiting = False
        kept, self._kept = self._kept, []
        events: list[Event] = []
        for number, batch in kept:
            if number > self.next_number:
                self.lost += number - self.next_number
                self.next_number = number
            events += self.receive(number, batch)
        return events

    def reset(self) -> list[Event]:
        """Clear all blocks after a lost connection, and wait for a replay of the whole stream."""
        self.next_number = 0
        self.is_waiting = True
        self._kept.clear()
        self._times.clear()
        return [AllCleared()]

    def _receive_earlier(self, number: int, batch: Batch) -> list[Event]:
        """Handle an earlier number: a duplicate, or the publisher was restarted."""
        latest = self._times.get(self.next_number - 1, -math.inf)
        if batch.time_s == self._times.get(number, latest) or (
            number not in self._times and batch.time_s < latest
        ):
            return []
        events = self.reset()
        self._kept.append((number, batch))
        return events

    def _apply(self, number: int, batch: Batch) -> list[Event]:
        self.next_number = number + 1
        self.applied += 1
        self.unknown += batch.unknown
        self.invalid += batch.invalid
        self._times[number] = batch.time_s
        self._times.pop(number - _REMEMBERED, None)
        return list(batch.events)
