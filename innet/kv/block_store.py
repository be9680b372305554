"""Which blocks a node has: as many as it has room for, chosen by a policy."""

from __future__ import annotations

from innet.kv.eviction import PolicyName, make_policy


class BlockStore:
    """The blocks that are kept, without their bytes.

    Example:
        >>> store = BlockStore(2)
        >>> [store.put(block, depth) for depth, block in enumerate((b"a", b"b", b"c"))]
        [[], [], [b'a']]
        >>> b"a" in store, store.use(b"b")
        (False, True)

    Attributes:
        capacity_blocks: the most that it keeps; ``None``: all.
    """

    def __init__(self, capacity_blocks: int | None, policy: PolicyName = "lru") -> None:
        self.capacity_blocks = capacity_blocks
        self._policy = None if capacity_blocks is None else make_policy(policy, capacity_blocks)
        self._kept: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, block: bytes) -> bool:
        """Whether the block is kept; asking this is no use of it."""
        return block in self._kept

    def use(self, block: bytes) -> bool:
        """Whether the block is kept; if so, it was asked for."""
        if block not in self._kept:
            return False
        if self._policy is not None:
            self._policy.use(block)
        return True

    def demote(self, block: bytes) -> None:
        """Let a block that is kept be the next to go, unless it is asked for before."""
        if self._policy is not None:
            self._policy.demote(block)

    def put(self, block: bytes, depth: int) -> list[bytes]:
        """Keep a block; what had to go for it. It may be the block itself.

        A block that is there already was asked for.

        Args:
            block: its hash.
            depth: its place in the prompt, from 0.
        """
        if self.use(block):
            return []
        self._kept.add(block)
        if self._policy is None or self.capacity_blocks is None:
            return []
        self._policy.insert(block, depth)
        if len(self._kept) <= self.capacity_blocks:
            return []
        victim = self._policy.take_victim()
        self._kept.remove(victim)
        return [victim]

    def clear(self) -> None:
        """Forget all blocks."""
        for block in self._kept:
            if self._policy is not None:
                self._policy.remove(block)
        self._kept.clear()
