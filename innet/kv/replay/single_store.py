"""One store, all requests one after the other: what a cache of that size can give at best.

A block is a hit when it and all blocks before it in its prompt are in the store as the request
arrives. The rate is over the blocks of all requests.
"""

from __future__ import annotations

from collections.abc import Iterable

from innet.kv.block_store import BlockStore
from innet.kv.traces import Request


def hit_rate(requests: Iterable[Request], store: BlockStore) -> float:
    """The rate at which blocks are found in ``store``, which each request leaves its blocks in.

    >>> prompt = Request(0.0, 1024, 1, (b"a", b"b"))
    >>> hit_rate([prompt, prompt, prompt], BlockStore(None))
    0.6666666666666666
    """
    hits = asked = 0
    for request in requests:
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
