"""The rounds of a group over the network: each rank announces itself, rank 0's host decides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from innet._native import _core
from innet.collectives.operation import Operation, Wanted
from innet.collectives.partial.rounds import (
    READY_BYTES,
    Bytes,
    Decided,
    Decision,
    KOfN,
    RoundTable,
    Terms,
    decision_bytes,
)
from innet.collectives.runner import OperationRunner
from innet.collectives.transfers import PeerFetch, Transfers
from innet.errors import CollectiveError
from innet.worker.background import Alarm, Background

READY_KIND = "/ready"
SET_KIND = "/set"
ROUNDS_KEPT = 256
"""More than a rank can be behind: ``collectives.operations_in_flight`` is at most 64."""
_LISTEN_TIMEOUT_S = 3600.0
_ASK_AGAIN_S = 0.1
"""Pause before asking a rank again that could not be reached."""
_NO_PATIENCE_S = 0.0

COORDINATOR = 0
"""The rank whose host decides. When its process dies, the group ends: no other may ever decide."""


class Coordinator:
    """Decides who is in each round and publishes it, in the background of rank 0's program.

    An Interest for the ``ready`` record of each rank waits at that rank. The program of rank 0
    takes no part: it may be the one that is late.
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
        self._unreachable: set[int] = set()
        """Ranks that could not be reached, and are not being asked now."""
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
        for rank in sorted(self._unreachable):
            self._listen(rank, self._listening[rank][0])

    def _listen(self, rank: int, number: int) -> None:
        self._unreachable.discard(rank)
        record = np.empty(READY_BYTES, np.uint8)

        def ended(status: int, _detail: str) -> None:
            if status not in (_core.STATUS_ABORTED, _core.STATUS_CANCELLED):
                self._background.post(lambda: self._on_ready(rank, number, status, record))

        fetch = PeerFetch(rank, READY_KIND, number, record, _LISTEN_TIMEOUT_S)
        operation = self._transfers.fetch(fetch, ended)
        self._listening[rank] = number, operation

    def _on_ready(self, rank: int, number: int, status: int, record: Bytes) -> None:
        if self._listening[rank][0] != number:
            return  # it was decided before
        if status == _core.STATUS_DEADLINE_EXCEEDED:
            self._listen(rank, number)
        elif status != _core.STATUS_DONE:
            self._unreachable.add(rank)
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


class Rounds:
    """Numbers the rounds that this rank calls, and announces that it is ready for them."""

    def __init__(self, runner: OperationRunner, transfers: Transfers) -> None:
        self._runner = runner
        self._transfers = transfers
        self._next = 0
        self._coordinator: Coordinator | None = None
        first = runner.variants.first
        self._coordinator_targets = _core.Targets(
            [(f"{first.prefix}/rounds/{COORDINATOR}", f"/n/{first.nodes[COORDINATOR]}", False)]
        )

    @property
    def next(self) -> int:
        """The number of the next round."""
        return self._next

    def begin(self, policy: KOfN, timeout_s: float, what: str) -> int:
        """Announce that this rank is ready for the next round; the number of that round."""
        number = self._next
        self._announce(number, Terms(policy, timeout_s), what)
        self._next = number + 1
        return number

    def fail_until(self, end: int) -> None:
        """Close the rounds before ``end``, whose calls failed here before they began.

        A round that was begun closes by its policy. The sums have this rank's failures in place of
        its contributions.
        """
        for number in range(self._next, end):
            self._next = number + 1
            with suppress(CollectiveError):  # an interrupt ended the call that began it
                what = f"round {number}, which failed"
                self._announce(number, Terms(None, _NO_PATIENCE_S), what)

    def _announce(self, number: int, terms: Terms, what: str) -> None:
        if self._runner.rank == COORDINATOR and self._coordinator is None:
            services = self._runner.services
            self._coordinator = Coordinator(
                self._transfers,
                self._runner.size,
                services.background("innet-rounds"),
                services.now_s,
            )
        self._transfers.publish(READY_KIND, number, terms.encode(), what)
        if number >= ROUNDS_KEPT:
            self._transfers.retire(READY_KIND, number - ROUNDS_KEPT)

    def decision(self, number: int, what: str) -> Operation[Decision]:
        """Fetch who is in round ``number``."""
        content = np.empty(decision_bytes(self._runner.size), np.uint8)
        return Operation(
            what=what,
            variant=self._runner.variants.first,
            kind=SET_KIND.strip("/"),
            number=number,
            elements=content.size,
            block_bytes=content.size,
            wants=(Wanted(self._coordinator_targets, content),),
            finish=lambda: Decision.decode(content, self._runner.size),
            synchronising=False,
        )

    def close(self) -> None:
        """Stop deciding, where this rank's host does."""
        if self._coordinator is not None:
            self._coordinator.close()
