"""Runs the embedded broker or the relay on a thread of the launcher with its own event loop."""

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
    """Runs the embedded broker, or the relay to another, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self, broker: str, port: int | None = None, limits: BrokerLimits | None = None
    ) -> None:
        """
        Args:
            broker: ``embedded``, or the URL of another.
            port: of loopback where the embedded broker serves as well; 0: a free one.
            limits: of the memory and connections that clients can take.

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

    def start(self, broker_socket: Path) -> BrokerUrl | None:
        """Serve, and return the broker's address, if it has one beside the socket.

        Blocks until it serves.

        Args:
            broker_socket: path of the socket for the run's processes.

        Raises:
            TelemetryError: the broker socket cannot be opened.
        """
        self._thread = threading.Thread(
            target=self._run, args=(broker_socket,), name="telemetry-broker", daemon=True
        )
        self._thread.start()
        try:
            return self._started.result(_START_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise TelemetryError(
                f"the run's broker cannot serve on {self._places(broker_socket)}: {error}. "
                "`--broker none` runs without telemetry."
            ) from error

    def _places(self, broker_socket: Path) -> str:
        return (
            str(broker_socket)
            if not self._port
            else f"{broker_socket} and port {self._port} of 127.0.0.1"
        )

    def stop(self) -> None:
        """End the broker and its connections. Safe to call twice."""
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self, broker_socket: Path) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(broker_socket))

    async def _serve(self, broker_socket: Path) -> None:
        try:
            async with self._server(broker_socket) as server:
                self._started.set_result(server.url)
                await self._stopping.wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def _server(self, broker_socket: Path) -> EmbeddedBroker | Relay:
        if self._far is not None:
            return Relay(broker_socket, self._far, self._limits)
        from innet.telemetry.embedded_broker import EmbeddedBroker

        return EmbeddedBroker(broker_socket, self._port, self._limits)
