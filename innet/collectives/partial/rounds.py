"""Rounds of a group: when each closes, with which ranks. No clock, no network (sans-IO).

The records that ranks and their coordinator exchange about a round are in docs/protocol.md.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from innet.collectives.arrays import Bytes
from innet.errors import CollectiveError

_READY = struct.Struct("<Idd")
READY_BYTES = _READY.size


@dataclass(frozen=True, slots=True)
class KOfN:
    """Wait for ``k`` ranks, and for the others until ``deadline_s`` after the first was ready.

    With ``deadline_s=0`` the first ``k`` are enough: the others are backup workers (Chen et al.
    2016, "Revisiting distributed synchronous SGD").

    Raises:
        CollectiveError: ``k`` is below 1, or the deadline below 0.
    """

    k: int
    deadline_s: float = 0.0

    def __post_init__(self) -> None:
        if self.k < 1 or not self.deadline_s >= 0:
            raise CollectiveError(
                f"{self} is not a policy: k must be at least 1, and deadline_s not below 0"
            )


@dataclass(frozen=True, slots=True)
class Terms:
    """A rank's announcement that it is ready for a round.

    Attributes:
        policy: when the round closes; the same on every rank. ``None``: the rank's call has failed,
            and so the round closes at once, with an error for all ranks.
        timeout_s: timeout of the rank's call.
    """

    policy: KOfN | None
    timeout_s: float

    def encode(self) -> Bytes:
        """The content of ``ready``."""
        k, deadline_s = (0, 0.0) if self.policy is None else (self.policy.k, self.policy.deadline_s)
        return np.frombuffer(_READY.pack(k, deadline_s, self.timeout_s), np.uint8)

    @classmethod
    def decode(cls, content: Bytes) -> Terms:
        """Read what :meth:`encode` made.

        Raises:
            CollectiveError: the policy is invalid.
        """
        k, deadline_s, timeout_s = _READY.unpack(content.tobytes())
        return cls(None if k == 0 else KOfN(k, deadline_s), timeout_s)


class RoundOutcome(enum.IntEnum):
    """How a round was decided."""

    CLOSED = 0
    IN_VAIN = 1
    DISAGREEMENT = 2
    LEFT = 3
    """Too few ranks are left; the decision has those that have left."""


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """The ranks that were ready for a round when it was decided; it never changes.

    Attributes:
        ranks: the ready ranks, ascending; of a round that ends as ``LEFT``, those that have left.
    """

    outcome: RoundOutcome
    ranks: tuple[int, ...]

    def encode(self, size: int) -> Bytes:
        """The content of ``set`` in a group of ``size`` ranks."""
        bits = np.zeros(size, np.bool_)
        bits[list(self.ranks)] = True
        mask = np.packbits(bits, bitorder="little")
        return np.concatenate([np.array([self.outcome], np.uint8), mask])

    @classmethod
    def decode(cls, content: Bytes, size: int) -> RoundDecision:
        """Read what :meth:`encode` made.

        Raises:
            ValueError: there is no such outcome.
        """
        bits = np.unpackbits(content[1:], count=size, bitorder="little")
        return cls(RoundOutcome(int(content[0])), tuple(np.flatnonzero(bits).tolist()))


def decision_bytes(size: int) -> int:
    """Bytes of ``set`` in a group of ``size`` ranks."""
    return 1 + -(-size // 8)


def set_digits(positions: Collection[int]) -> str:
    """A set of positions as a component of names.

    >>> set_digits([0, 1, 3])
    'b'
    """
    return f"{sum(1 << position for position in positions):x}"


Decided = tuple[int, RoundDecision]
"""A round's number, and what was decided."""


@dataclass
class _OpenRound:
    """A round for which at least one rank is ready."""

    policy: KOfN | None
    closes_s: float
    gives_up_s: float
    ready: set[int] = field(default_factory=set)
    disagree: bool = False

    @classmethod
    def on(cls, terms: Terms, now_s: float) -> _OpenRound:
        """A round for which the first rank has just become ready."""
        deadline_s = 0.0 if terms.policy is None else terms.policy.deadline_s
        return cls(terms.policy, now_s + deadline_s, now_s + _patience_s(terms))

    def add(self, rank: int, terms: Terms) -> None:
        """``rank`` is ready, or has failed."""
        self.ready.add(rank)
        if terms.policy is None:
            self.policy = None
        elif self.policy is not None:
            self.disagree |= self.policy != terms.policy

    def outcome(self, size: int, left: set[int], now_s: float) -> RoundOutcome | None:
        if self.policy is None:
            return RoundOutcome.CLOSED  # the sum of its ranks carries the failure to all ranks
        if self.disagree:
            return RoundOutcome.DISAGREEMENT
        come = size - len(left - self.ready)
        if come < self.policy.k:
            return RoundOutcome.LEFT
        enough = len(self.ready) >= self.policy.k
        if len(self.ready) == come or (enough and now_s >= self.closes_s):
            return RoundOutcome.CLOSED
        return RoundOutcome.IN_VAIN if now_s >= self.gives_up_s else None

    def due_s(self) -> float:
        enough = self.policy is None or len(self.ready) >= self.policy.k
        return min(self.closes_s, self.gives_up_s) if enough else self.gives_up_s


class RoundTable:
    """The rounds of a group, each decided once.

    A rank reports round by round; it is not asked about rounds that were decided without it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left: set[int] = set()
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

    def leave(self, rank: int, now_s: float) -> list[Decided]:
        """``rank`` will be ready for no more rounds than it has been; what this decides."""
        self._left.add(rank)
        return self.decide(now_s)

    def decide(self, now_s: float) -> list[Decided]:
        """Decide the rounds that are due."""
        return list(self._decide(now_s))

    def next_deadline_s(self) -> float:
        """When :meth:`decide` is due; infinite when it is not."""
        return min((known.due_s() for known in self._open.values()), default=math.inf)

    def is_decided(self, number: int) -> bool:
        """Whether round ``number`` is decided."""
        return number < self._all_decided_below or number in self._decided

    def next_for(self, number: int) -> int:
        """The first round from ``number`` on that is not decided."""
        while self.is_decided(number):
            number += 1
        return number

    def _decide(self, now_s: float) -> Iterator[Decided]:
        for number, known in sorted(self._open.items()):
            outcome = known.outcome(self._size, self._left, now_s)
            if outcome is not None:
                del self._open[number]
                self._decided.add(number)
                ranks = self._left - known.ready if outcome is RoundOutcome.LEFT else known.ready
                yield number, RoundDecision(outcome, tuple(sorted(ranks)))
        while self._all_decided_below in self._decided:
            self._decided.remove(self._all_decided_below)
            self._all_decided_below += 1


def _patience_s(terms: Terms) -> float:
    """A little less than the rank's own timeout, so that its error can name the missing ranks."""
    return terms.timeout_s - min(0.5, terms.timeout_s / 4)
