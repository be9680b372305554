"""A process publishes while the broker is there, away, frozen or back again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from aiomqtt.exceptions import MqttConnectError

from innet.telemetry import events
from innet.telemetry.broker_socket import client_of, client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.embedded_broker import BrokerThread
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import EventKind
from innet.telemetry.publisher import Publisher, _until_first_ends

from .brokers import Mosquitto, needs_mosquitto, watching
from .sources import FakeNode

BrokerSocket = tuple[Path, BrokerUrl]
"""The socket, and where the broker is for who does not use it."""

RULES: tuple[EventKind, str] = ("rules_installed", "7 rules of /j1/g0.inc")


def counted(feed: RunFeed) -> bool:
    return "s0" in feed.nodes and feed.nodes["s0"].counters is not None


def state_of(feed: RunFeed, node: str = "s0") -> str:
    status = feed.nodes[node].status if node in feed.nodes else None
    return "" if status is None else status.state


@contextmanager
def broker(kind: str, broker_socket: Path) -> Iterator[BrokerUrl]:
    """A run's way to a broker, open at the broker socket."""
    thread = BrokerThread(kind, port=0 if kind == "embedded" else None)
    try:
        url = thread.start(broker_socket)
        assert url is not None
        yield url
    finally:
        thread.stop()


@contextmanager
def publishing(broker_socket: Path, url: BrokerUrl, source: FakeNode) -> Iterator[Publisher]:
    publisher = Publisher(source, broker_socket, url)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.stop()


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=needs_mosquitto)])
async def broker_socket(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[BrokerSocket]:
    """A broker socket with a broker behind it: the embedded one, or Mosquitto behind the relay."""
    path = tmp_path / "broker.sock"
    mosquitto = Mosquitto(tmp_path) if request.param == "mosquitto" else None
    if mosquitto is not None:
        await mosquitto.start()
    try:
        with broker("embedded" if mosquitto is None else str(mosquitto.url), path) as url:
            yield path, url
    finally:
        if mosquitto is not None:
            mosquitto.kill()


async def test_status_counters_and_events_arrive(broker_socket: BrokerSocket) -> None:
    async with watching(client_through(*broker_socket)) as watcher:
        with publishing(*broker_socket, FakeNode()):
            events.report(*RULES, group="/j1/g0.inc", rules=7)
            await watcher.until(lambda feed: state_of(feed) == "up" and bool(feed.events))
            await watcher.until(counted)
        await watcher.until(lambda feed: state_of(feed) == "stopped")
    (event,) = watcher.feed.events
    assert (event.source, event.number, event.kind, event.message) == ("s0", 1, *RULES)
    assert event.details == {"group": "/j1/g0.inc", "rules": 7}


async def test_an_error_in_the_client_library_is_one_line_without_a_traceback(
    broker_socket: BrokerSocket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing_client(*arguments: Any, **options: Any) -> aiomqtt.Client:
        def fail() -> None:
            raise aiomqtt.MqttCodeError(7, "Could not publish message")

        asyncio.get_running_loop().call_soon(fail)
        return client_through(*arguments, **options)

    monkeypatch.setattr("innet.telemetry.publisher.client_through", failing_client)
    caplog.set_level(logging.INFO, "innet")
    async with watching(client_through(*broker_socket)) as watcher:
        with publishing(*broker_socket, FakeNode()):
            await watcher.until(lambda feed: state_of(feed) == "up")
    (record,) = (r for r in caplog.records if "connection to the broker failed" in r.getMessage())
    assert record.name == "innet.telemetry.publisher"
    assert record.levelno == logging.INFO
    assert record.exc_info is None


async def test_late_subscribers_find_status_and_counters(broker_socket: BrokerSocket) -> None:
    with publishing(*broker_socket, FakeNode()):
        async with watching(client_through(*broker_socket)) as first:
            await first.until(counted)
        async with watching(client_of(broker_socket[1])) as second:
            await second.until(lambda feed: state_of(feed) == "up" and counted(feed))
        assert all(retained for _, _, retained in second.messages)


async def test_a_killed_process_is_published_as_gone(
    broker_socket: BrokerSocket, tmp_path: Path
) -> None:
    path, url = broker_socket
    program = Path(__file__).with_name("workers") / "publishes.py"
    async with watching(client_through(path, url)) as watcher:
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, path, env={**os.environ, "BROKER": str(url)}
        )
        await watcher.until(lambda feed: state_of(feed) == "up")
        process.kill()
        await process.wait()
        await watcher.until(lambda feed: state_of(feed) == "gone")
    assert watcher.feed.nodes["s0"].status is not None


async def test_commands_reach_their_node_and_are_answered(broker_socket: BrokerSocket) -> None:
    source = FakeNode()
    async with watching(client_through(*broker_socket)) as watcher:
        with publishing(*broker_socket, source):
            await watcher.until(counted)
            await watcher.client.publish(source.topics.command, b"be quick", 1)
            # The new interval counts at once: the old one was an hour.
            await watcher.until(lambda feed: feed.nodes["s0"].previous is not None)
            assert watcher.last(source.topics.reply) == b"done"
    assert source.commands == [b"be quick"]


async def test_a_task_that_swallows_its_cancellation_still_ends() -> None:
    ends: list[str] = []

    async def lose_the_first() -> None:
        # As `asyncio.wait_for` does before Python 3.12, when what it waits for is just there.
        for cancellation in ("lost", "heeded"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append(cancellation)

    async with asyncio.timeout(30):
        await _until_first_ends(lose_the_first(), asyncio.sleep(0))
    assert ends == ["lost", "heeded"]


@needs_mosquitto
async def test_the_publisher_survives_a_late_and_a_restarted_broker(tmp_path: Path) -> None:
    mosquitto = Mosquitto(tmp_path)
    path = tmp_path / "broker.sock"
    with (
        closing(_Killed(mosquitto)),
        broker(str(mosquitto.url), path) as url,
        publishing(path, url, FakeNode()),
    ):
        events.report(*RULES, while_away=True)
        for _ in range(2):
            await mosquitto.start()
            async with watching(client_of(url)) as watcher:
                await watcher.until(lambda feed: state_of(feed) == "up")
            mosquitto.kill()
            events.report(*RULES, while_away=True)
        await mosquitto.start()
        async with watching(client_of(url)) as watcher:
            await watcher.until(lambda feed: bool(feed.events))
    assert watcher.feed.events[0].details == {"while_away": True}


async def test_a_client_is_refused_while_the_broker_is_away(tmp_path: Path) -> None:
    """It need not wait for an answer until its timeout, and tries again soon."""
    path = tmp_path / "broker.sock"
    away = Mosquitto(tmp_path).url
    with broker(str(away), path) as url, pytest.raises(MqttConnectError, match="unavailable"):
        async with client_through(path, url):
            pass


@needs_mosquitto
async def test_a_frozen_broker_blocks_nobody(tmp_path: Path) -> None:
    mosquitto = Mosquitto(tmp_path)
    await mosquitto.start()
    path = tmp_path / "broker.sock"
    with closing(_Killed(mosquitto)), broker(str(mosquitto.url), path) as url:
        source = FakeNode(interval_s=0.1)
        with publishing(path, url, source) as publisher:
            async with watching(client_of(url)) as watcher:
                await watcher.until(lambda feed: state_of(feed) == "up")
            mosquitto.send_signal(signal.SIGSTOP)
            for number in range(1000):
                events.report(*RULES, number=number)
            await asyncio.wait_for(asyncio.to_thread(publisher.stop), 240)
            assert not publisher.end_published, "no broker has received it"
        mosquitto.send_signal(signal.SIGCONT)


@needs_mosquitto
async def test_the_latest_of_too_many_events_are_kept_and_the_others_counted(
    tmp_path: Path,
) -> None:
    mosquitto = Mosquitto(tmp_path)
    path = tmp_path / "broker.sock"
    with (
        closing(_Killed(mosquitto)),
        broker(str(mosquitto.url), path) as url,
        publishing(path, url, FakeNode(interval_s=0.1)),
    ):
        for number in range(1, 301):
            events.report(*RULES, number=number)
        await mosquitto.start()
        async with watching(client_of(url)) as watcher:
            await watcher.until(lambda feed: bool(feed.events) and feed.events[-1].number == 300)
            await watcher.until(counted)
            assert watcher.feed.nodes["s0"].counters is not None
            assert watcher.feed.nodes["s0"].counters.events_dropped == 300 - 256


class _Killed:
    def __init__(self, mosquitto: Mosquitto) -> None:
        self._mosquitto = mosquitto

    def close(self) -> None:
        self._mosquitto.kill()
