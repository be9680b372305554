"""Lists, purges and pins the blocks of all processes of a pool, as one of them asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from innet.errors import KVError
from innet.kv.pool.bulk_work import BulkWork
from innet.kv.pool.inventory import (
    MAX_NUMBER,
    BlockFilter,
    BulkAnswer,
    BulkRequest,
    FamilyInventory,
    Verb,
)
from innet.kv.pool.network import Cause
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.waiting import gather

HOLD_S: Final = 10.0
"""Purged blocks are refused for this long: copies of them may be on their way."""
DEFAULT_TIMEOUT_S: Final = 60.0
"""Of a request to a process, which may have many blocks on a disk."""
_MOST_PASSES: Final = 4

BulkProgress = Callable[[int, int], None]
"""Is called with the processes that have answered, and with all."""


@dataclass
class BulkResult:
    """What the processes of a pool have, or have done.

    Attributes:
        nodes: the blocks of each process that has answered.
        failed: why the others have not, by node.
    """

    nodes: dict[str, list[FamilyInventory]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Copies of blocks, at all processes."""
        return sum(family.blocks for families in self.nodes.values() for family in families)

    @property
    def size_bytes(self) -> int:
        """Bytes of all copies."""
        return sum(family.size_bytes for families in self.nodes.values() for family in families)

    def families(self) -> list[FamilyInventory]:
        """The blocks of all processes, by model and layout."""
        found: dict[tuple[str, str], FamilyInventory] = {}
        for families in self.nodes.values():
            for family in families:
                group = family.model_digest, family.layout
                if group in found:
                    found[group].add(family)
                else:
                    found[group] = family.model_copy(deep=True)
        return list(found.values())

    def add(self, other: BulkResult) -> None:
        """Add another request's."""
        for node, families in other.nodes.items():
            self.nodes.setdefault(node, []).extend(families)
        self.failed |= other.failed


class Administration:
    """Requests to all processes of a pool, for many blocks at once."""

    def __init__(self, node: PoolNode, work: BulkWork) -> None:
        """
        Args:
            node: this node's part of the pool.
            work: this node's part of the requests.
        """
        self._node = node
        self._work = work

    async def inventory(
        self, blocks: BlockFilter, nodes: Iterable[str] = (), timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> BulkResult:
        """The blocks of all processes.

        Args:
            blocks: of interest.
            nodes: processes that offer no memory, beside the members, this node and itself.
            timeout_s: until a process has answered.
        """
        return await self._all("list", blocks, 0, nodes, timeout_s, None)

    async def purge(
        self,
        blocks: BlockFilter,
        nodes: Iterable[str] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
        progress: BulkProgress | None = None,
    ) -> BulkResult:
        """Drop blocks from all tiers of all processes, pinned or not.

        For :data:`HOLD_S` they are refused, so that no copy that was on its way brings them back.
        Passes are repeated until no process has any. Caches of nodes without a part in the pool
        are not emptied (see :meth:`innet.kv.pool_member.PoolMember.purge`).
        """
        nodes = tuple(nodes)
        result = await self._all("purge", blocks, _ms(HOLD_S), nodes, timeout_s, progress)
        for _ in range(_MOST_PASSES):
            again = await self._all("purge", blocks, _ms(HOLD_S), nodes, timeout_s, None)
            result.add(again)
            result.failed = again.failed
            if not again.blocks:
                break
        return result

    async def pin(
        self,
        blocks: BlockFilter,
        lease_s: float,
        nodes: Iterable[str] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> BulkResult:
        """Protect blocks from eviction where they are, as far as half of each tier has room.

        Args:
            blocks: all of these.
            lease_s: for how long, cut to the settings' ``longest_lease_s`` of each process; 0: end
                what was pinned this way.
            nodes: see :meth:`inventory`.
            timeout_s: until a process has answered.

        Raises:
            KVError: the lease is negative.
        """
        if not 0 <= lease_s < math.inf:
            raise KVError(f"a lease has a length in seconds from 0 on, not {lease_s}")
        return await self._all("hold", blocks, _ms(lease_s), nodes, timeout_s, None)

    async def _all(
        self,
        verb: Verb,
        blocks: BlockFilter,
        duration_ms: int,
        nodes: Iterable[str],
        timeout_s: float,
        progress: BulkProgress | None,
    ) -> BulkResult:
        own = self._node.network.node
        everyone = sorted({own, *self._node.network.members(), *nodes})
        requests = [BulkRequest(verb, part, duration_ms) for part in blocks.parts()]
        result = BulkResult()

        async def ask(node: str) -> None:
            for request in requests:
                answer = await self._ask(node, request, timeout_s)
                if isinstance(answer, str):
                    result.failed[node] = answer
                    break
                result.nodes.setdefault(node, []).extend(answer)
            if progress is not None:
                progress(len({*result.nodes, *result.failed}), len(everyone))

        await gather([ask(node) for node in everyone])
        return result

    async def _ask(
        self, node: str, request: BulkRequest, timeout_s: float
    ) -> Sequence[FamilyInventory] | str:
        """What a process says, or why it does not."""
        if node == self._node.network.node:
            answer = await self._work.execute(request)
        else:
            sealed = await self._node.network.request(node, request.action(), timeout_s)
            if isinstance(sealed, Cause):
                return sealed.value
            answer = BulkAnswer.decode(sealed.contents)
        return answer.families if answer.done else answer.cause


def _ms(seconds: float) -> int:
    return min(MAX_NUMBER, round(seconds * 1000))
