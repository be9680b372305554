"""The kernel network of ``netns`` mode: namespaces, veth pairs, addresses, routes, rates.

The launcher plans it (``kernel_layout``) and sends it to the process that builds and holds it
(``namespace_holder``), in the messages of this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from innet.errors import EmulationError
from innet.validation_messages import StrictModel

if TYPE_CHECKING:
    from innet.topology import Link


HOST_ADDRESS_LABEL = "lo-host"
"""The name under which getifaddrs(3) lists a host's stable address, which is on its loopback."""

ETHERNET_HEADER_BYTES = 14
"""The kernel counts it on a veth, beyond the MTU."""

SUPERPACKET_BYTES = 80 * 1024
"""More than the largest batch that a sender hands to the kernel as one packet (GSO): 64 KiB of
payload and the headers of its up to 128 segments, which tbf counts too."""

_BURST_S = 1e-3
_MIN_BURST_BYTES = 16 * 1024
_MAX_SUPERPACKET_S = 5e-3
# The kernel is given the burst as a time, in whole microseconds: of ten, at most a tenth is lost.
_MIN_QUEUE_S = 10e-6

# Widths of tbf's fields: the rate in bytes/s, the limit in bytes, the burst in ticks of 64 ns.
_MAX_FIELD = (1 << 32) - 1
_TICK_S = 64e-9


class TokenBucket(StrictModel):
    """Parameters of a ``tbf`` queueing discipline."""

    rate_bytes_per_s: int
    burst_bytes: int
    limit_bytes: int

    @classmethod
    def for_link(cls, link: Link) -> Self | None:
        """The bucket for each direction of a link; ``None`` for a link without a rate.

        The limit is the link's queue, but at least two packets and what passes in 10 us.

        The burst is a millisecond's worth, at least 16 KiB and two packets: less would let a slow
        timer of the kernel waste the link. It is never more than the queue: tbf does not cut what
        fits into the burst, and what does not fit into the queue either would be dropped, always.

        A burst below the size of a GSO superpacket makes tbf cut superpackets into packets. On
        8 KiB packets at 1 Gbit/s that was measured to cost the sender and receiver three times
        the processor time (0.10 s instead of 0.03 s for 119 MiB), with the same throughput to
        within 1 %, because the receiver gets seven packets where it would have got one. So
        superpackets pass whole where one takes at most 5 ms, from about 131 Mbit/s on, and where
        the queue holds two. On slower links and short queues packets are cut, which costs little
        there and keeps the granularity of drops and delays at one packet.
        """
        if link.rate_bps is None:
            return None
        frame_bytes = link.mtu_bytes + ETHERNET_HEADER_BYTES
        bytes_per_s = link.rate_bps / 8
        limit_bytes = max(link.queue_bytes, 2 * frame_bytes, int(bytes_per_s * _MIN_QUEUE_S))
        burst_bytes = max(2 * frame_bytes, int(bytes_per_s * _BURST_S), _MIN_BURST_BYTES)
        quick_enough = bytes_per_s * _MAX_SUPERPACKET_S >= SUPERPACKET_BYTES
        if quick_enough and limit_bytes >= 2 * SUPERPACKET_BYTES:
            burst_bytes = max(burst_bytes, SUPERPACKET_BYTES)
        burst_bytes = min(burst_bytes, limit_bytes)
        if bytes_per_s > _MAX_FIELD:
            raise EmulationError(
                f"link {link}: the kernel limits rates up to 34 Gbit/s only. Leave the rate out "
                "for a link as fast as the machine goes, or use mode local."
            )
        if burst_bytes / bytes_per_s > _MAX_FIELD * _TICK_S:
            raise EmulationError(
                f"link {link}: at {link.rate_bps:g} bit/s two packets of {frame_bytes} bytes "
                "take longer than the kernel can wait. Lower the MTU, raise the rate, or use mode "
                "local."
            )
        return cls(
            rate_bytes_per_s=round(bytes_per_s),
            burst_bytes=burst_bytes,
            limit_bytes=min(limit_bytes, _MAX_FIELD),
        )

    @property
    def passes_superpackets(self) -> bool:
        """Whether tbf leaves superpackets whole, and its queue holds two."""
        return self.burst_bytes >= SUPERPACKET_BYTES and self.limit_bytes >= 2 * SUPERPACKET_BYTES


FDS_PER_MESSAGE = 200
"""Namespace descriptors sent in one message; the kernel takes at most 253."""


class LinkDirection(NamedTuple):
    """One direction of a link."""

    node: str
    port: str
    peer: str
    peer_port: str

    def __str__(self) -> str:
        return f"{self.node}:{self.port}->{self.peer}:{self.peer_port}"


class KernelCounters(StrictModel):
    """Counters of one direction of a link since the launch.

    Bytes are those of Ethernet frames: a UDP payload and 42 bytes of headers.
    """

    bytes: int
    """Bytes that left the queue onto the link."""
    packets: int
    drops: int
    """Packets that found the queue full."""
    backlog_bytes: int
    """Bytes in the queue at this moment; always 0 on a link without a rate."""
    is_up: bool = True
    """Whether the interface of the sender is up and has a carrier at this moment."""


class LinkStatus(StrictModel):
    """The kernel's counters of one direction of a link."""

    link: LinkDirection
    counters: KernelCounters


class InterfaceSpec(StrictModel):
    """One end of a veth pair."""

    node: str
    name: str
    mac: str
    address: str
    """IPv4 address, one half of a /31."""


class VethSpec(StrictModel):
    """A link: a veth pair between two namespaces."""

    a: InterfaceSpec
    b: InterfaceSpec
    mtu_bytes: int
    shaper: TokenBucket | None
    """Put on each end; ``None`` for a link as fast as the machine goes."""


class IpRoute(StrictModel):
    """The way from a node to the stable addresses of hosts."""

    destination: str
    """A prefix, such as ``10.0.0.1/32``."""
    gateway: str
    interface: str


class NamespaceSpec(StrictModel):
    """One node."""

    node: str
    address: str | None
    """Stable address of a host, ``None`` for a switch."""
    forwards: bool
    """Whether packets of others pass through the node."""
    routes: tuple[IpRoute, ...]


class KernelNetwork(StrictModel):
    """A whole network."""

    namespaces: tuple[NamespaceSpec, ...]
    veths: tuple[VethSpec, ...]


class LinkChange(StrictModel):
    """Another rate of a link, or its cut, while the network is up."""

    ends: tuple[str, str]
    """The names of the two nodes."""
    shaper: TokenBucket | None
    """As that of :class:`VethSpec`, in its place."""
    is_up: bool
