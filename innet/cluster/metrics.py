"""Metrics of a run for Prometheus, read from the nodes' status at each scrape, served on loopback.

The native node describes its own counters (``_core.describe_metrics``). Names follow Prometheus'
conventions: a counter ends in ``_total``, base units stand before that.

Loopback does not keep web pages out: a page can let its own name resolve to 127.0.0.1 (DNS
rebinding), and then read the answers. The Host header has the page's name, so requests for names
other than this endpoint's are refused.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal, Self, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from innet._native import _core
from innet.cluster.run_status import RunStatus
from innet.errors import TelemetryError
from innet.http_requests import LOOPBACK_NAMES, host_in
from innet.telemetry.durations import AGE_BOUNDS_S, DURATION_BOUNDS_S

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as it is exposed; without ``_total``, which counters get by themselves.
        kind: a counter starts from 0 with the node's process.
        path: keys that lead to the value.
    """

    name: str
    help: str
    kind: Kind
    path: tuple[str, ...]


def _families(table: str, *path: str) -> tuple[Family, ...]:
    """The exposed metrics of one table of the native status, which ``path`` leads to."""
    return tuple(
        Family(f"innet_{name}", text, cast(Kind, kind), (*path, key))
        for key, name, kind, text in _core.describe_metrics()[table]
        if name
    )


OF_NODE: tuple[Family, ...] = (
    Family(
        "innet_process_cpu_seconds", "Processor time of the node's process", "counter", ("cpu_s",)
    ),
    Family(
        "innet_process_resident_memory_bytes",
        "Memory of the node's process",
        "gauge",
        ("resident_bytes",),
    ),
    Family("innet_uptime_seconds", "Time since the node's process came up", "gauge", ("uptime_s",)),
    Family("innet_clock_seconds", "The node's clock, Unix time", "gauge", ("time_s",)),
    Family(
        "innet_reduction_slots", "Reductions that a switch may work on at once", "gauge", ("slots",)
    ),
    Family(
        "innet_packet_memory_bytes",
        "Memory of packets that are held",
        "gauge",
        ("pool_bytes_in_use",),
    ),
    *(
        family
        for table in ("node", "reducer", "endpoint", "management")
        for family in _families(table, table)
    ),
)
"""Labels: ``node``."""

OF_FACE: tuple[Family, ...] = _families("links")
"""Labels: ``node``, ``face``, ``peer``."""

OF_LINK: tuple[Family, ...] = _families("port")
"""Labels: ``node``, ``peer``: one direction of a link."""

Labelled = tuple[list[str], Mapping[str, Any]]
"""The values of the labels, and the document with the figures."""


ReadStatus = Callable[[], RunStatus | None]
"""Reads the status of a run; ``None``: there is no such run now."""


class RunCollector(Collector):
    """Collects the metrics of the status that ``read_status`` returns.

    ``innet_node_up`` is 1 for each node that answers and 0 for each other one that should.
    """

    def __init__(self, read_status: ReadStatus) -> None:
        self._read_status = read_status

    def describe(self) -> Iterable[Metric]:
        """No metrics, so that registering the collector does not wait for a run to answer."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of the run now."""
        status = self._read_status()
        is_up = status is not None and status.state.launch in ("up", "stopped")
        yield GaugeMetricFamily("innet_run_up", "Whether the network is up", value=float(is_up))
        if status is None:
            return
        run = {key: getattr(status.run, key) for key in ("run_id", "topology", "mode")}
        yield InfoMetricFamily("innet_run", "The run that these metrics are of", value=run)
        up = GaugeMetricFamily("innet_node_up", "Whether a node answers", labels=["node"])
        for node in _expected(status):
            up.add_metric([node], float(node in status.nodes))
        yield up
        yield from _states(status)
        nodes = [([node], answer) for node, answer in status.nodes.items()]
        yield from _metrics(OF_NODE, ["node"], nodes)
        yield from _metrics(OF_FACE, ["node", "face", "peer"], list(_faces(status)))
        yield from _metrics(OF_LINK, ["node", "peer"], list(_links(status)))
        yield from pool_metrics(
            (node, pool) for node, answer in status.nodes.items() for pool in answer["pools"]
        )


def _expected(status: RunStatus) -> Iterable[str]:
    """The nodes that answered, and those that should have."""
    should = (name for name, node in status.state.nodes.items() if node.state not in _AT_REST)
    return dict.fromkeys((*status.nodes, *status.silent, *should))


_AT_REST: Final = ("off", "ended", "starting")
"""States of nodes that need not answer."""


def _states(status: RunStatus) -> Iterator[Metric]:
    """The states of machines, nodes and links, also of those that cannot answer."""
    machines = GaugeMetricFamily(
        "innet_machine_up", "Whether a machine takes part", labels=["machine", "address"]
    )
    for name, machine in status.run.machines.items():
        machines.add_metric([name, machine.address], float(machine.state == "up"))
    yield machines
    states = GaugeMetricFamily(
        "innet_node_state", "1 for the present state of a node", labels=["node", "machine", "state"]
    )
    restarts = CounterMetricFamily(
        "innet_node_restarts", "How often the launcher started a node again", labels=["node"]
    )
    for name, node in status.state.nodes.items():
        states.add_metric([name, node.machine or "", node.state], 1.0)
        restarts.add_metric([name], float(node.restarts))
    yield states
    yield restarts
    cut = GaugeMetricFamily(
        "innet_link_cut", "1 for a link that carries nothing", labels=["node", "peer"]
    )
    for ends in status.state.cut:
        cut.add_metric(list(ends), 1.0)
    yield cut


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


_LABELS: Final = ["node", "tenant", "engine", "model"]
_COUNTERS: Final = (
    ("lookups", "looked_up", "Blocks that lookups requested"),
    ("lookups_found", "found", "Of the blocks looked up, those that were there"),
    ("loaded_bytes", "loaded_bytes", "Bytes of blocks that were got"),
    ("stored", "stored", "Blocks that were put"),
    ("stored_bytes", "stored_bytes", "Bytes of blocks that were put"),
    ("served", "served", "Blocks of this node that others requested"),
    ("replicated", "replicated", "Copies that other homes keep at this node's request"),
)
_COUNTERS_BY: Final = (
    ("hits", "place", "Blocks got, by where they were"),
    ("misses", "cause", "Blocks that were not there, by why"),
    ("lost_copies", "cause", "Homes that did not keep a block that was put, by why"),
)
_OF_TIERS: Final = (
    (CounterMetricFamily, "evictions", "evicted", "Blocks that made room for others"),
    (CounterMetricFamily, "failed_blocks", "failed", "Blocks that a tier could not write or read"),
    (CounterMetricFamily, "damaged_blocks", "damaged", "Blocks that were read with other bytes"),
    (GaugeMetricFamily, "blocks", "blocks", "Blocks in a tier"),
    (GaugeMetricFamily, "used_bytes", "used_bytes", "Bytes in a tier"),
    (GaugeMetricFamily, "capacity_bytes", "capacity_bytes", "Bytes that a tier may have"),
)
_TIMES: Final = (
    ("load_seconds", "load_times", "Time of gets that had a block"),
    ("store_seconds", "store_times", "Time of puts, until each home has or refuses the block"),
)
_AGES: Final = "Time that evicted blocks were in a tier"

Pool = tuple[list[str], Mapping[str, Any]]
"""The values of the labels, and the counters."""


def pool_metrics(counters: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Metric]:
    """The metrics of pools, given each with the node that it is of."""
    pools = [
        ([node, pool["tenant"], pool["engine"], pool["model"]], pool) for node, pool in counters
    ]
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
    ages = HistogramMetricFamily("innet_kv_eviction_age_seconds", _AGES, labels=[*_LABELS, "tier"])
    for labels, pool in pools:
        for tier, counters in pool["tiers"].items():
            histogram = counters["eviction_ages"]
            ages.add_metric([*labels, tier], _buckets(histogram, AGE_BOUNDS_S), histogram["sum_s"])
    yield ages


def _times(pools: Iterable[Pool]) -> Iterator[Metric]:
    for name, key, text in _TIMES:
        metric = HistogramMetricFamily(f"innet_kv_{name}", text, labels=_LABELS)
        for labels, pool in pools:
            buckets = _buckets(pool[key], DURATION_BOUNDS_S)
            metric.add_metric(labels, buckets, pool[key]["sum_s"])
        yield metric


def _buckets(histogram: Mapping[str, Any], bounds_s: Sequence[float]) -> list[tuple[str, float]]:
    """The counts up to each bound, as Prometheus has them."""
    bounds = (*(f"{bound_s:g}" for bound_s in bounds_s), "+Inf")
    counts = accumulate(histogram["counts"])
    return [(bound, float(n)) for bound, n in zip(bounds, counts, strict=True)]


_ADDRESS = "127.0.0.1"
_MAX_CONNECTIONS = 32
"""Served at once. Any user of the machine can connect, and send a request byte by byte: so one more
closes the oldest connection whose request has not come."""
_SILENCE_S = 10.0
"""After which a connection is closed when nothing comes, or the answer is not read."""
_CLOSE_S = 1.0
"""Time for a closed connection to end."""

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def exposition(read_status: ReadStatus) -> str:
    """The metrics of a run now, as Prometheus reads them."""
    return generate_latest(_registry(read_status)).decode()


def _registry(read_status: ReadStatus) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RunCollector(read_status))
    return registry


def _for_hosts(names: frozenset[str], app: WsgiApp) -> WsgiApp:
    """``app`` for requests that name one of these hosts, and 421 (RFC 9110) for others."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if host_in(environ.get("HTTP_HOST", "")) in names:
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        known = ", ".join(sorted(names))
        remedy = "`innet metrics --host NAME` or telemetry.metrics_hosts allows another"
        return [f"wrong Host header, expected one of {known}; {remedy}\n".encode()]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE_S

    def parse_request(self) -> bool:
        """Read the headers; from then on the connection is not closed for others."""
        is_request = super().parse_request()
        if isinstance(self.server, _Server):
            self.server.received_request(self.connection)
        return is_request

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: scrapes come every few seconds."""


class _Server(ThreadingWSGIServer):
    """A thread for each connection, up to a number."""

    # With the default of 5, connections that will be refused delay the next one for seconds.
    request_queue_size = 4 * _MAX_CONNECTIONS

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.Semaphore(_MAX_CONNECTIONS)
        self._without_request: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def received_request(self, connection: socket.socket) -> None:
        """The connection has a request, and keeps its place until that is answered."""
        with self._lock:
            self._without_request.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False) and not self._close_oldest():
            self.shutdown_request(request)
            return
        with self._lock:
            self._without_request[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.received_request(request)
            self._free.release()

    def _close_oldest(self) -> bool:
        """Whether a connection without a request ended, whose place the caller now has."""
        with self._lock:
            oldest = next(iter(self._without_request), None)
            if oldest is None:
                return False
            del self._without_request[oldest]
            with contextlib.suppress(OSError):  # it has just ended
                oldest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=_CLOSE_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client has closed, or was silent for too long."""


class MetricsEndpoint:
    """An HTTP server on a thread of its own, as a context manager."""

    def __init__(self, port: int, read_status: ReadStatus, hosts: Iterable[str] = ()) -> None:
        """Serve.

        Args:
            port: of loopback; 0 for a free one.
            read_status: requests the status of the run's nodes; called for each scrape.
            hosts: names of the endpoint in requests, beside its address and ``localhost``.
        """
        names = LOOPBACK_NAMES | {host.lower() for host in hosts}
        app = _for_hosts(names, make_wsgi_app(_registry(read_status)))
        try:
            self._server = make_server(_ADDRESS, port, app, _Server, _Handler)
        except OSError as error:
            raise TelemetryError(
                f"metrics cannot be served on port {port}: {error.strerror}. Choose another, or 0 "
                "for a free one."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()
        self.url = f"http://{_ADDRESS}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop to serve."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
