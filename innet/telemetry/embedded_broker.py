"""A broker of MQTT 3.1.1 inside the launcher: amqtt, behind the door and on a port of loopback."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType
from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session

from innet.telemetry.broker_url import BrokerUrl

_LOOPBACK = "127.0.0.1"
_USER = "innet"
_DOOR = "door"
# amqtt's listener without a socket of its own wants an address all the same.
_NO_ADDRESS = "unix"


class RunPassword(BaseAuthPlugin):  # type: ignore[misc]  # amqtt has no types
    """Lets in who knows the run's password: loopback is open to every user of the machine."""

    @dataclass
    class Config:
        """What amqtt hands to the plugin."""

        password: str

    async def authenticate(self, *, session: Session) -> bool:
        """Whether this client may stay."""
        given = (session.password or "").encode()
        return secrets.compare_digest(given, self.config.password.encode())


class _DoorWriter(StreamWriterAdapter):  # type: ignore[misc]
    """A Unix socket's peer has no address, which amqtt takes for a lost connection."""

    def get_peer_info(self) -> tuple[str, int]:
        return _NO_ADDRESS, 0


class EmbeddedBroker:
    """Serves as an async context manager; :attr:`url` is for clients without the door."""

    def __init__(self, door: Path) -> None:
        self._door = door
        self._password = secrets.token_urlsafe(16)
        self._port = 0
        self._broker: Any = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> BrokerUrl:
        """Where programs of this machine find it, once it serves."""
        return BrokerUrl(_LOOPBACK, self._port, username=_USER, password=self._password)

    async def __aenter__(self) -> Self:
        # What strangers send to the port is no news for whoever trains.
        logging.getLogger("amqtt").setLevel(logging.CRITICAL)
        self._broker = Broker(
            BrokerConfig(
                listeners={
                    "default": ListenerConfig(bind=f"{_LOOPBACK}:0"),
                    _DOOR: ListenerConfig(type=ListenerType.EXTERNAL, bind=_NO_ADDRESS),
                },
                plugins={f"{__name__}.{RunPassword.__name__}": {"password": self._password}},
            )
        )
        await self._broker.start()
        self._port = self._broker._servers["default"].instance.sockets[0].getsockname()[1]
        self._server = await asyncio.start_unix_server(self._accept, self._door)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        await self._broker.shutdown()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._door.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(
            self._broker.external_connected(StreamReaderAdapter(reader), _DoorWriter(writer), _DOOR)
        )
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
