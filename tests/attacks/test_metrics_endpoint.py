"""Web pages and silent programs at the endpoint for Prometheus."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from innet.cluster import metrics
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.metrics import MetricsEndpoint
from innet.cluster.run_state import RunState
from innet.cluster.run_status import RunStatus
from innet.settings import Settings

SILENT = 100


def status() -> RunStatus:
    """Of a run without nodes."""
    record = RunRecord.model_construct(run_id="lab", topology="star-2", mode="local")
    return RunStatus.model_construct(
        run=record,
        nodes={},
        silent={},
        kernel_links=(),
        jobs=(),
        groups=(),
        pools=(),
        state=RunState(launch="up"),
    )


@contextlib.contextmanager
def serving(*hosts: str) -> Iterator[int]:
    """The port of an endpoint."""
    with MetricsEndpoint(0, status, hosts) as served:
        port = urlsplit(served.url).port
        assert port is not None
        yield port


def asked(port: int, host: str | None, path: str = "/metrics") -> tuple[int, str]:
    """Status and body for a request with this Host header."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest("GET", path, skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost", "127.0.0.1"])
def test_requests_with_the_name_of_the_endpoint_are_answered(host: str) -> None:
    with serving() as port:
        code, body = asked(port, host.format(port=port))
    assert code == 200
    assert 'innet_run_info{mode="local",run_id="lab",topology="star-2"} 1.0' in body


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example:{port}",
        "evil.example#127.0.0.1",
        "127.0.0.1@evil.example",
        "[::1",
        "",
        None,
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/"])
def test_dns_rebinding_reads_nothing(host: str | None, path: str) -> None:
    with serving() as port:
        code, body = asked(port, host and host.format(port=port), path)
    assert code == 421
    assert "innet_" not in body
    assert "--host NAME" in body


def test_only_configured_names_are_answered() -> None:
    settings = Settings().with_assignments(["telemetry.metrics_hosts=a.example,B.example"])
    with serving(*settings.telemetry.metrics_hosts) as port:
        codes = [asked(port, host)[0] for host in ("a.example:80", "b.example", "c.example")]
    assert codes == [200, 200, 421]


@pytest.mark.parametrize("begin", [b"", b"GET /metrics HTTP/1.1\r\nHost: "])
def test_connections_without_a_request_hold_few_descriptors_and_block_nobody(begin: bytes) -> None:
    with serving() as port:
        before = psutil.Process().num_fds()
        with silent_connections(port, begin) as silent:
            assert asked(port, "localhost")[0] == 200  # before the patience with them is over
            held = psutil.Process().num_fds() - before - SILENT  # the attacker's are ours, too
            assert held <= metrics._MAX_CONNECTIONS
            for connection in silent[: SILENT - metrics._MAX_CONNECTIONS]:  # the oldest
                with contextlib.suppress(ConnectionError):
                    assert connection.recv(1) == b""


def test_a_connection_without_a_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics._Handler.timeout == metrics._SILENCE_S
    monkeypatch.setattr(metrics._Handler, "timeout", 0.1)
    with serving() as port, silent_connections(port) as silent:
        for connection in silent:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""


@contextlib.contextmanager
def silent_connections(port: int, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """Many who connect, and send no whole request."""
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(SILENT)
        ]
        for connection in connections:
            with contextlib.suppress(ConnectionError):
                connection.sendall(begin)
        yield connections
