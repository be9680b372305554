"""The run's side of its broker, on a thread of the launcher with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from innet.errors import TelemetryError
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.relay import Relay

if TYPE_CHECKING:
    from innet.telemetry.embedded_broker import EmbeddedBroker

_START_TIMEOUT_S = 30.0


class BrokerThread:
    """Holds the embedded broker, or the relay to another, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self, broker: str, port: int | None = None, limits: BrokerLimits | None = None
    ) -> None:
        """Nothing happens before :meth:`start`.

        Args:
            broker: ``embedded``, or the URL of another.
            port: of loopback where the embedded broker serves as well; 0: a free one.
            limits: of what clients can make the run's side of the broker hold.

        Raises:
            TelemetryError: the URL is malformed.
        """
        self._far = BrokerUrl.of_setting(broker)
        self._port = port
        self._limits = limits
        self._started: Future[BrokerUrl | None] = Future()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self, door: Path) -> BrokerUrl | None:
        """Serve; the broker's address, if it has another than the door. Blocks until it does.

        Args:
            door: the socket through which the run's processes reach it.

        Raises:
            TelemetryError: the door cannot be opened.
        """
        self._thread = threading.Thread(
            target=self._run, args=(door,), name="telemetry-broker", daemon=True
        )
        self._thread.start()
        try:
            return self._started.result(_START_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise TelemetryError(
                f"the run's broker cannot serve on {self._places(door)}: {error}. `--broker none` "
                "runs without telemetry."
            ) from error

    def _places(self, door: Path) -> str:
        return str(door) if not self._port else f"{door} and port {self._port} of 127.0.0.1"

    def stop(self) -> None:
        """End the broker and its connections. Safe to call twice."""
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self, door: Path) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(door))

    async def _serve(self, door: Path) -> None:
        try:
            async with self._server(door) as server:
                self._started.set_result(server.url)
                await self._stopping.wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def _server(self, door: Path) -> EmbeddedBroker | Relay:
        if self._far is not None:
            return Relay(door, self._far, self._limits)
        from innet.telemetry.embedded_broker import EmbeddedBroker

        return EmbeddedBroker(door, self._port, self._limits)
