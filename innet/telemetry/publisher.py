"""Publishes the telemetry of one process, on a thread with its own event loop.

The process never waits for it. While the broker is unreachable, a bounded number of events is kept
and counters are not read; the publisher reconnects with exponential backoff.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import aiomqtt

from innet.backoff import Backoff
from innet.telemetry import events
from innet.telemetry.broker_socket import client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.events import Happening
from innet.telemetry.messages import RunEvent, State
from innet.telemetry.topics import SourceTopics

_MAX_EVENTS_KEPT = 256
_STOP_TIMEOUT_S = 3.0
"""Time that a process waits at its end for the broker to take its last status.

A broker on a busy machine needs more than a second; without the status, the process would stay
``up``."""
_CANCEL_AGAIN_S = 0.05
_QOS = 1
"""Status, events, commands and replies arrive at least once; counters may be lost (0)."""

_log = logging.getLogger(__name__)


class TelemetrySource(Protocol):
    """The telemetry of one process."""

    run: str
    name: str

    @property
    def topics(self) -> SourceTopics:
        """The topics that it publishes to."""
        ...

    @property
    def interval_s(self) -> float:
        """Time between two publications of counters."""
        ...

    def status(self, state: State) -> bytes:
        """The payload of its status."""
        ...

    def counters(self, events_dropped: int) -> bytes | None:
        """The payload of its counters now; ``None`` if it has no counters."""
        ...

    def on_command(self, payload: bytes) -> bytes:
        """Execute a command if it is valid; the payload of the reply."""
        ...


class Publisher:
    """One process's connection to the broker, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        source: TelemetrySource,
        broker_socket: Path,
        url: BrokerUrl | None,
        *,
        on_disconnected: Callable[[Exception], None] | None = None,
    ) -> None:
        """
        Args:
            broker_socket: the socket of the run's broker.
            url: has the login; ``None``: the embedded broker, which needs none.
            on_disconnected: called with the cause each time the connection fails or ends.
        """
        self._source = source
        self._broker_socket = broker_socket
        self._url = url
        self._on_disconnected = on_disconnected or self._log_disconnected
        self._backlog: deque[RunEvent] = deque(maxlen=_MAX_EVENTS_KEPT)
        self._event_lock = threading.Lock()
        self._events_made = 0
        self._events_dropped = 0
        self._end_published = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._log_loop_error)
        self._news = asyncio.Event()
        self._interval_set = asyncio.Event()
        self._status_changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"telemetry-{source.name}", daemon=True
        )

    @property
    def end_published(self) -> bool:
        """Whether the broker has the status of an orderly end."""
        return self._end_published

    def start(self) -> None:
        """Start to publish in the background."""
        events.listen(self._on_event)
        self._thread.start()

    def publish_status(self) -> None:
        """Publish the status again, because it has changed. Safe to call from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._status_changed.set)

    def stop(self) -> None:
        """Publish the status of an orderly end, if the broker is reachable. Safe to call twice."""
        events.ignore(self._on_event)
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(2 * _STOP_TIMEOUT_S)

    def _on_event(self, happening: Happening) -> None:
        with self._event_lock:
            self._events_made += 1
            if len(self._backlog) == _MAX_EVENTS_KEPT:
                self._events_dropped += 1
            self._backlog.append(
                RunEvent(
                    run=self._source.run,
                    source=self._source.name,
                    number=self._events_made,
                    time_s=time.time(),
                    kind=happening.kind,
                    message=happening.message,
                    details=happening.details,
                )
            )
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._news.set)

    def _run(self) -> None:
        # Not asyncio.run: at the end of a program its clean-up would start another thread.
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._publish_until_stopped())

    async def _publish_until_stopped(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                await self._connect_and_serve(backoff)
            except (aiomqtt.MqttError, OSError, ValueError) as error:
                self._on_disconnected(error)
            except RuntimeError as error:
                # The interpreter is shutting down and starts no thread, which connecting needs.
                _log.debug("telemetry of %s ends: %s", self._source.name, error)
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), backoff.next_s())

    async def _connect_and_serve(self, backoff: Backoff) -> None:
        async with contextlib.AsyncExitStack() as stack:
            connecting = asyncio.ensure_future(stack.enter_async_context(self._client()))
            await _until_first_ends(asyncio.shield(connecting), self._stopping.wait())
            # The thread that connects cannot be stopped, and its callbacks need this loop open.
            await asyncio.wait([connecting], timeout=_STOP_TIMEOUT_S)
            if connecting.done():
                backoff.reset()
                await self._serve(connecting.result())
            else:
                connecting.cancel()

    def _client(self) -> aiomqtt.Client:
        will = aiomqtt.Will(
            self._source.topics.status, self._source.status("gone"), qos=_QOS, retain=True
        )
        return client_through(self._broker_socket, self._url, will=will)

    async def _serve(self, client: aiomqtt.Client) -> None:
        topics = self._source.topics
        # In this order: a client that sees the node up may send commands at once.
        await client.subscribe(topics.command, _QOS)
        await client.publish(topics.status, self._source.status("up"), _QOS, retain=True)
        self._news.set()
        await _until_first_ends(
            self._publish_counters(client),
            self._publish_changes(client),
            self._publish_events(client),
            self._execute_commands(client),
            self._stopping.wait(),
        )
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await self._publish_backlog(client)
            await client.publish(topics.status, self._source.status("stopped"), _QOS, retain=True)
        self._end_published = True

    async def _publish_counters(self, client: aiomqtt.Client) -> None:
        # Reading them waits for the packet path, in this loop, so that a node that hangs does not
        # look alive.
        while (counters := self._source.counters(self._events_dropped)) is not None:
            await client.publish(self._source.topics.counters, counters, retain=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._interval_set.wait(), self._source.interval_s)
            self._interval_set.clear()
        await self._stopping.wait()

    async def _publish_changes(self, client: aiomqtt.Client) -> None:
        while True:
            await self._status_changed.wait()
            self._status_changed.clear()
            status = self._source.status("up")
            await client.publish(self._source.topics.status, status, _QOS, retain=True)

    async def _publish_events(self, client: aiomqtt.Client) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._publish_backlog(client)

    async def _publish_backlog(self, client: aiomqtt.Client) -> None:
        while self._backlog:
            event = self._backlog[0]
            await client.publish(self._source.topics.event, event.payload(), _QOS)
            with self._event_lock:  # it may have been dropped for a newer one meanwhile
                if self._backlog and self._backlog[0] is event:
                    self._backlog.popleft()

    async def _execute_commands(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload
            interval_s = self._source.interval_s
            reply = self._source.on_command(payload if isinstance(payload, bytes) else b"")
            await client.publish(self._source.topics.reply, reply, _QOS)
            if self._source.interval_s != interval_s:
                self._interval_set.set()

    def _log_disconnected(self, why: Exception) -> None:
        _log.info("%s: no connection to the broker (%s); reconnecting", self._source.name, why)

    def _log_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception of a callback of aiomqtt or paho in one line.

        They raise when the process did not run for so long that the broker closed the connection.
        No task awaits them, and the publisher reconnects.
        """
        cause = context.get("exception") or context["message"]
        _log.info(
            "telemetry of %s: the connection to the broker failed: %s", self._source.name, cause
        )


async def _until_first_ends(*parts: Awaitable[object]) -> None:
    """Run all until one ends, then cancel the others; raises what the first one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)
    for task in done:
        task.result()


async def _end(tasks: Iterable[asyncio.Future[object]]) -> None:
    """Cancel tasks until they have ended.

    Before Python 3.12 ``asyncio.wait_for`` loses a cancellation that coincides with its result;
    aiomqtt waits for acknowledgements with it.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
