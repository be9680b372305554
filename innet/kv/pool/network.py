"""What a pool of blocks needs of the network: blocks that are published, and fetched by name."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Contents = npt.NDArray[np.uint8]
"""Of a block: its bytes, in one dimension."""


class Outcome(Enum):
    """What asking a node for a block came to."""

    HERE = "here"
    """The block came, and its signature is its tenant's."""
    ABSENT = "absent"
    """The node answered, and does not have it."""
    LATE = "late"
    """Nothing, or not all of it, came in time."""
    UNTRUSTED = "untrusted"
    """What came is not what the tenant signed under that name."""
    UNREACHABLE = "unreachable"
    """No path leads to the node, or the network refuses to carry the question."""


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """A block as its producer signed it.

    Attributes:
        contents: its bytes.
        root: its root manifest: a Data packet, signed by the tenant's key.
    """

    contents: Contents
    root: bytes


class BlockNetwork(Protocol):
    """The blocks and requests of one tenant, as one node of its pool sends and gets them.

    For one event loop: methods are called in it, and block it never. What is published is offered
    before anything that is sent after the call.

    Attributes:
        node: this one.
        tenant: the component that stands for the tenant in names.
        most_kept_at_once: blocks that one request may ask to keep, as its name and the answer's
            have to fit into a packet.
    """

    node: str
    tenant: str
    most_kept_at_once: int

    def members(self) -> Mapping[str, int]:
        """The nodes that offer memory to the pool, as known now, and bytes of each.

        Refreshed in the background, and soon after a fetch found a node unreachable or late. What
        was returned stays as it is: when they change, it is another mapping.
        """

    def nonce(self) -> str:
        """A hexadecimal number for a request, which no process of this node has used before."""

    def publish(self, name: str, contents: Contents) -> Awaitable[Sealed]:
        """Sign a block, and give it to whoever asks this node; the block as it was signed.

        The contents must not change before the block is withdrawn.

        What nobody waits for begins with what is sent next, and ends without waking anybody up.

        Raises:
            KVError: this node has published that name already, or the network is closed.
        """

    def publish_sealed(self, name: str, block: Sealed) -> Awaitable[Sealed | None]:
        """Give a block that another node signed to whoever asks this node.

        The contents must not change before the block is withdrawn.

        Returns:
            The block; ``None``, with nothing published, where the bytes are not those that were
            signed under that name.

        Raises:
            KVError: as of :meth:`publish`.
        """

    def expect(self, name: str) -> None:
        """Let those who ask this node for the object wait: it will be published, or withdrawn."""

    def withdraw(self, name: str) -> None:
        """Give the object to nobody any more; who waits for it is told that it is absent."""

    def end_serving(self, name: str) -> None:
        """Give an object that is published to nobody any more; it was not waited for."""

    async def fetch(
        self, name: str, source: str, timeout_s: float, into: Contents | None = None
    ) -> tuple[Outcome, Sealed | None]:
        """Fetch an object from the node ``source``, or from a cache on the way.

        Args:
            name: of a block, or of a request.
            source: a node.
            timeout_s: until then.
            into: memory for the contents, of just their size; by default it is allocated.

        Returns:
            The block with ``Outcome.HERE``, and ``None`` with all others; one of another size than
            ``into`` is ``UNTRUSTED``.
        """

    async def probe(self, name: str, source: str, timeout_s: float) -> Outcome:
        """Whether ``source``, or a cache on the way, has an object: fetch its root manifest."""

    async def asked(self) -> list[str]:
        """Wait for names of objects and requests that this node was asked for, in that order.

        These are requests, objects that are expected, and objects that were given.

        Raises:
            KVError: the network is closed.
        """

    def asked_by_now(self) -> list[str]:
        """What :meth:`asked` would tell of if it were waited for long enough, and now will not.

        Nothing when the network is closed.
        """
