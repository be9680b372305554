"""Who decides rounds asks each rank one question at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from innet._native import _core
from innet.collectives.partial.allreduce_of import SET_KIND, Coordinator
from innet.collectives.partial.rounds import KOfN, Terms
from innet.collectives.transfers import Ended, PeerFetch, Transfers
from tests.manual_background import ManualBackground

TERMS = Terms(KOfN(1, 0.02), 10.0)


class HalfTheRanks:
    """Rank 0 is ready for a round once that before it is decided; there is no route to rank 1."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.decided: list[int] = []
        self._to_answer: dict[int, Callable[[], None]] = {}

    def fetch(self, fetch: PeerFetch, ended: Ended) -> int:
        self.asked.append(fetch.peer)
        if fetch.peer == 1:
            ended(_core.STATUS_NO_ROUTE, "")
        else:
            fetch.into[:] = TERMS.encode()
            self._to_answer[fetch.seq] = lambda: ended(_core.STATUS_DONE, "")
            self._answer(len(self.decided))
        return len(self.asked)

    def publish(self, kind: str, seq: int, content: Any, what: str, *, kept: int) -> None:
        assert kind == SET_KIND
        self.decided.append(seq)
        self._answer(seq + 1)

    def _answer(self, seq: int) -> None:
        if seq in self._to_answer:
            self._to_answer.pop(seq)()

    def cancel(self, operation: int) -> None:
        pass


def test_the_requests_to_an_unreachable_rank_do_not_grow_with_the_rounds():
    ranks, background = HalfTheRanks(), ManualBackground()
    Coordinator(cast(Transfers, ranks), 2, background, lambda: background.now_s)
    background.run_until(1)
    asked_in_a_second = ranks.asked.count(1)
    background.run_until(10)
    assert len(ranks.decided) > 400
    assert ranks.asked.count(1) <= 11 * asked_in_a_second
