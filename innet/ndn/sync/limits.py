"""How much of what others say of a group is taken from them."""

from __future__ import annotations

from dataclasses import dataclass

from innet.ndn.sync.state_vector import Member, StateVector

_MAX_CLOCK_ERROR_S = 86_400


@dataclass(frozen=True)
class SyncLimits:
    """What a vector may say of a member; an entry that says more is left out, and it alone.

    A signer of a state vector can claim any number for every member, and numbers never decrease:
    a claim that is too high would hide that member's publications for good.

    Attributes:
        most_new: publications by which the number of a member that is known grows at once, and
            those of one update. Of a member that nobody here has heard of any number is taken,
            for it may have been there for long.
        vector_bytes: of everything that is known together, encoded: it has to fit into a packet.
            Members that do not are left out; those that are known are heard as ever.
    """

    most_new: int = 1_000_000
    vector_bytes: int = 8000

    def believed(
        self, received: StateVector, known: StateVector, wall_time_s: float
    ) -> tuple[StateVector, list[str]]:
        """What of ``received`` counts where ``known`` is known, and why the rest does not.

        What does not count stands as it is known, not as missing: nobody is told what he would
        say otherwise again. ``wall_time_s`` is in seconds since 1970.
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
        """Those for whom the packet has no room, beside all that are known."""
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
