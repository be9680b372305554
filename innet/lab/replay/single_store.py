"""One store for all requests of a replay: the hit rates with which every design is compared.

A block is a hit when it and all blocks before it in its prompt are in the store as the request
arrives. The rate is over the blocks of all requests.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from innet.kv.eviction import PolicyName, make_policy
from innet.lab.traces import PromptRequest

_NEVER: Final = 1 << 62


class BlockStore:
    """The blocks of a node, up to a capacity; a policy evicts.

    Example:
        >>> store = BlockStore(2)
        >>> [store.put(block, depth) for depth, block in enumerate((b"a", b"b", b"c"))]
        [[], [], [b'a']]
        >>> b"a" in store, store.use(b"b")
        (False, True)

    Attributes:
        capacity_blocks: its limit; ``None``: unlimited.
    """

    def __init__(
        self,
        capacity_blocks: int | None,
        policy: PolicyName = "lru",
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``clock``: for :attr:`next_wait_s`."""
        self.capacity_blocks = capacity_blocks
        self._clock = clock
        self._used_s: dict[bytes, float] = {}
        self._policy = None if capacity_blocks is None else make_policy(policy, capacity_blocks)
        self._kept: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, block: object) -> bool:
        """Whether the store has the block; does not count as a use."""
        return block in self._kept

    @property
    def next_wait_s(self) -> float:
        """See :attr:`innet.kv.pool.tiers.BlockTier.next_wait_s`."""
        if self.capacity_blocks is None or len(self._kept) < self.capacity_blocks:
            return math.inf
        victim = None if self._policy is None else self._policy.next_victim()
        if victim is None:
            return math.inf
        return (self._clock() - self._used_s[victim.block]) / victim.patience

    def use(self, block: bytes) -> bool:
        """Whether the store has the block; if so, it counts as used."""
        if block not in self._kept:
            return False
        self._used_s[block] = self._clock()
        if self._policy is not None:
            self._policy.use(block)
        return True

    def demote(self, block: bytes) -> None:
        """Evict a block before all that are not demoted."""
        if self._policy is not None:
            self._policy.demote(block)

    def put(self, block: bytes, depth: int, *, is_copy: bool = False) -> list[bytes]:
        """Keep a block; returns the victims, which may include it.

        A block that the store has already counts as used.

        Args:
            block: its hash.
            depth: its position in the prompt, from 0.
            is_copy: another store has the block, so it is evicted first.
        """
        if self.use(block):
            return []
        self._kept.add(block)
        self._used_s[block] = self._clock()
        if self._policy is None or self.capacity_blocks is None:
            return []
        self._policy.insert(block, depth)
        if is_copy:
            self._policy.demote(block)
        if len(self._kept) <= self.capacity_blocks:
            return []
        victim = self._policy.take_victim()
        self._kept.remove(victim)
        del self._used_s[victim]
        return [victim]


@dataclass(frozen=True)
class ReferenceRates:
    """Hit rates with which a design is compared.

    Attributes:
        one_store: of one store with all memory of the cluster.
        belady: of the best choice of victims in a store with that memory.
        ideal: of one store with memory for all blocks.
    """

    one_store: float
    belady: float
    ideal: float

    @classmethod
    def of(
        cls,
        requests: Sequence[PromptRequest],
        capacity_blocks: int | None,
        policy: PolicyName,
        warm_up: int = 0,
    ) -> ReferenceRates:
        """The rates for ``requests``.

        Args:
            requests: of the replay.
            capacity_blocks: of the cluster; ``None``: all blocks.
            policy: of the store.
            warm_up: requests at the beginning that do not count.
        """
        ideal = hit_rate(requests, BlockStore(None), warm_up)
        if capacity_blocks is None:
            return cls(ideal, ideal, ideal)
        return cls(
            hit_rate(requests, BlockStore(capacity_blocks, policy), warm_up),
            belady_rate(requests, capacity_blocks, warm_up),
            ideal,
        )


def hit_rate(requests: Iterable[PromptRequest], store: BlockStore, warm_up: int = 0) -> float:
    """The hit rate of ``store``, which keeps the blocks of each request.

    The first ``warm_up`` requests do not count.

    >>> prompt = PromptRequest(0.0, 1024, 1, (b"a", b"b"))
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


def belady_rate(requests: Sequence[PromptRequest], capacity_blocks: int, warm_up: int = 0) -> float:
    """The most hits of any store or cluster of that capacity that serves one request at a time.

    MIN evicts the block whose next request is the furthest, be it the newest one (L. Belady, "A
    study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 1966). A
    request for a block requests those before it first, so MIN never keeps a block without its
    prefix: it maximises hits of prefixes, too. The first ``warm_up`` requests do not count.

    >>> prompts = [PromptRequest(0.0, 512, 1, (block,)) for block in (b"a", b"b", b"c", b"a", b"b")]
    >>> hit_rate(prompts, BlockStore(2)), belady_rate(prompts, 2)
    (0.0, 0.4)
    """
    sequence = [block for request in requests for block in request.blocks]
    first = sum(len(request.blocks) for request in requests[:warm_up])
    next_uses = _next_uses(sequence, first)
    kept: dict[bytes, int] = {}
    furthest: list[tuple[int, bytes]] = []
    hits = 0
    for now, (block, next_use) in enumerate(zip(sequence, next_uses, strict=True)):
        hits += kept.pop(block, None) is not None and now >= first
        if next_use == _NEVER:
            continue
        kept[block] = next_use
        heapq.heappush(furthest, (-next_use, block))
        while len(kept) > capacity_blocks:
            negative_use, victim = heapq.heappop(furthest)
            if kept.get(victim) == -negative_use:
                del kept[victim]
    counted = len(sequence) - first
    return hits / counted if counted else 0.0


def _next_uses(sequence: Sequence[bytes], first: int) -> list[int]:
    """When each block is requested next, from ``first`` on."""
    upcoming: dict[bytes, int] = {}
    next_uses = [_NEVER] * len(sequence)
    for now in range(len(sequence) - 1, -1, -1):
        next_uses[now] = upcoming.get(sequence[now], _NEVER)
        if now >= first:
            upcoming[sequence[now]] = now
    return next_uses


def longest_prefix(blocks: Iterable[bytes], store: Container[bytes]) -> int:
    """Number of leading blocks that ``store`` has; does not count as a use."""
    count = 0
    for block in blocks:
        if block not in store:
            break
        count += 1
    return count
