"""Contents of blocks that nobody has computed: they follow from the blocks' hashes."""

from __future__ import annotations

import numpy as np

from innet.kv.pool.network import Contents


class SyntheticContents:
    """Bytes that look random and are another block's nowhere, so that what is fetched can be told.

    Example:
        >>> contents = SyntheticContents(1000)
        >>> contents.is_of(contents.of(b"a"), b"a"), contents.is_of(contents.of(b"a"), b"b")
        (True, False)

    Attributes:
        size_bytes: of each block.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def of(self, block: bytes) -> Contents:
        """The contents of the block with that hash."""
        random = np.random.Generator(np.random.SFC64(int.from_bytes(block, "big")))
        return np.frombuffer(random.bytes(self.size_bytes), np.uint8)

    def is_of(self, contents: Contents, block: bytes) -> bool:
        """Whether these are the contents of the block with that hash, all of them."""
        return np.array_equal(contents, self.of(block))
