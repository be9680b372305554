"""The digest of a model's weights, which is part of the model's identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Weight = tuple[str, str, tuple[int, ...], npt.NDArray[Any]]
"""A tensor: its name, the name of its type, its shape, and its contents in an array of any type."""

_LENGTH_BYTES = 8


def weights_digest(tensors: Iterable[Weight]) -> str:
    """The identity of weights: ``sha256:`` and 64 hexadecimal digits.

    The SHA-256 of all tensors in the order of their names, of each: its name, the name of its type,
    its shape as text (``4x8``) and its bytes, each with its length in 8 bytes before it.

    Args:
        tensors: in any order.

    >>> weights_digest([("w", "f32", (2,), np.zeros(2, np.float32))])[:7]
    'sha256:'
    """
    digest = hashlib.sha256()
    for name, dtype, shape, contents in sorted(tensors, key=lambda tensor: tensor[0]):
        data = np.ascontiguousarray(contents).reshape(-1).view(np.uint8).data
        for part in (name.encode(), dtype.encode(), "x".join(map(str, shape)).encode(), data):
            digest.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"
