"""The broker inside the launcher: on a Unix socket, and on a port of loopback if that is set."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from pathlib import Path
from typing import Self

from innet.private_files import write_private
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.mqtt_broker import Broker, BrokerLimits
from innet.telemetry.mqtt_session import Listener

PASSWORD_NAME = "broker.password"  # noqa: S105  # a file name
"""File in the run directory with the password of the port; only its owner can read it."""
_LOOPBACK = "127.0.0.1"
_USER = "innet"


class EmbeddedBroker:
    """Serves as an async context manager.

    The socket needs no login: it is in the run directory, which only its owner can enter. Every
    user of the machine can connect to the port, which has a password therefore.
    """

    def __init__(
        self, broker_socket: Path, port: int | None = None, limits: BrokerLimits | None = None
    ) -> None:
        """
        Args:
            broker_socket: the socket.
            port: of loopback; 0 for a free one, ``None`` for none.
            limits: of what clients can make the broker hold.
        """
        self._broker_socket = broker_socket
        self._port = port
        self._url: BrokerUrl | None = None
        self._servers: list[asyncio.Server] = []
        self.broker = Broker(limits)

    @property
    def url(self) -> BrokerUrl | None:
        """The port and its login, once it serves; ``None``: there is none."""
        return self._url

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        protocol = self.broker.protocol_for(Listener())
        self._servers.append(await loop.create_unix_server(protocol, self._broker_socket))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_exit(self)  # leaves no socket behind when the port is taken
            self._broker_socket.chmod(0o600)
            if self._port is not None:
                await self._open_port(self._port)
            stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        self.broker.close()
        self._broker_socket.unlink(missing_ok=True)
        self._password_file.unlink(missing_ok=True)

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
