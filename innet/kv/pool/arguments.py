"""What callers of a pool may give it; anything else is told to them."""

from __future__ import annotations

import math

import numpy as np

from innet.errors import KVError
from innet.kv.pool.network import Contents
from innet.kv.requests import MAX_NUMBER


def checked_contents(contents: Contents) -> Contents:
    """The bytes of a block, without gaps between them.

    Raises:
        KVError: they are no bytes in one dimension.
    """
    if contents.dtype != np.uint8 or contents.ndim != 1 or not contents.size:
        raise KVError(
            f"a block is an array of bytes in one dimension, not {contents.dtype} of shape "
            f"{contents.shape}; use array.reshape(-1).view(numpy.uint8)"
        )
    return np.ascontiguousarray(contents)


def checked_depth(depth: int) -> int:
    """A block's place in its prompt.

    Raises:
        KVError: it cannot stand in a request.
    """
    if not 0 <= depth <= MAX_NUMBER:
        raise KVError(f"the depth of a block is from 0 to {MAX_NUMBER}, not {depth}")
    return depth


def checked_timeout(timeout_s: float | None, default_s: float) -> float:
    """A timeout, or what stands for none.

    Raises:
        KVError: it is negative or infinite.
    """
    if timeout_s is None:
        return default_s
    if not 0 <= timeout_s < math.inf:
        raise KVError(f"a timeout is a number of seconds from 0 on, not {timeout_s}")
    return timeout_s


def checked_lease(lease_s: float) -> float:
    """The length of a lease.

    Raises:
        KVError: it is not above 0, or infinite.
    """
    if not 0 < lease_s < math.inf:
        raise KVError(f"a lease has a length in seconds above 0, not {lease_s}")
    return lease_s


def filled(into: Contents, contents: Contents) -> Contents:
    """The beginning of ``into``, with a copy of ``contents``.

    Raises:
        KVError: there is not so much room.
    """
    if into.nbytes < contents.nbytes:
        raise KVError(f"a block of {contents.nbytes} bytes is to go into {into.nbytes}")
    into[: contents.nbytes] = contents
    return into[: contents.nbytes]
