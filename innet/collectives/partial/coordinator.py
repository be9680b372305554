"""Decides a group's rounds over the network, in the background of rank 0's process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from innet._native import _core
from innet.collectives.one_sided import Transfers
from innet.collectives.partial.records import READY_BYTES, Bytes, Terms
from innet.collectives.partial.round_table import Decided, RoundTable
from innet.worker.background import Alarm, Background

READY_KIND = "/ready"
SET_KIND = "/set"
ROUNDS_KEPT = 256
"""More than a rank can be behind: see ``collectives.operations_in_flight``, of which 64 is most."""
_LISTEN_TIMEOUT_S = 3600.0
_ASK_AGAIN_S = 0.1
"""After which a rank is asked again that could not be reached."""


class Coordinator:
    """Hears who is ready, decides, and publishes who is in.

    An Interest for the ``ready`` of each rank waits at that rank. The program of rank 0 takes no
    part: it may be the one that is late.
    """

    def __init__(
        self,
        transfers: Transfers,
        size: int,
        background: Background,
        now_s: Callable[[], float],
    ) -> None:
        """``now_s`` is the clock of ``background``."""
        self._transfers = transfers
        self._size = size
        self._background = background
        self._now_s = now_s
        self._table = RoundTable(size)
        self._alarm = Alarm(background, self._on_time)
        self._listening: dict[int, tuple[int, int]] = {}
        """By rank: the round whose ``ready`` is asked for, and the operation that asks."""
        self._unheard: set[int] = set()
        """Ranks that could not be reached, and of which nothing is asked now."""
        background.post(self._listen_to_all)

    def close(self) -> None:
        """Decide no more."""
        self._background.close()
        for _, operation in self._listening.values():
            self._transfers.cancel(operation)

    def _listen_to_all(self) -> None:
        for rank in range(self._size):
            self._listen(rank, 0)

    def _on_time(self) -> None:
        self._publish(self._table.decide(self._now_s()))
        for rank in sorted(self._unheard):
            self._listen(rank, self._listening[rank][0])

    def _listen(self, rank: int, number: int) -> None:
        self._unheard.discard(rank)
        record = np.empty(READY_BYTES, np.uint8)

        def ended(status: int, _detail: str) -> None:
            if status not in (_core.STATUS_ABORTED, _core.STATUS_CANCELLED):
                self._background.post(lambda: self._hear(rank, number, status, record))

        operation = self._transfers.fetch(
            rank,
            READY_KIND,
            number,
            record,
            size_bytes=READY_BYTES,
            timeout_s=_LISTEN_TIMEOUT_S,
            ended=ended,
        )
        self._listening[rank] = number, operation

    def _hear(self, rank: int, number: int, status: int, record: Bytes) -> None:
        if self._listening[rank][0] != number:
            return  # it was decided before
        if status == _core.STATUS_DEADLINE_EXCEEDED:
            self._listen(rank, number)
        elif status != _core.STATUS_DONE:
            self._unheard.add(rank)
            self._alarm.set(self._now_s() + _ASK_AGAIN_S)
        else:
            decided = self._table.ready(rank, number, Terms.decode(record), self._now_s())
            self._listen(rank, self._table.next_for(number + 1))
            self._publish(decided)

    def _publish(self, decided: list[Decided]) -> None:
        for number, decision in decided:
            self._transfers.publish(
                SET_KIND, number, decision.encode(self._size), f"who is in round {number}"
            )
            if number >= ROUNDS_KEPT:
                self._transfers.retire(SET_KIND, number - ROUNDS_KEPT)
        for rank, (number, operation) in list(self._listening.items()):
            if self._table.is_decided(number):
                self._transfers.cancel(operation)
                self._listen(rank, self._table.next_for(number))
        self._alarm.set(self._table.next_deadline_s())
