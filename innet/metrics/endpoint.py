"""Serves the metrics of a run over HTTP, on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from innet.errors import TelemetryError
from innet.launch.run_status import RunStatus
from innet.metrics.collector import RunCollector

_ADDRESS = "127.0.0.1"


def exposition(read_status: Callable[[], RunStatus]) -> str:
    """The metrics of a run now, as Prometheus reads them."""
    return generate_latest(_registry(read_status)).decode()


def _registry(read_status: Callable[[], RunStatus]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RunCollector(read_status))
    return registry


class MetricsEndpoint:
    """An HTTP server on a thread of its own, as a context manager.

    Attributes:
        url: what Prometheus scrapes.
    """

    def __init__(self, port: int, read_status: Callable[[], RunStatus]) -> None:
        """Serve.

        Args:
            port: of loopback; 0 for a free one.
            read_status: asks the run's nodes; called for each scrape.

        Raises:
            TelemetryError: the port is taken.
        """
        try:
            self._server, self._thread = start_http_server(port, _ADDRESS, _registry(read_status))
        except OSError as error:
            raise TelemetryError(
                f"metrics cannot be served on port {port}: {error.strerror}. Choose another, or 0 "
                "for a free one."
            ) from error
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
