"""One store, all requests one after the other: what a cache of that size can give at best.

A block is a hit when it and all blocks before it in its prompt are in the store as the request
arrives. The rate is over the blocks of all requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from innet.kv.block_store import BlockStore
from innet.kv.eviction import PolicyName
from innet.lab.traces import Request


@dataclass(frozen=True)
class ReferenceRates:
    """Hit rates that a design of a cluster is compared with. Made of plain values.

    Attributes:
        one_store: of one store with all memory of the cluster.
        ideal: of one store with memory for all blocks.
    """

    one_store: float
    ideal: float

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        capacity_blocks: int | None,
        policy: PolicyName,
        warm_up: int = 0,
    ) -> ReferenceRates:
        """The rates for ``requests``.

        Args:
            requests: of the replay.
            capacity_blocks: of the cluster; ``None``: all blocks.
            policy: that the store evicts by.
            warm_up: requests at the beginning that do not count.
        """
        ideal = hit_rate(requests, BlockStore(None), warm_up)
        if capacity_blocks is None:
            return cls(ideal, ideal)
        return cls(hit_rate(requests, BlockStore(capacity_blocks, policy), warm_up), ideal)


def hit_rate(requests: Iterable[Request], store: BlockStore, warm_up: int = 0) -> float:
    """The rate at which blocks are found in ``store``, which each request leaves its blocks in.

    The first ``warm_up`` requests do not count.

    >>> prompt = Request(0.0, 1024, 1, (b"a", b"b"))
    >>> hit_rate([prompt, prompt, prompt], BlockStore(None))
    0.6666666666666666
    """
    hits = asked = 0
    for number, request in enumerate(requests):
        if number >= warm_up:
            asked += len(request.blocks)
            hits += longest_prefix(request.blocks, store)
        for depth, block in enumerate(request.blocks):
            store.put(block, depth)
    return hits / asked if asked else 0.0


def longest_prefix(blocks: Iterable[bytes], store: BlockStore) -> int:
    """How many blocks from the first on are in ``store``; asking is no use of them."""
    count = 0
    for block in blocks:
        if block not in store:
            break
        count += 1
    return count
