"""Settings of a pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from innet.errors import KVError

PutTiming: TypeAlias = Literal["at-once", "when-asked", "balanced"]


@dataclass(frozen=True)
class PoolSettings:
    """How a pool behaves at one node. All nodes of a pool should have the same ``replicas``.

    Attributes:
        replicas: homes that keep a block.
        window: blocks of 1 MiB or more in flight at this node: its own loads and puts. Of smaller
            ones as many as have as many MiB, at most four times as many blocks. As much more is
            fetched by the node as their home; the pool fetches ``window`` blocks, whatever size.
        timeout_s: of each block that a ``get`` or ``exists`` without a timeout of its own looks
            for, from the start of its fetch. Blocks that wait for the window have not started.
        put_timeout_s: of a ``put``, ``pin``, ``unpin`` or ``evict`` at a home.
        leave_out_s: limit of the pause in which a home that keeps failing counts as absent; after
            its first silence it is asked again at once.
        answer_s: how long the answer to a request can be requested again.
        longest_lease_s: longer leases are cut to this.
        puts: when a block moves to its homes: ``at-once``, when it is put; or ``when-asked``: the
            homes learn that this node has it, and fetch it when a member requests it. Until then it
            is lost if this node drops it or dies. ``balanced``: it moves at once if its first home
            would keep it longer than this node, as the times tell that their next victims have
            waited for a use; otherwise as with ``when-asked``.
        keeps_fetched: whether this node keeps blocks that it fetched. Unless ``at-once``, they are
            copies in a store of blocks that are nowhere else, and so they are evicted first.
        copy_bytes_per_s: limit of copies to other homes when a member has gone or this node leaves.

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
    puts: PutTiming = "at-once"
    keeps_fetched: bool = True
    copy_bytes_per_s: int = 128 << 20

    @property
    def shares_store(self) -> bool:
        """Whether a node has one store for its own blocks and those that it is home to."""
        return self.puts != "at-once"

    def __post_init__(self) -> None:
        for what in ("replicas", "window", "copy_bytes_per_s"):
            if getattr(self, what) < 1:
                raise KVError(f"{what} of a pool is at least 1, not {getattr(self, what)}")
        for what in ("timeout_s", "put_timeout_s", "leave_out_s", "answer_s", "longest_lease_s"):
            if not 0 < getattr(self, what) < math.inf:
                raise KVError(f"{what} of a pool is above 0 and finite, not {getattr(self, what)}")
