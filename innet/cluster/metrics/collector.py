"""Turns the answers of a run's nodes into metrics, at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from innet.cluster.launch.run_status import RunStatus
from innet.cluster.metrics.families import OF_FACE, OF_LINK, OF_NODE, Family
from innet.cluster.metrics.pools import pool_metrics

Labelled = tuple[list[str], Mapping[str, Any]]
"""The values of the labels, and the document with the figures."""


class RunCollector(Collector):
    """Collects what ``read_status`` gives.

    ``innet_node_up`` is 1 for each node that answers and 0 for each that runs and does not.
    """

    def __init__(self, read_status: Callable[[], RunStatus]) -> None:
        self._read_status = read_status

    def describe(self) -> Iterable[Metric]:
        """Nothing: whoever registers the collector need not wait for a run to answer."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of the run now."""
        status = self._read_status()
        run = {key: getattr(status.run, key) for key in ("run_id", "topology", "mode")}
        yield InfoMetricFamily("innet_run", "The run that these metrics are of", value=run)
        up = GaugeMetricFamily("innet_node_up", "Whether a node answers", labels=["node"])
        for node in (*status.nodes, *status.silent):
            up.add_metric([node], float(node in status.nodes))
        yield up
        nodes = [([node], answer) for node, answer in status.nodes.items()]
        yield from _metrics(OF_NODE, ["node"], nodes)
        yield from _metrics(OF_FACE, ["node", "face", "peer"], list(_faces(status)))
        yield from _metrics(OF_LINK, ["node", "peer"], list(_links(status)))
        yield from pool_metrics(
            (node, pool) for node, answer in status.nodes.items() for pool in answer["pools"]
        )


def _metrics(
    families: Iterable[Family], labels: list[str], documents: Sequence[Labelled]
) -> Iterator[Metric]:
    for family in families:
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = kind(family.name, family.help, labels=labels)
        for values, document in documents:
            metric.add_metric(values, _value(document, family.path))
        yield metric


def _value(document: Mapping[str, Any], path: Iterable[str]) -> float:
    found: Any = document
    for key in path:
        found = found[key]
    return float(found)


def _faces(status: RunStatus) -> Iterator[Labelled]:
    for node, answer in status.nodes.items():
        for face in answer["links"]:
            yield [node, str(face["face"]), face["peer"]], face


def _links(status: RunStatus) -> Iterator[Labelled]:
    """The queues of the emulator, or of the kernel where it has them."""
    kernel = {(e.link.node, e.link.peer): e.counters for e in status.kernel_links}
    for node, answer in status.nodes.items():
        for face in answer["links"]:
            port = dict(face["port"])
            found = kernel.get((node, face["peer"]))
            if found is not None:
                port.update(
                    sent_bytes=found.bytes,
                    dropped_queue=found.drops,
                    depth_bytes=found.backlog_bytes,
                )
            yield [node, face["peer"]], port
