"""What a pool of blocks needs of the network: blocks that are published, and fetched by name."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a network does by itself what others ask its node to keep.

    Attributes:
        answer: to a request that was done.
        window: of blocks that are fetched at once.
        fetch_s: until a block has to be here, once its turn has come.
        answer_s: how long an answer can be asked for again.
        room_bytes: of blocks that nobody has heard of yet.
    """

    answer: bytes
    window: int
    fetch_s: float
    answer_s: float
    room_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class KeptBlock:
    """A block that the network has fetched by itself, because others asked this node to keep it.

    Attributes:
        name: of the block.
        block: it.
        depth: its place in its prompt, as the request says.
        askers: the nodes that asked for it.
        is_served: whether the network serves it; or something was published under its name since.
    """

    name: str
    block: Sealed
    depth: int
    askers: Sequence[str]
    is_served: bool


@dataclass(frozen=True, slots=True, eq=False)
class TriedRequest:
    """A request to keep blocks that the network could not do by itself.

    Attributes:
        name: of the request.
        outcomes: for each of its blocks; ``None``: it was not tried to the end. Those that are here
            were told of.
    """

    name: str
    outcomes: Sequence[Outcome | None]


Asked = str | KeptBlock | TriedRequest
"""What a node was asked for: an object or a request, by its name; or what came of it already."""


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

    def keep_by_itself(self, keeping: Keeping) -> None:
        """Do without a further word, as far as possible, what others ask this node to keep.

        What came of it is among what :meth:`asked` tells. A block that is kept so is served; until
        it is adopted, publishing something under its name takes its place, and withdrawing it has
        no effect. A network may leave all requests to its node.
        """

    def adopt(self, name: str) -> None:
        """Take over a block that was kept so, and is served, as if it had been published here."""

    def hear_of_kept(self, blocks: int, size_bytes: int, room_bytes: int) -> None:
        """Say how many of the blocks that were kept so this node has heard of.

        Args:
            blocks: since the last call, adopted or not.
            size_bytes: of them.
            room_bytes: for others, from now on, with those that will still be heard of.
        """

    def keep_nothing_by_itself(self) -> None:
        """Leave all requests to this node, and drop what is not adopted."""

    async def asked(self) -> list[Asked]:
        """Wait for objects and requests that this node was asked for, in that order.

        These are requests, objects that are expected, and objects that were given.

        Raises:
            KVError: the network is closed.
        """

    def asked_by_now(self) -> list[Asked]:
        """What :meth:`asked` would tell of if it were waited for long enough, and now will not.

        Nothing when the network is closed.
        """
