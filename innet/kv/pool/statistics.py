"""What a pool has done at one node, by place and by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from innet.kv.pool.network import Outcome
from innet.telemetry.durations import Durations


class Place(Enum):
    """Where a block was found."""

    LOCAL_MEMORY = "local memory"
    LOCAL_DISK = "local disk"
    HOME_MEMORY = "own home's memory"
    """This node is a home of the block."""
    HOME_DISK = "own home's disk"
    PRODUCER = "producer"
    """This node is a home of the block, and had to get it from where it was put."""
    NETWORK = "network"
    """A home, or a cache on the way to it."""


class Cause(Enum):
    """Why a block was not found, or not kept. The first that was met counts."""

    NO_HOME = "no home"
    ABSENT = "absent"
    LATE = "late"
    UNTRUSTED = "untrusted"
    UNREACHABLE = "unreachable"
    AFTER_GAP = "after a gap"
    """A block before it in its prompt was not found, so nobody looked for this one."""
    REFUSED = "refused"
    """A home had no room for it, or could not get it."""


OUTCOME_CAUSES: Mapping[Outcome, Cause] = {
    Outcome.ABSENT: Cause.ABSENT,
    Outcome.LATE: Cause.LATE,
    Outcome.UNTRUSTED: Cause.UNTRUSTED,
    Outcome.UNREACHABLE: Cause.UNREACHABLE,
}


@dataclass(frozen=True)
class TierStatistics:
    """One tier of a store.

    Attributes:
        blocks: that it has.
        used_bytes: of its capacity.
        capacity_bytes: that it may have.
        pinned_bytes: that it may not drop.
        evicted: blocks that it dropped for others.
        damaged: blocks that were not what they had been when it was asked for them.
        failed: blocks that it could not write or read.
    """

    blocks: int
    used_bytes: int
    capacity_bytes: int
    pinned_bytes: int
    evicted: int
    damaged: int = 0
    failed: int = 0


@dataclass
class PoolStatistics:
    """What a pool has done at one node since it was opened.

    Attributes:
        hits: blocks got, by where they were.
        misses: blocks asked for and not there, by gets and by lookups.
        looked_up: blocks that ``exists`` and ``count_prefix`` were asked for.
        found: of these, the blocks that were there; of a prompt's, those before the first gap.
        hit_bytes: of the blocks got.
        shared: gets that another get's fetch has served.
        puts: blocks put.
        put_bytes: of them.
        copies: how many homes have kept them, all together.
        lost_copies: homes that did not keep one.
        kept: blocks that this node keeps as a home at others' request, by asker.
        brought: blocks that this node got as a home when somebody asked for them first.
        refused: requests of others that were not done, by what the answer says.
        served: times that blocks of this node were asked for by others.
        tiers: by ``local memory``, ``local disk``, ``home memory``, ``home disk``, or ``shared
            memory`` and ``shared disk`` where one store is both.
        load_times: of gets that had a block.
        store_times: of puts, until each home has the block or does not keep it.
    """

    hits: Counter[Place] = field(default_factory=Counter)
    misses: Counter[Cause] = field(default_factory=Counter)
    looked_up: int = 0
    found: int = 0
    hit_bytes: int = 0
    shared: int = 0
    puts: int = 0
    put_bytes: int = 0
    copies: int = 0
    lost_copies: Counter[Cause] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    brought: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    served: int = 0
    tiers: dict[str, TierStatistics] = field(default_factory=dict)
    load_times: Durations = field(default_factory=Durations)
    store_times: Durations = field(default_factory=Durations)

    @property
    def hit_rate(self) -> float:
        """Blocks that were there of those asked for; 0 before the first.

        Where blocks are looked up, it is the part of these that was found: who looks up first gets
        only what is there. Without lookups, it is the part of the gets that had a block.
        """
        if self.looked_up:
            return self.found / self.looked_up
        asked = self.hits.total() + self.misses.total()
        return self.hits.total() / asked if asked else 0.0
