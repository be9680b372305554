"""Packets that a node does not understand or does not trust."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation


class RefusedPackets:
    """A face on which malformed packets arrive, or such with a wrong signature."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each face and reason."""
        for link in seen.links():
            for packets, reason in (
                (link.malformed_in, "malformed"),
                (link.invalid_in, "not signed as they should be"),
            ):
                if packets:
                    yield Finding(
                        check="refused_packets",
                        subject=str(link),
                        problem=f"{link.peer} dropped {packets} packets from {link.node} within "
                        f"{link.span_s:.1f} s: they are {reason}.",
                        remedy="Something on that link changes packets, or somebody who does not "
                        "belong to the run sends some. `innet run --trace` or a capture on that "
                        "link shows them; results are late at worst, not wrong.",
                        cause=reason,
                        severity=packets,
                    )
