"""Serves the metrics of a run over HTTP, on loopback.

Loopback alone does not keep web pages out: a page can have its own name resolved to 127.0.0.1 (DNS
rebinding), and then reads what it gets there. Its name stands in the Host header, so requests for
other names than those of this endpoint are refused.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from innet.cluster.metrics.collector import RunCollector
from innet.cluster.run_status import RunStatus
from innet.errors import TelemetryError

_ADDRESS = "127.0.0.1"
_OWN_NAMES = frozenset({_ADDRESS, "localhost"})
_MAX_CONNECTIONS = 32
"""Served at once. Any user of the machine can connect, and send a request byte by byte: so one more
closes the oldest connection whose request has not come."""
_SILENCE_S = 10.0
"""After which a connection is closed when nothing comes, or the answer is not read."""
_CLOSE_S = 1.0
"""For a connection that was closed from here to end."""

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def exposition(read_status: Callable[[], RunStatus]) -> str:
    """The metrics of a run now, as Prometheus reads them."""
    return generate_latest(_registry(read_status)).decode()


def _registry(read_status: Callable[[], RunStatus]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RunCollector(read_status))
    return registry


def _for_hosts(names: frozenset[str], app: WsgiApp) -> WsgiApp:
    """``app`` for requests that name one of these hosts, and 421 (RFC 9110) for others."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if _host_in(environ.get("HTTP_HOST", "")) in names:
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        known = ", ".join(sorted(names))
        remedy = "`innet metrics --host NAME` or telemetry.metrics_hosts allows another"
        return [f"wrong Host header, expected one of {known}; {remedy}\n".encode()]

    return answer


def _host_in(header: str) -> str | None:
    """The name or address in a Host header, without a port; ``None``: there is none."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


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

    # Those that are to be refused must not hold up the next one for seconds (the default is 5).
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
    """An HTTP server on a thread of its own, as a context manager.

    Attributes:
        url: what Prometheus scrapes.
    """

    def __init__(
        self, port: int, read_status: Callable[[], RunStatus], hosts: Iterable[str] = ()
    ) -> None:
        """Serve.

        Args:
            port: of loopback; 0 for a free one.
            read_status: asks the run's nodes; called for each scrape.
            hosts: names by which the endpoint may be asked, beside its address and ``localhost``.

        Raises:
            TelemetryError: the port is taken.
        """
        names = _OWN_NAMES | {host.lower() for host in hosts}
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
