"""The telemetry of whole runs: processes that come, fail, are killed and obey."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiomqtt import MqttError

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.errors import JobFailed, TelemetryError
from innet.node.node_config import Mode
from innet.security.keys import OPERATOR_KEY_NAME, OperatorKey
from innet.settings import Settings
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME, client_of, client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.commands import Command, DropCache, DumpState, SetInterval, signed
from innet.telemetry.embedded_broker import PASSWORD_NAME
from innet.telemetry.topics import node_topics
from innet.topology import load_topology

from .brokers import Mosquitto, Watcher, needs_mosquitto, self_signed, watching

WAITS = """
import innet, numpy, threading
comm = innet.init()
print("sum", comm.allreduce(numpy.ones(4096, numpy.float32))[0], flush=True)
threading.Event().wait()
"""
SUM = "import innet, numpy; print(innet.init().allreduce(numpy.ones(4096, numpy.float32))[0])"


def session(
    broker: str = "embedded",
    mode: Mode = "local",
    lines: list[str] | None = None,
    assignments: Sequence[str] = (),
) -> Session:
    settings = Settings().with_assignments(
        [f"telemetry.broker={broker}", "telemetry.interval_s=0.2", *assignments]
    )
    said = [] if lines is None else lines
    return Session(
        load_topology("star:2"),
        mode=mode,
        settings=settings,
        output=lambda _, line: said.append(line),
    )


def run_of(run: Session) -> tuple[Path, BrokerUrl | None]:
    """The broker socket of a run, and how to log in."""
    settings = Settings.load(run.network.run_dir / "settings.json")
    return run.network.run_dir / BROKER_SOCKET_NAME, BrokerUrl.of_setting(settings.telemetry.broker)


def states(watcher: Watcher) -> dict[str, str]:
    return {
        n: node.status.state for n, node in watcher.feed.nodes.items() if node.status is not None
    }


MODES = [pytest.param("local"), pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.jobs])]


@pytest.mark.parametrize("mode", MODES)
async def test_a_killed_worker_is_gone_and_its_peer_reports_the_failure(mode: Mode) -> None:
    async with session(mode=mode) as run, watching(client_through(*run_of(run))) as watcher:
        command = [sys.executable, "-c", WAITS]
        job = asyncio.ensure_future(run.run_workers(command, algorithm="inc"))
        await watcher.until(lambda feed: states(watcher) == dict.fromkeys(("s0", "h0", "h1"), "up"))
        await watcher.until(
            lambda feed: _summed(watcher) and _kinds(watcher, "s0") >= {"rules_installed"}
        )
        assert _kinds(watcher, "h0") == {"group_joined"}
        _process(run, "h1").send_signal(signal.SIGKILL)
        await watcher.until(lambda feed: states(watcher)["h1"] == "gone")
        await watcher.until(lambda feed: "peer_lost" in _kinds(watcher, "h0"))
        await watcher.until(lambda feed: "process_ended" in _kinds(watcher, "launcher"))
        _process(run, "h0").send_signal(signal.SIGKILL)
        with pytest.raises(JobFailed):
            await job


async def test_a_hung_switch_is_reported_by_the_controller() -> None:
    impatient = ["recovery.heartbeat_interval_s=0.1", "recovery.heartbeat_timeout_s=0.5"]
    async with (
        session(assignments=impatient) as run,
        watching(client_through(*run_of(run))) as watcher,
    ):
        await watcher.until(lambda feed: feed.controller is not None)
        _process(run, "s0").send_signal(signal.SIGSTOP)
        await watcher.until(lambda feed: "switch_lost" in _kinds(watcher, "controller"))
        _process(run, "s0").send_signal(signal.SIGCONT)
        await watcher.until(lambda feed: "switch_restored" in _kinds(watcher, "controller"))
        told = [event for event in watcher.feed.events if event.source == "controller"]
        assert {event.details["node"] for event in told} == {"s0"}


def _summed(watcher: Watcher) -> bool:
    counters = watcher.feed.nodes["s0"].counters
    return counters is not None and counters.reducer.reductions_completed > 0


def _kinds(watcher: Watcher, source: str) -> set[str]:
    return {event.kind for event in watcher.feed.events if event.source == source}


def _process(run: Session, node: str) -> Any:
    return next(p for p in run.network.processes.processes if p.spec.node == node)


async def test_a_failed_operation_is_an_event() -> None:
    program = (
        "import innet, numpy\ncomm = innet.init()\n"
        "try: comm.allreduce(numpy.ones(comm.rank + 1, numpy.float32))\n"
        "except innet.CollectiveError: pass"
    )
    async with session() as run, watching(client_through(*run_of(run))) as watcher:
        job = asyncio.ensure_future(run.run_workers([sys.executable, "-c", program]))
        await watcher.until(lambda feed: any(e.kind == "operation_failed" for e in feed.events))
        await asyncio.gather(job, return_exceptions=True)
    event = next(e for e in watcher.feed.events if e.kind == "operation_failed")
    assert "allreduce" in str(event.details["operation"])


async def _order(watcher: Watcher, run: Session, command: Command) -> dict[str, Any]:
    key = OperatorKey.load(run.network.run_dir / OPERATOR_KEY_NAME)
    number, payload = signed(command, run.network.run_id, "s0", key)
    return await _reply_to(watcher, run, payload, number)


async def _reply_to(
    watcher: Watcher, run: Session, payload: bytes, number: int | None
) -> dict[str, Any]:
    topics = node_topics(run.network.run_id, "s0")
    await watcher.client.publish(topics.command, payload, 1)

    def reply() -> dict[str, Any] | None:
        replies = [json.loads(p) for t, p, _ in watcher.messages if t == topics.reply]
        return next((r for r in replies if r["number"] == number), None)

    await watcher.until(lambda feed: reply() is not None)
    found = reply()
    assert found is not None
    watcher.messages.clear()
    return found


async def test_a_switch_accepts_commands_only_by_its_operator() -> None:
    async with session() as run, watching(client_through(*run_of(run))) as watcher:
        await watcher.until(lambda feed: "s0" in feed.nodes)
        state = await _order(watcher, run, DumpState())
        assert state["accepted"]
        assert state["result"]["kind"] == "switch"
        assert (await _order(watcher, run, DropCache()))["result"] == {"entries": 0}
        assert (await _order(watcher, run, SetInterval(interval_s=0.1)))["accepted"]
        await watcher.until(lambda feed: _interval_s(watcher) == 0.1)

        assert not (await _reply_to(watcher, run, b"{}", None))["accepted"]
        number, payload = signed(
            DropCache(), run.network.run_id, "s0",
            OperatorKey.load(run.network.run_dir / OPERATOR_KEY_NAME),
        )  # fmt: skip
        assert (await _reply_to(watcher, run, payload, number))["accepted"]
        assert not (await _reply_to(watcher, run, payload, number))["accepted"]
        await watcher.until(lambda feed: len(_refusals(watcher)) == 2)
        await watcher.until(lambda feed: _refused(watcher) == {"malformed": 1, "replayed": 1})
    assert _refusals(watcher) == ["malformed", "replayed"]


def _interval_s(watcher: Watcher) -> float:
    counters = watcher.feed.nodes["s0"].counters
    return 0.0 if counters is None else counters.interval_s


def _refused(watcher: Watcher) -> dict[str, int]:
    counters = watcher.feed.nodes["s0"].counters
    return {} if counters is None else counters.commands_refused


def _refusals(watcher: Watcher) -> list[object]:
    return [e.details["reason"] for e in watcher.feed.events if e.kind == "command_refused"]


async def test_the_run_record_has_the_address_of_the_broker() -> None:
    async with session(assignments=["telemetry.broker_port=0"]) as run:
        record = find_run(run.network.run_id)
        assert record.broker == f"unix://{record.run_dir / BROKER_SOCKET_NAME}"
        assert record.broker_port is not None
        password = record.run_dir / PASSWORD_NAME
        assert password.stat().st_mode & 0o777 == 0o600
        assert password.read_text() not in record.model_dump_json()
        url = BrokerUrl.parse(record.broker_port)
        async with watching(client_of(replace(url, password=password.read_text()))) as watcher:
            await watcher.until(lambda feed: feed.launcher is not None)
        with pytest.raises(MqttError, match=r"[Nn]ot authori[sz]ed|[Rr]efused"):
            await client_of(replace(url, password="no")).__aenter__()
    assert watcher.feed.launcher is not None
    assert watcher.feed.launcher.nodes == ("s0", "h0", "h1")


async def test_without_a_port_the_embedded_broker_has_only_its_socket() -> None:
    async with session() as run:
        record = find_run(run.network.run_id)
        assert record.broker_port is None
        assert not (record.run_dir / PASSWORD_NAME).exists()
        process = psutil.Process()
        assert not [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]


async def test_a_run_without_telemetry_starts_no_broker() -> None:
    lines: list[str] = []
    async with session("none", lines=lines) as run:
        assert find_run(run.network.run_id).broker is None
        assert not (run.network.run_dir / BROKER_SOCKET_NAME).exists()
        await run.run_workers([sys.executable, "-c", SUM])
    assert lines == ["2.0", "2.0"]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "innet"):
        yield caplog


async def test_a_run_continues_without_its_broker_and_reports_it(
    warnings: pytest.LogCaptureFixture,
) -> None:
    lines: list[str] = []
    async with session("mqtt://127.0.0.1:1", lines=lines) as run:
        await run.run_workers([sys.executable, "-c", SUM])
    assert lines == ["2.0", "2.0"]
    told = [record.message for record in warnings.records if "cannot be reached" in record.message]
    assert not any("refuses the run" in record.message for record in warnings.records)
    assert len(told) == 1


def test_a_malformed_broker_is_refused_before_anything_is_launched() -> None:
    with pytest.raises(TelemetryError, match="write embedded, none, or mqtt"):
        session("localhost")


@needs_mosquitto
async def test_a_real_broker_retains_nothing_of_an_ended_run(tmp_path: Path) -> None:
    mosquitto = Mosquitto(tmp_path)
    await mosquitto.start()
    try:
        async with watching(client_of(mosquitto.url)) as watcher:
            async with session(str(mosquitto.url)):
                await watcher.until(
                    lambda feed: (
                        feed.launcher is not None
                        and feed.controller is not None
                        and "s0" in feed.nodes
                    )
                )
            await watcher.until(
                lambda feed: feed.launcher is None and feed.controller is None and not feed.nodes
            )
            seen = {
                json.loads(p)["state"] for t, p, _ in watcher.messages if t.endswith("status") and p
            }
        assert seen == {"up", "stopped"}  # and nobody was "gone"
    finally:
        mosquitto.kill()


@needs_mosquitto
async def test_a_wrong_password_is_reported(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "passwords").write_text("")
    mosquitto = Mosquitto(tmp_path, f"password_file {tmp_path / 'passwords'}", "user root")
    await mosquitto.start()
    try:
        async with session(f"mqtt://ann:hunter2@127.0.0.1:{mosquitto.port}") as run:
            await run.run_workers([sys.executable, "-c", SUM])
            assert "hunter2" not in (run.network.run_dir / "run.json").read_text()
    finally:
        mosquitto.kill()
    told = [record.message for record in warnings.records if "refuses the run" in record.message]
    assert len(told) == 1
    assert "hunter2" not in told[0]


@needs_mosquitto
async def test_a_broker_with_tls_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    certificate, key = self_signed("localhost", tmp_path)
    mosquitto = Mosquitto(tmp_path, f"certfile {certificate}", f"keyfile {key}", "user root")
    await mosquitto.start()
    url = f"mqtts://localhost:{mosquitto.port}"
    try:
        async with session(url) as run:
            await run.run_workers([sys.executable, "-c", SUM])
        assert "certificate verify failed" in "".join(r.message for r in warnings.records)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with session(url) as run, watching(client_through(*run_of(run))) as watcher:
            await watcher.until(lambda feed: "s0" in feed.nodes)
    finally:
        mosquitto.kill()
