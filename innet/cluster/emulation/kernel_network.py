"""What ``netns`` mode asks of the kernel: namespaces, veth pairs, addresses, routes, rates.

The launcher plans it (``kernel_layout``) and sends it to the process that builds and holds it
(``namespace_holder``); these are the messages of the two.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from innet.cluster.emulation.shaping import TokenBucket

FDS_PER_MESSAGE = 200
"""Namespace descriptors sent in one message; the kernel takes at most 253."""


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


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InterfaceSpec(_Spec):
    """One end of a veth pair."""

    node: str
    name: str
    mac: str
    address: str
    """IPv4 address, one half of a /31."""


class VethSpec(_Spec):
    """A link: a veth pair between two namespaces."""

    a: InterfaceSpec
    b: InterfaceSpec
    mtu_bytes: int
    shaper: TokenBucket | None
    """Put on each end; ``None`` for a link as fast as the machine goes."""


class IpRoute(_Spec):
    """The way from a node to the stable addresses of hosts."""

    destination: str
    """A prefix, such as ``10.0.0.1/32``."""
    gateway: str
    interface: str


class NamespaceSpec(_Spec):
    """One node."""

    node: str
    address: str | None
    """Stable address of a host, ``None`` for a switch."""
    forwards: bool
    """Whether packets of others pass through the node."""
    routes: tuple[IpRoute, ...]


class KernelNetwork(_Spec):
    """A whole network."""

    namespaces: tuple[NamespaceSpec, ...]
    veths: tuple[VethSpec, ...]
