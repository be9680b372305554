"""Decides who is in each round. It knows no clock and no network: both are told to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from innet.collectives.partial.policy import KOfN
from innet.collectives.partial.records import Decision, Outcome, Terms

Decided = tuple[int, Decision]
"""A round's number, and what was decided."""


@dataclass
class _OpenRound:
    """A round for which somebody is ready."""

    policy: KOfN | None
    closes_s: float
    gives_up_s: float
    ready: set[int] = field(default_factory=set)
    disagree: bool = False

    @classmethod
    def on(cls, terms: Terms, now_s: float) -> _OpenRound:
        """One for which the first rank has just become ready."""
        deadline_s = 0.0 if terms.policy is None else terms.policy.deadline_s
        return cls(terms.policy, now_s + deadline_s, now_s + _patience_s(terms))

    def add(self, rank: int, terms: Terms) -> None:
        """``rank`` is ready, or has failed."""
        self.ready.add(rank)
        if terms.policy is None:
            self.policy = None
        elif self.policy is not None:
            self.disagree |= self.policy != terms.policy

    def outcome(self, size: int, now_s: float) -> Outcome | None:
        if self.policy is None:
            return Outcome.CLOSED  # the sum over those in it has the failure for everybody
        if self.disagree:
            return Outcome.DISAGREEMENT
        enough = len(self.ready) >= self.policy.k
        if len(self.ready) == size or (enough and now_s >= self.closes_s):
            return Outcome.CLOSED
        return Outcome.IN_VAIN if now_s >= self.gives_up_s else None

    def due_s(self) -> float:
        enough = self.policy is None or len(self.ready) >= self.policy.k
        return min(self.closes_s, self.gives_up_s) if enough else self.gives_up_s


class RoundTable:
    """The rounds of a group, each decided once.

    A rank is heard round by round; of rounds that were decided without it, it is not asked any
    more.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: dict[int, _OpenRound] = {}
        self._decided: set[int] = set()
        self._all_decided_below = 0

    def ready(self, rank: int, number: int, terms: Terms, now_s: float) -> list[Decided]:
        """``rank`` is ready for round ``number``; what this decides."""
        if self.is_decided(number):
            return []
        known = self._open.get(number)
        if known is None:
            known = self._open[number] = _OpenRound.on(terms, now_s)
        known.add(rank, terms)
        return self.decide(now_s)

    def decide(self, now_s: float) -> list[Decided]:
        """The rounds that are to be decided by now."""
        return list(self._decide(now_s))

    def next_deadline_s(self) -> float:
        """When :meth:`decide` is due; infinite when it is not."""
        return min((known.due_s() for known in self._open.values()), default=math.inf)

    def is_decided(self, number: int) -> bool:
        """Whether ``number`` needs nobody any more."""
        return number < self._all_decided_below or number in self._decided

    def next_for(self, number: int) -> int:
        """The first round from ``number`` on that is not decided."""
        while self.is_decided(number):
            number += 1
        return number

    def _decide(self, now_s: float) -> Iterator[Decided]:
        for number, known in sorted(self._open.items()):
            outcome = known.outcome(self._size, now_s)
            if outcome is not None:
                del self._open[number]
                self._decided.add(number)
                yield number, Decision(outcome, tuple(sorted(known.ready)))
        while self._all_decided_below in self._decided:
            self._decided.remove(self._all_decided_below)
            self._all_decided_below += 1


def _patience_s(terms: Terms) -> float:
    """A little less than the rank's own: so that it hears who was missing."""
    return terms.timeout_s - min(0.5, terms.timeout_s / 4)
