"""Two of innet's switches and a link between them: what programs of other houses connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from innet._native import _core
from innet.node.native_settings import native_settings
from innet.settings import Settings

PREFIX = "/interop"
"""What is served in these tests; the far switch has a route for it."""
_CACHE_BYTES = 1 << 20


@dataclass(frozen=True)
class Route:
    """Two places of a network.

    Attributes:
        producer: address of the node where producers connect.
        consumer: of the one where consumers do.
        prefix: what the consumers' node asks the producers' for.
    """

    producer: str
    consumer: str
    prefix: str = PREFIX


@contextmanager
def two_switches(near_uri: str, far_uri: str) -> Iterator[Route]:
    """Switches in this process, where programs may connect at these addresses."""
    near_end, far_end = _link()
    near, far = _switch("s0", near_end), _switch("s1", far_end)
    try:
        route = Route(producer=near.listen(near_uri), consumer=far.listen(far_uri))
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
    settings = native_settings(
        name, Settings(), seed=1, slots=0, cache_bytes=_CACHE_BYTES, cache_policy="lru"
    )
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
