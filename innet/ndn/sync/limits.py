"""Limits of what the state vectors of others may claim."""

from __future__ import annotations

from dataclasses import dataclass

from innet.ndn.sync.state_vector import Member, StateVector

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
