"""Metrics of an index for Prometheus: blocks of members, and what was skipped of their streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from innet.kv.events.follower import StreamStatus

METRICS_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_PREFIX: Final = "innet_kv_index_"
_COUNTERS: Final = {
    "batches": "Batches of KV events that were applied",
    "unknown_events": "Events of types that this version does not know",
    "invalid_events": "Events with missing or impossible fields",
    "invalid_messages": "Messages that are no batch",
    "lost_batches": "Batches that their publisher no longer had",
}
"""Fields of :class:`StreamStatus`."""


def index_metrics(blocks: Mapping[str, int], streams: Sequence[StreamStatus]) -> bytes:
    """The metrics as text.

    Args:
        blocks: of each member.
        streams: that the index follows.
    """
    registry = CollectorRegistry()
    registry.register(_Collector(blocks, streams))
    return generate_latest(registry)


class _Collector(Collector):
    def __init__(self, blocks: Mapping[str, int], streams: Sequence[StreamStatus]) -> None:
        self._blocks = blocks
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        held = GaugeMetricFamily(f"{_PREFIX}blocks", "Blocks of a member", labels=["member"])
        for member, count in self._blocks.items():
            held.add_metric([member], count)
        yield held
        for name, help_text in _COUNTERS.items():
            family = CounterMetricFamily(
                f"{_PREFIX}{name}", help_text, labels=["stream", "address"]
            )
            for status in self._streams:
                family.add_metric([status.stream, status.address], getattr(status, name))
            yield family
