"""Counters of a pool at one node, by place and cause, and their form in metrics."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from innet.kv.pool.network import Cause
from innet.printable import printable
from innet.telemetry.durations import Ages, Durations

_MOST_LABEL_CHARACTERS: Final = 64
MOST_FAULT_CHARACTERS: Final = 500


class Place(Enum):
    """The place of a block that was found."""

    LOCAL_MEMORY = "local memory"
    LOCAL_DISK = "local disk"
    LOCAL_OBJECTS = "local objects"
    """An object storage behind the local disk."""
    HOME_MEMORY = "own home's memory"
    """This node is a home of the block."""
    HOME_DISK = "own home's disk"
    HOME_OBJECTS = "own home's objects"
    PRODUCER = "producer"
    """This node is a home of the block, and fetched it from its producer."""
    NETWORK = "network"
    """A home, or a cache on the path to it."""


@dataclass(frozen=True)
class TierStatistics:
    """One tier of a store.

    Attributes:
        blocks: in the tier.
        used_bytes: of its capacity.
        capacity_bytes: its limit.
        pinned_bytes: that it may not evict.
        evicted: blocks that made room for others.
        damaged: blocks that were read back with other bytes than were written.
        failed: blocks that it could not write or read.
        fault: why it cannot write blocks now; empty: it can.
        eviction_ages: how long the evicted blocks were in the tier.
    """

    blocks: int
    used_bytes: int
    capacity_bytes: int
    pinned_bytes: int
    evicted: int
    damaged: int = 0
    failed: int = 0
    fault: str = ""
    eviction_ages: Ages = field(default_factory=Ages)


@dataclass
class PoolStatistics:
    """Counters of a pool at one node since it was opened.

    Attributes:
        hits: blocks that a get returned, by place.
        misses: blocks that a get or a lookup did not find, by cause.
        looked_up: blocks that ``exists`` and ``count_prefix`` were asked for.
        found: of these, the blocks that exist; of a prompt's, those before the first gap.
        hit_bytes: of the blocks that gets returned.
        shared: gets that waited for another get's fetch.
        puts: blocks put.
        put_bytes: of them.
        lost_copies: homes that did not keep one, by cause.
        kept: blocks that this node keeps as a home, by requester.
        brought: blocks that this node fetched as a home at their first request.
        replicated: copies of its blocks that other homes keep at this node's request.
        refused: requests of others that were not done, by the answer's cause.
        served: times that others requested blocks of this node.
        tiers: by ``local memory``, ``local disk``, ``local objects``, and the same of ``home``, or
            of ``shared`` where one store is both.
        load_times: of gets that returned a block.
        store_times: of puts, until each home has the block or has refused it.
    """

    hits: Counter[Place] = field(default_factory=Counter)
    misses: Counter[Cause] = field(default_factory=Counter)
    looked_up: int = 0
    found: int = 0
    hit_bytes: int = 0
    shared: int = 0
    puts: int = 0
    put_bytes: int = 0
    lost_copies: Counter[Cause] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    brought: int = 0
    replicated: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    served: int = 0
    tiers: dict[str, TierStatistics] = field(default_factory=dict)
    load_times: Durations = field(default_factory=Durations)
    store_times: Durations = field(default_factory=Durations)

    @property
    def delivered(self) -> int:
        """Blocks that others loaded from this node. A block that it fetched as a home at their
        request counts at its producer."""
        return self.served - self.brought

    @property
    def hit_rate(self) -> float:
        """Found blocks over requested blocks; 0 before the first.

        With lookups, it is the part of these that was found: a caller that looks up first gets only
        existing blocks. Without lookups, it is the part of the gets that returned a block.
        """
        if self.looked_up:
            return self.found / self.looked_up
        asked = self.hits.total() + self.misses.total()
        return self.hits.total() / asked if asked else 0.0

    def count_lookup(self, found: int, gap: Cause | None, looked_up: int) -> None:
        """Count a lookup of blocks in order: the first ``found`` exist, the next does not."""
        self.looked_up += looked_up
        self.found += found
        if gap is not None:
            self.misses[gap] += 1
            if after := looked_up - found - 1:
                self.misses[Cause.AFTER_GAP] += after

    def count_puts(
        self, ends: Sequence[Sequence[Cause | None]], size_bytes: int, duration_s: float
    ) -> None:
        """Count blocks that were put together, by their ends at their homes."""
        self.puts += len(ends)
        self.put_bytes += size_bytes
        self.store_times.add(duration_s, len(ends))
        for each in ends:
            for end in each:
                if end is not None:
                    self.lost_copies[end] += 1

    def counters(self, tenant: str, engine: str, model: str = "") -> dict[str, Any]:
        """The document of a pool, as :class:`innet.telemetry.messages.PoolCounters` has it.

        It has all places and causes from the start, so that the number of series does not grow
        while the pool is used.

        Args:
            tenant: its name for people; cut to 64 characters.
            engine: that uses the pool.
            model: whose blocks they are; cut as well.
        """
        return {
            "tenant": printable(tenant)[:_MOST_LABEL_CHARACTERS],
            "engine": engine,
            "model": printable(model)[:_MOST_LABEL_CHARACTERS],
            "hits": {place.name.lower(): self.hits[place] for place in Place},
            "misses": {cause.name.lower(): self.misses[cause] for cause in Cause},
            "looked_up": self.looked_up,
            "found": self.found,
            "loaded_bytes": self.hit_bytes,
            "stored": self.puts,
            "stored_bytes": self.put_bytes,
            "lost_copies": {cause.name.lower(): self.lost_copies[cause] for cause in Cause},
            "served": self.served,
            "replicated": self.replicated,
            "load_times": _durations(self.load_times),
            "store_times": _durations(self.store_times),
            "tiers": {
                name.replace(" ", "_"): {
                    **dataclasses.asdict(tier),
                    "fault": printable(tier.fault)[:MOST_FAULT_CHARACTERS],
                }
                for name, tier in self.tiers.items()
            },
        }


def _durations(durations: Durations) -> dict[str, Any]:
    return {"counts": durations.counts, "sum_s": durations.sum_s}
