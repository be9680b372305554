"""Two of innet's switches and a link between them: what other NDN implementations connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from innet._native import _core
from innet.ndn import HmacSigner
from innet.node.native_settings import NodeSizes, native_settings
from innet.security.signers import Signer
from innet.settings import Settings

PREFIX = "/interop"
"""What is served in these tests; the far switch has a route for it."""
OPERATOR = "/interop/operator/KEY/1"
"""The key that commands over TCP and UDP: its secret is no secret here."""
OPERATOR_SECRET = b"what signs commands over IP"
_CACHE_BYTES = 1 << 20


@dataclass(frozen=True)
class Route:
    """Two places of a network.

    Attributes:
        producer: address of the node where producers connect.
        consumer: of the one where consumers do.
        prefix: what the consumers' node asks the producers' for.
        nodes: those of this process.
    """

    producer: str
    consumer: str
    prefix: str = PREFIX
    nodes: tuple[_core.Node, ...] = field(default=(), repr=False)

    @property
    def over_ip(self) -> bool:
        """Whether commands need a listed key."""
        return not self.producer.startswith("unix:")

    @property
    def command_signer(self) -> Signer | None:
        """What signs a client's commands."""
        return HmacSigner(OPERATOR, OPERATOR_SECRET) if self.over_ip else None

    def admit(self, *keys: _core.SigningKey) -> None:
        """Let these keys command the nodes, where keys are needed; beside the operator's."""
        for node in self.nodes if self.over_ip else ():
            node.authorise_commands([_core.SigningKey("hmac", OPERATOR, OPERATOR_SECRET), *keys])


@contextmanager
def two_switches(near_uri: str, far_uri: str) -> Iterator[Route]:
    """Switches in this process, where programs may connect at these addresses."""
    near_end, far_end = _link()
    near, far = _switch("s0", near_end), _switch("s1", far_end)
    try:
        route = Route(near.listen(near_uri), far.listen(far_uri), nodes=(near, far))
        route.admit()
        far.add_route(PREFIX, 0)
        yield route
    finally:
        for node in (near, far):
            node.stop("the test has ended")


@contextmanager
def listening_node(uri: str) -> Iterator[tuple[_core.Node, str]]:
    """A node alone in this process, and the address where programs may connect to it."""
    node = _node("h0")
    _start(node)
    try:
        yield node, node.listen(uri)
    finally:
        node.stop("the test has ended")


def _node(name: str) -> _core.Node:
    settings = native_settings(name, Settings(), NodeSizes(cache_bytes=_CACHE_BYTES))
    return _core.Node(settings, _core.SigningKey("digest"), [])


def _start(node: _core.Node) -> None:
    node.start()


def _switch(name: str, link: socket.socket) -> _core.Node:
    node = _node(name)
    (local_address, local_port), (peer_address, peer_port) = link.getsockname(), link.getpeername()
    node.add_link(
        local_address=local_address,
        local_port=local_port,
        peer_address=peer_address,
        peer_port=peer_port,
        fd=link.detach(),
    )
    _start(node)
    return node


def _link() -> tuple[socket.socket, socket.socket]:
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for end in ends:
        end.bind(("127.0.0.1", 0))
    ends[0].connect(ends[1].getsockname())
    ends[1].connect(ends[0].getsockname())
    return ends[0], ends[1]
