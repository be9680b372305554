"""What a store of blocks must provide to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Blocks = npt.NDArray[np.uint8]
"""Blocks of equal size, one below the other: ``(blocks, bytes of one)``."""


class StoreClient(Protocol):
    """A client of a store in another process.

    Every store is used in the way that is fastest for it. A put has ended when another client would
    find the block; a get, when its bytes are in this process.
    """

    version: str
    """What is measured, for the report."""

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Get ready to put the rows of ``source`` and to get into those of ``landing``."""
        ...

    def put(self, key: str, row: int) -> None:
        """Put a row of the source."""
        ...

    def get(self, key: str, row: int) -> None:
        """Get a block that is there, for a row of the landing."""
        ...

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Put all rows, at most ``outstanding`` at once."""
        ...

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Get all rows, at most ``outstanding`` at once."""
        ...

    def landed(self) -> Blocks:
        """What the gets since :meth:`load` have brought."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Let the store drop these blocks."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...
