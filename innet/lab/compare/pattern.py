"""Tensors that every rank can compute, so that it can verify each sum in full.

All values are whole numbers below 2**24: float32 holds every partial sum exactly, and the order of
the additions, which differs between the contenders, makes no difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError

FloatArray = npt.NDArray[np.float32]

# Primes: no segment size is a multiple of one, so a misplaced segment never fits its new place.
_PERIOD = 4093
_TURNS = 64
# Among thousands of ranks, some contribute the same values, which are smaller.
_PERIOD_OF_MANY = 509
_DIFFERENT_OF_MANY = 251
_EXACT_FLOAT32 = 1 << 24


class Pattern:
    """The contributions of all ranks to an allreduce of one size, and their sum.

    >>> pattern = Pattern(size_bytes=16, ranks=2)
    >>> pattern.contribution(rank=1, turn=0)
    array([1., 2., 3., 4.], dtype=float32)
    >>> pattern.total(turn=0)
    array([1., 3., 5., 7.], dtype=float32)
    """

    def __init__(self, size_bytes: int, ranks: int) -> None:
        """Args:
        size_bytes: of each contribution; a multiple of 4.
        ranks: number of contributions."""
        if size_bytes <= 0 or size_bytes % 4:
            raise CollectiveError(
                f"{size_bytes} bytes are not a whole number of float32 elements. "
                "Give a size that is a multiple of 4 bytes."
            )
        period, self._different = _PERIOD, ranks
        if not _is_exact(ranks, period, self._different):
            period, self._different = _PERIOD_OF_MANY, _DIFFERENT_OF_MANY
        if not _is_exact(ranks, period, self._different):
            raise CollectiveError(
                f"the sum of {ranks} ranks is not exact in float32, so it cannot be checked. "
                "Compare on a topology with fewer hosts."
            )
        self._ranks = ranks
        self._base = (np.arange(size_bytes // 4) % period).astype(np.float32)

    def contribution(self, rank: int, turn: int) -> FloatArray:
        """The tensor of ``rank``; it differs between turns, so that a stale result is detected."""
        return self._base + np.float32(rank % self._different + turn % _TURNS)

    def total(self, turn: int) -> FloatArray:
        """The sum over all ranks."""
        ranks = self._ranks
        shift = sum(rank % self._different for rank in range(ranks)) + ranks * (turn % _TURNS)
        return self._base * np.float32(ranks) + np.float32(shift)


def _is_exact(ranks: int, period: int, different: int) -> bool:
    """Whether float32 holds the sum of all ranks' largest values."""
    return ranks * (period + _TURNS + different) < _EXACT_FLOAT32
