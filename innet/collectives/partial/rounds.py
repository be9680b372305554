"""What a rank has of its group's rounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from innet._native import _core
from innet.collectives.group import Variants
from innet.collectives.one_sided import Transfers
from innet.collectives.operation import Operation, Wanted
from innet.collectives.partial.coordinator import (
    READY_KIND,
    ROUNDS_KEPT,
    SET_KIND,
    Coordinator,
)
from innet.collectives.partial.policy import KOfN
from innet.collectives.partial.records import Decision, Terms, decision_bytes
from innet.errors import CollectiveError

_NO_PATIENCE_S = 0.0

COORDINATOR = 0
"""The rank whose host decides. When its process dies, the group ends: no other must ever decide."""


class Rounds:
    """Numbers the rounds that this rank calls, and says that it is ready for them."""

    def __init__(
        self,
        transfers: Transfers,
        variants: Variants,
        size: int,
        rank: int,
        decide: Callable[[], Coordinator],
    ) -> None:
        """``decide`` makes the coordinator, on the rank that has it."""
        self._transfers = transfers
        self._decide = decide
        self._variants = variants
        self._size = size
        self._rank = rank
        self._next = 0
        self._coordinator: Coordinator | None = None
        first = variants.first
        self._decider = _core.Targets(
            [(f"{first.prefix}/rounds/{COORDINATOR}", f"/n/{first.nodes[COORDINATOR]}", False)]
        )

    @property
    def next(self) -> int:
        """The number of the next round."""
        return self._next

    def begin(self, policy: KOfN, timeout_s: float, what: str) -> int:
        """The number of the round that this rank is ready for, which others now hear."""
        number = self._next
        self._say_ready(number, Terms(policy, timeout_s), what)
        self._next = number + 1
        return number

    def fail_until(self, end: int) -> None:
        """The calls that were to begin the rounds before ``end`` failed: they close at once.

        A round that was begun closes by its policy. The sums have this rank's failures in place of
        its contributions.
        """
        for number in range(self._next, end):
            self._next = number + 1
            with suppress(CollectiveError):  # an interrupt came while it was begun
                what = f"round {number}, which failed"
                self._say_ready(number, Terms(None, _NO_PATIENCE_S), what)

    def _say_ready(self, number: int, terms: Terms, what: str) -> None:
        if self._rank == COORDINATOR and self._coordinator is None:
            self._coordinator = self._decide()
        self._transfers.publish(READY_KIND, number, terms.encode(), what)
        if number >= ROUNDS_KEPT:
            self._transfers.retire(READY_KIND, number - ROUNDS_KEPT)

    def decision(self, number: int, what: str) -> Operation[Decision]:
        """Fetch who is in round ``number``."""
        content = np.empty(decision_bytes(self._size), np.uint8)
        return Operation(
            what=what,
            variant=self._variants.first,
            kind=SET_KIND.strip("/"),
            number=number,
            elements=content.size,
            block_bytes=content.size,
            wants=(Wanted(self._decider, content),),
            finish=lambda: Decision.decode(content, self._size),
            synchronising=False,
        )

    def close(self) -> None:
        """Decide no more, if this rank's host does."""
        if self._coordinator is not None:
            self._coordinator.close()
        self._transfers.close()
