"""Sums of sparse vectors: reductions whose keys are places in a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from innet.collectives.arrays import Array
from innet.collectives.keyed.exchange import KeysAndValues
from innet.collectives.staged import Steps
from innet.errors import CollectiveError


def as_keys(indices: Array, size: int) -> Array:
    """Indices into a vector of ``size`` elements as keys, of the smallest type that holds them.

    Raises:
        CollectiveError: some are no places in the vector.
    """
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        raise CollectiveError(f"indices of {indices.dtype} are no whole numbers")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise CollectiveError(
            f"indices from {indices.min()} to {indices.max()} are not all within the "
            f"{size} elements of the vector"
        )
    return indices.astype(np.uint32 if size <= 1 << 32 else np.uint64)


def as_vector(steps: Steps[KeysAndValues | None], size: int, dtype: np.dtype[Any]) -> Steps[Array]:
    """The steps of a sum by key, whose result is laid out as a vector of ``size`` elements."""
    summed = yield from steps
    vector = np.zeros(size, dtype)
    if summed is not None:
        indices, values = summed
        vector[indices] = values
    return vector
