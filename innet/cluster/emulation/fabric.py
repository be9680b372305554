"""What a mode must provide: the links of one run, and the way into each node."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from innet.cluster.emulation.link_counters import DirectedLink, LinkCounters
from innet.cluster.emulation.processes import Namespace
from innet.node.node_config import FaceConfig


class Fabric(Protocol):
    """The links of one run, from their creation to :meth:`close`."""

    def faces(self, node: str) -> tuple[FaceConfig, ...]:
        """The node's ends of its links, in the order of the topology."""
        ...

    def ip_address(self, node: str) -> str | None:
        """The address at which foreign programs reach the node, if they can."""
        ...

    def pass_fds(self, node: str) -> tuple[int, ...]:
        """Descriptors that a process of the node must inherit."""
        ...

    def namespace(self, node: str) -> Namespace | None:
        """The namespaces that a process of the node must enter."""
        ...

    def namespace_paths(self) -> dict[str, str]:
        """For each node with a network namespace of its own, a path that ``nsenter`` takes."""
        ...

    async def counters(self, nodes: Collection[str]) -> dict[DirectedLink, LinkCounters]:
        """What the kernel has counted on the links' directions that begin at ``nodes``.

        Raises:
            EmulationError: this mode's links are not the kernel's, or the kernel did not answer.
        """
        ...

    async def close(self) -> None:
        """Take all links away."""
        ...
