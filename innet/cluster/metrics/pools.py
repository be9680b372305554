"""Metrics of pools of KV blocks, by node, tenant and engine.

Labels are bounded: a process has few pools, and places, causes and tiers are fixed lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from innet.telemetry.durations import DURATION_BOUNDS_S

_LABELS: Final = ["node", "tenant", "engine"]
_COUNTERS: Final = (
    ("lookups", "looked_up", "Blocks that lookups asked for"),
    ("lookups_found", "found", "Of the blocks looked up, those that were there"),
    ("loaded_bytes", "loaded_bytes", "Bytes of blocks that were got"),
    ("stored", "stored", "Blocks that were put"),
    ("stored_bytes", "stored_bytes", "Bytes of blocks that were put"),
    ("served", "served", "Blocks of this node that others asked for"),
)
_COUNTERS_BY: Final = (
    ("hits", "place", "Blocks got, by where they were"),
    ("misses", "cause", "Blocks that were not there, by why"),
    ("lost_copies", "cause", "Homes that did not keep a block that was put, by why"),
)
_OF_TIERS: Final = (
    (CounterMetricFamily, "evictions", "evicted", "Blocks that made room for others"),
    (GaugeMetricFamily, "blocks", "blocks", "Blocks in a tier"),
    (GaugeMetricFamily, "used_bytes", "used_bytes", "Bytes in a tier"),
    (GaugeMetricFamily, "capacity_bytes", "capacity_bytes", "Bytes that a tier may have"),
)
_TIMES: Final = (
    ("load_seconds", "load_times", "Time of gets that had a block"),
    ("store_seconds", "store_times", "Time of puts, until each home has or refuses the block"),
)
_BOUNDS: Final = (*(f"{bound_s:g}" for bound_s in DURATION_BOUNDS_S), "+Inf")

Pool = tuple[list[str], Mapping[str, Any]]
"""The values of the labels, and the counters."""


def pool_metrics(counters: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Metric]:
    """The metrics of pools, given each with the node that it is of."""
    pools = [([node, pool["tenant"], pool["engine"]], pool) for node, pool in counters]
    yield from _totals(pools)
    yield from _of_tiers(pools)
    yield from _times(pools)


def _totals(pools: Iterable[Pool]) -> Iterator[Metric]:
    for name, key, text in _COUNTERS:
        metric = CounterMetricFamily(f"innet_kv_{name}", text, labels=_LABELS)
        for labels, pool in pools:
            metric.add_metric(labels, float(pool[key]))
        yield metric
    for key, label, text in _COUNTERS_BY:
        metric = CounterMetricFamily(f"innet_kv_{key}", text, labels=[*_LABELS, label])
        for labels, pool in pools:
            for value, count in pool[key].items():
                metric.add_metric([*labels, value], float(count))
        yield metric


def _of_tiers(pools: Iterable[Pool]) -> Iterator[Metric]:
    for kind, name, key, text in _OF_TIERS:
        metric = kind(f"innet_kv_{name}", text, labels=[*_LABELS, "tier"])
        for labels, pool in pools:
            for tier, counters in pool["tiers"].items():
                metric.add_metric([*labels, tier], float(counters[key]))
        yield metric


def _times(pools: Iterable[Pool]) -> Iterator[Metric]:
    for name, key, text in _TIMES:
        metric = HistogramMetricFamily(f"innet_kv_{name}", text, labels=_LABELS)
        for labels, pool in pools:
            counts = accumulate(pool[key]["counts"])
            buckets = [(bound, float(n)) for bound, n in zip(_BOUNDS, counts, strict=True)]
            metric.add_metric(labels, buckets, pool[key]["sum_s"])
        yield metric
