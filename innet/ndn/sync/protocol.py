"""When a member sends its state vector: the state machine of SVS version 3, section 4. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from innet.names import Name
from innet.ndn.sync.state_vector import Member, StateVector
from innet.tlv_numbers import ComponentType

_MAX_CLOCK_ERROR_S = 86_400


@dataclass(frozen=True)
class SyncLimits:
    """Limits of an entry of a vector; an entry beyond them is ignored, and no other.

    A signer of a state vector can claim any number for every member, and numbers never decrease:
    a claim that is too high would hide that member's publications for good.

    Attributes:
        most_new: publications by which the number of a known member may grow at once, and those
            of one update. A member that is new here may have any number, because it may have
            published for long.
        vector_bytes: of the whole encoded vector, which must fit into a packet. New members that
            do not fit are ignored; known members stay.
    """

    most_new: int = 1_000_000
    vector_bytes: int = 8000

    def believed(
        self, received: StateVector, known: StateVector, wall_time_s: float
    ) -> tuple[StateVector, list[str]]:
        """The entries of ``received`` that count beside ``known``, and why the others do not.

        An entry that does not count has its known number, so that the sender does not look behind:
        an answer would only make it repeat the claim. ``wall_time_s`` is in seconds since 1970.
        """
        doubts: list[str] = []
        newcomers: list[Member] = []
        believed = received
        for member in received:
            doubt = self._doubt(member, received[member], known[member], wall_time_s)
            if doubt:
                doubts.append(doubt)
                believed = believed.with_number(member, known[member])
            elif not known[member]:
                newcomers.append(member)
        for member in self._without_room(newcomers, believed, known):
            doubts.append(f"with {member.node} a vector does not fit into a packet (SyncLimits)")
            believed = believed.with_number(member, 0)
        return believed, doubts

    def _doubt(self, member: Member, number: int, known: int, wall_time_s: float) -> str:
        if member.bootstrap_s > wall_time_s + _MAX_CLOCK_ERROR_S:
            return f"{member.node} begins in the future"
        if known and number > known + self.most_new:
            return (
                f"{member.node} is said to have published {number} times, which is more than "
                f"{self.most_new} above what is known (SyncLimits)"
            )
        return ""

    def _without_room(
        self, newcomers: list[Member], believed: StateVector, known: StateVector
    ) -> list[Member]:
        """The new members that do not fit into the packet beside all known ones."""
        if not newcomers or len(known.merged(believed).encode()) <= self.vector_bytes:
            return []
        entries = {member: StateVector({member: believed[member]}) for member in newcomers}
        old = StateVector({member: believed[member] for member in believed if known[member]})
        free_bytes = self.vector_bytes - len(known.merged(old).encode())
        left_out: list[Member] = []
        for member, entry in entries.items():
            size_bytes = len(entry.encode())  # its header, too: that of the whole may grow
            if size_bytes <= free_bytes:
                free_bytes -= size_bytes
            else:
                left_out.append(member)
        return left_out


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
        self._deadline_s = now_s  # a new member requests the group's state

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
