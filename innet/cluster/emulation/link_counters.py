"""What the kernel counts on a link."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class DirectedLink(NamedTuple):
    """One direction of a link."""

    node: str
    port: str
    peer: str
    peer_port: str

    def __str__(self) -> str:
        return f"{self.node}:{self.port}->{self.peer}:{self.peer_port}"


class LinkCounters(BaseModel):
    """Counters of one direction of a link since the launch.

    Bytes are those of Ethernet frames: a UDP payload and 42 bytes of headers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    """Bytes that left the queue onto the link."""
    packets: int
    drops: int
    """Packets that found the queue full."""
    backlog_bytes: int
    """Bytes in the queue at this moment; always 0 on a link without a rate."""
