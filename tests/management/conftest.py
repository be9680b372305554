"""A running node that NDN programs can connect to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from innet._native import _core
from innet.security import deal_keys


class RunningNode:
    """A node with a Unix socket for clients.

    Attributes:
        node: the node itself.
        uri: where to connect.
    """

    def __init__(self, path: str) -> None:
        settings = _core.NodeSettings()
        settings.own_name = "/n/s0"
        settings.cache_bytes = 1 << 20
        keys = deal_keys(["s0"], "hmac")["s0"]
        self.node = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
        self.uri = self.node.listen(f"unix://{path}")
        self.node.start()

    def counter(self, name: str) -> int:
        """A counter of the node's management."""
        return int(self.node.status()["management"][name])

    def routes(self) -> list[str]:
        """The prefixes that lead anywhere."""
        return sorted({prefix for prefix, _face, _cost in self.node.status()["routes"]})


@pytest.fixture
def running(tmp_path) -> Iterator[RunningNode]:
    node = RunningNode(f"{tmp_path}/n.sock")
    yield node
    node.node.stop("the test is over")
