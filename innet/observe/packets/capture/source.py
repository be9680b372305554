"""Where a capture has its packets from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class CapturedFrame(NamedTuple):
    """A packet as it was on a link, with Ethernet and IP headers."""

    time_ns: int
    """Since 1970."""
    direction: str
    """Such as ``h0->s0``."""
    frame: bytes


class PacketSource(Protocol):
    """Packets of some links; :meth:`fileno` is readable when there are any."""

    @property
    def directions(self) -> tuple[str, ...]:
        """All that its packets can have."""
        ...

    def fileno(self) -> int:
        """A descriptor to wait for."""
        ...

    def read(self) -> Iterator[CapturedFrame] | None:
        """What is there, without waiting; ``None`` when no more will come."""
        ...

    def lost_packets(self) -> int:
        """Packets that crossed a link and were not seen, because there was no room for them."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
