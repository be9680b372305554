"""What ``netns`` mode asks of the kernel: namespaces, veth pairs, addresses, routes, rates.

The launcher plans it (``kernel_layout``) and sends it to the process that builds and holds it
(``namespace_holder``); these are the messages of the two.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from innet.cluster.emulation.link_counters import DirectedLink, LinkCounters
from innet.cluster.emulation.shaping import TokenBucket

FDS_PER_MESSAGE = 200
"""Namespace descriptors sent in one message; the kernel takes at most 253."""


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


class BuildReply(_Spec):
    """The answer of ``namespace_holder``: the network is built, or why it is not."""

    error: str | None = None
    user_namespace: bool = False
    """Whether the network lives in a user namespace, made because the launcher is not root."""


class CountersRequest(_Spec):
    """Asks for the counters of the links' directions that begin at the given nodes."""

    nodes: tuple[str, ...]


class CountersReply(_Spec):
    """The counters that were asked for, at about one moment."""

    error: str | None = None
    links: tuple[tuple[DirectedLink, LinkCounters], ...] = ()
