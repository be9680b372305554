"""The broker of a run, and the thread of the launcher on which it or the relay runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from innet.errors import TelemetryError
from innet.private_files import write_private
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.mqtt_broker import Broker, BrokerLimits
from innet.telemetry.mqtt_session import Listener
from innet.telemetry.relay import Relay

PASSWORD_NAME = "broker.password"  # noqa: S105  # a file name
"""File in the run directory with the password of the port; only its owner can read it."""
_LOOPBACK = "127.0.0.1"
_USER = "innet"
_START_TIMEOUT_S = 30.0
_NONE: Final[Mapping[Path, Listener]] = MappingProxyType({})


class EmbeddedBroker:
    """Serves as an async context manager.

    The socket needs no login: it is in the run directory, which only its owner can enter. Every
    user of the machine can connect to the port, which has a password therefore.
    """

    def __init__(
        self,
        broker_socket: Path,
        port: int | None = None,
        limits: BrokerLimits | None = None,
        machines: Mapping[Path, Listener] = _NONE,
    ) -> None:
        """
        Args:
            port: of loopback; 0 for a free one, ``None`` for none.
            limits: of what clients can make the broker hold.
            machines: a socket for each other machine, to which its clients are relayed.
        """
        self._broker_socket = broker_socket
        self._machines = machines
        self._port = port
        self._url: BrokerUrl | None = None
        self._servers: list[asyncio.Server] = []
        self.broker = Broker(limits)

    @property
    def url(self) -> BrokerUrl | None:
        """The port and its login, once it serves; ``None``: there is none."""
        return self._url

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_exit(self)  # leaves no socket behind when the port is taken
            for path, listener in {self._broker_socket: Listener(), **self._machines}.items():
                await self._open_socket(path, listener)
            if self._port is not None:
                await self._open_port(self._port)
            stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        self.broker.close()
        for path in (self._broker_socket, *self._machines, self._password_file):
            path.unlink(missing_ok=True)

    async def _open_socket(self, path: Path, listener: Listener) -> None:
        protocol = self.broker.protocol_for(listener)
        self._servers.append(await asyncio.get_running_loop().create_unix_server(protocol, path))
        os.chmod(path, 0o600)

    async def _open_port(self, port: int) -> None:
        password = secrets.token_urlsafe(16)
        protocol = self.broker.protocol_for(Listener((_USER, password)))
        server = await asyncio.get_running_loop().create_server(protocol, _LOOPBACK, port)
        self._servers.append(server)
        write_private(self._password_file, password)
        bound_port = server.sockets[0].getsockname()[1]
        self._url = BrokerUrl(_LOOPBACK, bound_port, username=_USER, password=password)

    @property
    def _password_file(self) -> Path:
        return self._broker_socket.with_name(PASSWORD_NAME)


class BrokerThread:
    """Runs the embedded broker, or the relay to another, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        broker: str,
        port: int | None = None,
        limits: BrokerLimits | None = None,
        machines: Mapping[Path, Listener] = _NONE,
    ) -> None:
        """
        Args:
            broker: ``embedded``, or the URL of another.
            port: of loopback where the embedded broker serves as well; 0: a free one.
            limits: of the memory and connections that clients can take.
            machines: a socket for each other machine, to which its clients are relayed.
        """
        self._machines = machines
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
            return Relay(broker_socket, self._far, self._limits, self._machines)
        return EmbeddedBroker(broker_socket, self._port, self._limits, self._machines)
