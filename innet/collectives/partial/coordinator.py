"""Decides a group's rounds over the network, on a thread of rank 0's process."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable

import numpy as np

from innet._native import _core
from innet.collectives.one_sided import Transfers
from innet.collectives.partial.records import READY_BYTES, Bytes, Terms
from innet.collectives.partial.round_table import Decided, RoundTable

READY_KIND = "/ready"
SET_KIND = "/set"
ROUNDS_KEPT = 256
"""More than a rank can be behind: see ``collectives.operations_in_flight``, of which 64 is most."""
_LISTEN_TIMEOUT_S = 3600.0
_IDLE_S = 0.1

_log = logging.getLogger(__name__)


class Coordinator:
    """Hears who is ready, decides, and publishes who is in.

    An Interest for the ``ready`` of each rank waits at that rank. The program of rank 0 takes no
    part: it may be the one that is late.
    """

    def __init__(self, transfers: Transfers, size: int) -> None:
        self._transfers = transfers
        self._size = size
        self._table = RoundTable(size)
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._listening: dict[int, tuple[int, int]] = {}
        """By rank: the round whose ``ready`` is asked for, and the operation that asks."""
        self._unheard: list[int] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="innet-rounds", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Decide no more."""
        self._todo.put(self._stop)
        self._thread.join()

    def _run(self) -> None:
        for rank in range(self._size):
            self._listen(rank, 0)
        while not self._stopped:
            try:
                self._next()()
            except Exception:  # one round must not end all that follow
                _log.exception("a round could not be decided")

    def _next(self) -> Callable[[], None]:
        due_s = self._table.next_deadline_s() - time.monotonic()
        idle_s = _IDLE_S if self._unheard else None
        wait_s = idle_s if due_s == math.inf else min(due_s, idle_s or due_s)
        try:
            return self._todo.get(timeout=None if wait_s is None else max(0.0, wait_s))
        except queue.Empty:
            return self._on_time

    def _on_time(self) -> None:
        self._publish(self._table.decide(time.monotonic()))
        unheard, self._unheard = self._unheard, []
        for rank in unheard:
            self._listen(rank, self._listening[rank][0])

    def _listen(self, rank: int, number: int) -> None:
        record = np.empty(READY_BYTES, np.uint8)

        def ended(status: int, _detail: str) -> None:
            if status not in (_core.STATUS_ABORTED, _core.STATUS_CANCELLED):
                self._todo.put(lambda: self._hear(rank, number, status, record))

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
            self._unheard.append(rank)
        else:
            decided = self._table.ready(rank, number, Terms.decode(record), time.monotonic())
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

    def _stop(self) -> None:
        self._stopped = True
        for _, operation in self._listening.values():
            self._transfers.cancel(operation)
