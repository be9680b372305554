"""The network of a pool of blocks: publishes blocks, fetches them by name, reports requests."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from innet._native import _core

Contents = npt.NDArray[np.uint8]
"""The bytes of a block, in one dimension."""


class Cause(Enum):
    """Why a block was not found, or not kept. The first cause counts."""

    NO_HOME = "no home"
    ABSENT = "absent"
    """The node answered that it does not have the block."""
    LATE = "late"
    """Nothing, or only a part, arrived in time."""
    UNTRUSTED = "untrusted"
    """The tenant did not sign these bytes under that name."""
    UNREACHABLE = "unreachable"
    """No path leads to the node, or the network refuses to carry the request."""
    AFTER_GAP = "after a gap"
    """A block before it in its prompt was not found, so this one was not looked for."""
    REFUSED = "refused"
    """A home had no room for it, or could not fetch it."""


@dataclass(slots=True, eq=False)  # not frozen: that takes three times as long, for each block
class Sealed:
    """A block as its producer signed it.

    Attributes:
        contents: its bytes.
        root: its root manifest, a Data packet: signed by the tenant's key, or a draft, which its
            holders sign when a node without the secret requests it.
    """

    contents: Contents
    root: bytes

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes in a store: contents, manifest, names and entries in tables."""
        return self.contents.nbytes + len(self.root) + _core.BOOKKEEPING_BYTES


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """How a network keeps blocks on its own when other nodes ask its node to.

    Attributes:
        answer: to a request whose blocks are all kept.
        window: blocks of 1 MiB or more that are fetched at once; of smaller ones up to four times
            as many.
        fetch_s: until a block has to arrive, from the start of its fetch.
        answer_s: how long an answer can be requested again.
        room_bytes: of blocks that it may keep before it reports them.
    """

    answer: bytes
    window: int
    fetch_s: float
    answer_s: float
    room_bytes: int


@dataclass(slots=True, eq=False)
class KeptBlock:
    """A block that the network fetched and keeps on its own, at another node's request.

    Attributes:
        name: of the block.
        block: its contents and manifest.
        depth: its position in its prompt, from the request.
        requesters: the nodes that asked for it.
        is_served: the network serves it; false if something else was published under its name.
    """

    name: str
    block: Sealed
    depth: int
    requesters: Sequence[str]
    is_served: bool


KeepOutcome = Cause | bool
"""Whether the network keeps a block that another node asked it to keep, or why its fetch failed."""


@dataclass(frozen=True, slots=True, eq=False)
class UnfinishedRequest:
    """A request to keep blocks of which the network could not keep all on its own.

    Attributes:
        name: of the request.
        blocks: the result of each. Blocks that arrived were reported as :class:`KeptBlock`
            before.
    """

    name: str
    blocks: Sequence[KeepOutcome]


NetworkEvent = str | KeptBlock | UnfinishedRequest
"""A request of another node: the name of an object or of a request, or its result, if the network
handled it on its own."""


class BlockNetwork(Protocol):
    """The blocks and requests of one tenant, as one node of its pool sends and receives them.

    Methods are called in one event loop and never block it. A published block is offered before
    anything that is sent after the call.
    """

    @property
    def node(self) -> str:
        """This node."""

    @property
    def tenant(self) -> str:
        """The component that stands for the tenant in names."""

    @property
    def most_kept_at_once(self) -> int:
        """Blocks that one request may ask to keep: its name and its answer have to fit into a
        packet."""

    def members(self) -> Mapping[str, int]:
        """The nodes that offer memory to the pool, as known now, and how many bytes each.

        Refreshed in the background, and soon after a fetch found a node unreachable or late. A
        returned mapping never changes: after a change there is a new one.
        """

    def distance(self, member: str) -> int:
        """The cost of the route to another member: less is nearer."""

    def publish(self, name: str, contents: Contents) -> Awaitable[Sealed]:
        """Sign a block and serve it; the result is the block as signed.

        The contents must not change before the block is withdrawn. A result that is not awaited
        starts with the next packet that is sent and ends without a wake-up.

        Raises:
            KVError: this node has published that name already, or the network is closed.
        """

    def publish_together(
        self, names: Sequence[str], contents: Sequence[Contents]
    ) -> Awaitable[Sequence[Sealed]]:
        """:meth:`publish` several blocks; it ends when all have ended.

        Raises:
            KVError: one of them cannot be published; the others may be.
        """

    def publish_sealed(self, name: str, block: Sealed) -> Awaitable[Sealed | None]:
        """Serve a block that another node signed.

        The contents must not change before the block is withdrawn.

        Returns:
            The block; ``None``, with nothing published, if these bytes were not signed under that
            name.

        Raises:
            KVError: as of :meth:`publish`.
        """

    def expect(self, name: str) -> None:
        """Let requesters of the object wait: it will be published or withdrawn."""

    def withdraw(self, name: str) -> None:
        """Stop serving the object; waiting requesters receive a Nack."""

    def end_serving(self, names: Sequence[str]) -> None:
        """Stop serving published objects that no requester waits for."""

    def fetch(self, name: str, source: str, timeout_s: float) -> Awaitable[Sealed | Cause]:
        """Fetch a block from the node ``source``, or from a cache on the path.

        Args:
            name: of a block.
            source: a node.
            timeout_s: until the fetch ends.

        Returns:
            The block, or why it did not arrive.
        """

    def request(
        self, member: str, action: str, timeout_s: float, attached: Sequence[str] = ()
    ) -> Awaitable[Sealed | Cause]:
        """Let ``member`` execute a request, once, and fetch the answer.

        Args:
            member: a node of the pool.
            action: the end of the request's name, from the verb on
                (:mod:`innet.kv.pool.requests`).
            timeout_s: until the request ends.
            attached: blocks that this node publishes, whose roots may go with it.

        Returns:
            The answer, or why it did not arrive.
        """

    def fetch_together(
        self, names: Sequence[str], source: str, timeout_s: float
    ) -> Awaitable[list[Sealed | Cause]]:
        """:meth:`fetch` several objects; it ends when all fetches have ended."""

    def probe(self, name: str, source: str, timeout_s: float) -> Awaitable[Cause | None]:
        """Why neither ``source`` nor a cache on the path has an object; ``None`` if one has.

        Fetches its root manifest.
        """

    def empty_cache(self) -> None:
        """Drop what this node's cache has of the tenant's names; published blocks stay."""

    def start_keeping(self, options: KeepOptions) -> None:
        """Keep, as far as possible, the blocks that other nodes ask this node to keep.

        :meth:`next_events` reports each block. The network serves it; until it is adopted,
        publishing something under its name replaces it, and withdrawing it has no effect. A network
        may leave all requests to its node.
        """

    def adopt(self, name: str) -> None:
        """Take over a kept block that is served, as if this node had published it."""

    def grant_room(self, room_bytes: int) -> None:
        """Acknowledge all reported blocks, adopted or not, and grant room for others.

        Args:
            room_bytes: for blocks that are not acknowledged yet, from now on.
        """

    def stop_keeping(self) -> None:
        """Pass all requests to this node, and drop kept blocks that are not adopted."""

    async def next_events(self) -> list[NetworkEvent]:
        """Wait for requests of other nodes, in their order.

        These are requests to this node, expected objects, and objects that were served.

        Raises:
            KVError: the network is closed.
        """

    def take_events(self) -> list[NetworkEvent]:
        """The events that :meth:`next_events` would return later, now.

        Empty when the network is closed.
        """
