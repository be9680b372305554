"""When a member sends its state vector: the state machine of SVS version 3, section 4. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from innet.names import Name
from innet.ndn.sync.limits import SyncLimits
from innet.ndn.sync.state_vector import Member, StateVector
from innet.tlv_numbers import ComponentType

_DECAY = 10.0


@dataclass(frozen=True)
class SyncTiming:
    """Timers of a group; all of its members have the same.

    Attributes:
        period_s: time between two sync Interests of an idle group (±10 %).
        suppression_s: most time that a member waits for another member to answer a sync
            Interest that is behind, before it answers itself.
    """

    period_s: float = 30.0
    suppression_s: float = 0.2


@dataclass(frozen=True)
class Update:
    """Publications of a member that this one did not know yet.

    Attributes:
        member: the publisher.
        low: first new sequence number.
        high: last one.
    """

    member: Member
    low: int
    high: int

    def names(self, group: Name) -> Iterator[Name]:
        """The names of the publications in ``group``, oldest first."""
        for seq in range(self.low, self.high + 1):
            yield publication_name(group, self.member, seq)


class Heard(NamedTuple):
    """The effect of another member's vector.

    Attributes:
        updates: the publications that it announces.
        doubts: the reasons why entries of it were ignored.
    """

    updates: list[Update]
    doubts: list[str]


class SyncProtocol:
    """One member's part in a group.

    Times are seconds of any clock that does not go back. The driver sends :attr:`vector` after each
    :meth:`publish`, and when :meth:`on_timer` returns true.

    Args:
        member: this member.
        timing: the group's.
        random: gives numbers in [0, 1).
        now_s: the time.
        vector: the state vector of an earlier run, if there is one.
        limits: of what the vectors of others may claim.
    """

    def __init__(
        self,
        member: Member,
        timing: SyncTiming,
        random: Callable[[], float],
        now_s: float,
        vector: StateVector | None = None,
        limits: SyncLimits | None = None,
    ) -> None:
        self.member = member
        self.vector = StateVector() if vector is None else vector
        self._timing = timing
        self._limits = limits or SyncLimits()
        self._random = random
        self._updated_s: dict[Member, float] = {}
        self._behind: StateVector | None = None
        self._deadline_s = now_s  # a new member asks for the group's state

    @property
    def deadline_s(self) -> float:
        """When :meth:`on_timer` is due."""
        return self._deadline_s

    @property
    def suppressed(self) -> bool:
        """Whether a member is behind and this one waits for another to answer it."""
        return self._behind is not None

    def publish(self, now_s: float) -> int:
        """Count one more publication of this member; its sequence number."""
        seq = self.vector[self.member] + 1
        self.vector = self.vector.with_number(self.member, seq)
        self._updated_s[self.member] = now_s
        self._enter_steady_state(now_s)
        return seq

    def on_vector(self, received: StateVector, now_s: float, wall_time_s: float) -> Heard:
        """Merge the vector of another member; returns the publications that are new to this one.

        Ignored are entries that claim more publications of this member than it has made, exceed
        the limits, or have a bootstrap time more than a day after ``wall_time_s``, in seconds since
        1970.
        """
        received, doubts = self._limits.believed(
            self._without_own(received), self.vector, wall_time_s
        )
        updates = [
            self._update(member, received[member])
            for member in self.vector.outdated_members(received)
        ]
        self.vector = self.vector.merged(received)
        for update in updates:
            self._updated_s[update.member] = now_s
        if self._behind is not None:
            self._behind = self._behind.merged(received)
        elif not (behind := received.outdated_members(self.vector)):
            self._enter_steady_state(now_s)
        elif not all(self._is_news(member, now_s) for member in behind):
            self._behind = received
            self._deadline_s = now_s + self._suppression_timeout_s()
        return Heard(updates, doubts)

    def _update(self, member: Member, high: int) -> Update:
        oldest = high - self._limits.most_new + 1
        return Update(member, max(self.vector[member] + 1, oldest), high)

    def _without_own(self, received: StateVector) -> StateVector:
        own = self.vector[self.member]
        if received[self.member] <= own:
            return received
        return received.with_number(self.member, own)

    def on_timer(self, now_s: float) -> bool:
        """Whether to send the vector now, which is due at :attr:`deadline_s`."""
        behind = self._behind
        self._enter_steady_state(now_s)
        return behind is None or bool(behind.outdated_members(self.vector))

    def _enter_steady_state(self, now_s: float) -> None:
        self._behind = None
        jitter = 0.9 + 0.2 * self._random()
        self._deadline_s = now_s + self._timing.period_s * jitter

    def _is_news(self, member: Member, now_s: float) -> bool:
        """Whether the sender need not know it yet: the update may still be under way to it."""
        updated_s = self._updated_s.get(member, -math.inf)
        return now_s - updated_s <= self._timing.suppression_s

    def _suppression_timeout_s(self) -> float:
        # Most members wait nearly all of the period, and few answer early.
        longest_s = self._timing.suppression_s
        if longest_s <= 0:
            return 0.0
        value_s = self._random() * longest_s
        return longest_s * (1 - math.exp((value_s - longest_s) / (longest_s / _DECAY)))


def publication_name(group: Name, member: Member, seq: int) -> Name:
    """``/<node>/<group>/t=<bootstrap time>/seq=<seq>``."""
    prefix = Name.from_value(member.node.value() + group.value())
    return prefix.append_number(ComponentType.TIMESTAMP, member.bootstrap_s).append_number(
        ComponentType.SEQUENCE_NUM, seq
    )
