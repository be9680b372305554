"""What a process reports of its pool, for Prometheus and MQTT."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from innet.kv.pool.statistics import Cause, Place, PoolStatistics
from innet.printable import printable
from innet.telemetry.durations import Durations

_MOST_TENANT_CHARACTERS: Final = 64


def counters_of_pool(statistics: PoolStatistics, tenant: str, engine: str) -> dict[str, Any]:
    """The document of a pool, as :class:`innet.telemetry.messages.PoolCounters` has it.

    Names of places, causes and tiers are those of the enumerations, all of them from the start, so
    that the number of series does not grow while the pool is used.

    Args:
        statistics: of the pool.
        tenant: as people call it; cut to 64 characters.
        engine: that uses the pool.
    """
    return {
        "tenant": printable(tenant)[:_MOST_TENANT_CHARACTERS],
        "engine": engine,
        "hits": {place.name.lower(): statistics.hits[place] for place in Place},
        "misses": {cause.name.lower(): statistics.misses[cause] for cause in Cause},
        "looked_up": statistics.looked_up,
        "found": statistics.found,
        "loaded_bytes": statistics.hit_bytes,
        "stored": statistics.puts,
        "stored_bytes": statistics.put_bytes,
        "lost_copies": {cause.name.lower(): statistics.lost_copies[cause] for cause in Cause},
        "served": statistics.served,
        "load_times": _durations(statistics.load_times),
        "store_times": _durations(statistics.store_times),
        "tiers": {
            name.replace(" ", "_"): dataclasses.asdict(tier)
            for name, tier in statistics.tiers.items()
        },
    }


def _durations(durations: Durations) -> dict[str, Any]:
    return {"counts": durations.counts, "sum_s": durations.sum_s}
