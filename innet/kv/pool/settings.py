"""Everything about a pool that can be chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from innet.errors import KVError


@dataclass(frozen=True)
class PoolSettings:
    """How a pool behaves at one node. All nodes of a pool should have the same ``replicas``.

    Attributes:
        replicas: homes that are to keep a block.
        window: blocks that this node has on their way at once, those it loads and puts and, beside
            them, as many that its node fetches as their home, and as many that the pool has to.
        timeout_s: of a ``get`` or ``exists`` that names none, from its call to its end.
        put_timeout_s: of a ``put``, ``pin``, ``unpin`` or ``evict`` at a home.
        leave_out_s: how long a home that could not be reached is taken for absent.
        answer_s: how long the answer to a request can be asked for again.
        longest_lease_s: a lease that asks for more ends after this.
        puts: when a block goes to its homes: ``at-once``, as it is put; or ``when-asked``: they are
            told that this node has it, and get it from here when somebody asks. Until then it is
            lost if this node drops it or dies.
        keeps_fetched: whether this node keeps what it gets from others. Where caches on the way
            have it, that memory is better used for what is nowhere else.

    Raises:
        KVError: a value is out of its range.
    """

    replicas: int = 1
    window: int = 8
    timeout_s: float = 5.0
    put_timeout_s: float = 10.0
    leave_out_s: float = 5.0
    answer_s: float = 5.0
    longest_lease_s: float = 600.0
    puts: Literal["at-once", "when-asked"] = "at-once"
    keeps_fetched: bool = True

    def __post_init__(self) -> None:
        for what in ("replicas", "window"):
            if getattr(self, what) < 1:
                raise KVError(f"{what} of a pool is at least 1, not {getattr(self, what)}")
        for what in ("timeout_s", "put_timeout_s", "leave_out_s", "answer_s", "longest_lease_s"):
            if not 0 < getattr(self, what) < math.inf:
                raise KVError(f"{what} of a pool is above 0 and finite, not {getattr(self, what)}")
