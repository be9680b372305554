"""The way of a run's processes to its broker: a Unix socket in the run directory.

Whatever is behind it (the embedded broker or the relay to a real one), a process in a network
namespace of its own reaches it as well.
"""

from __future__ import annotations

from pathlib import Path

import aiomqtt

from innet.telemetry.broker_url import BrokerUrl

DOOR_NAME = "broker.sock"
"""Name of the socket in the run directory."""
KEEPALIVE_S = 10
"""A process that is silent for half as long again is ``gone``: one that was stopped, too."""
_TIMEOUT_S = 10.0
_MAX_QUEUED = 1000


def client_through(
    door: Path,
    url: BrokerUrl | None,
    *,
    identifier: str | None = None,
    will: aiomqtt.Will | None = None,
) -> aiomqtt.Client:
    """A client of the run's broker, not connected yet; call it inside an event loop.

    Args:
        door: the socket.
        url: how to log in to what is behind it; ``None``: it is the embedded broker, which lets
            in whoever can open the socket.
        identifier: unique among the broker's clients; made up by default.
        will: what the broker publishes when this client dies.
    """
    return aiomqtt.Client(
        str(door),
        transport="unix",
        username=None if url is None else url.username,
        password=None if url is None else url.password,
        identifier=identifier,
        will=will,
        keepalive=KEEPALIVE_S,
        timeout=_TIMEOUT_S,
        max_queued_outgoing_messages=_MAX_QUEUED,
        max_queued_incoming_messages=_MAX_QUEUED,
    )


def client_of(url: BrokerUrl) -> aiomqtt.Client:
    """A client that connects to a broker directly; call it inside an event loop."""
    return aiomqtt.Client(
        url.host,
        url.port,
        username=url.username,
        password=url.password,
        tls_context=url.tls_context(),
        keepalive=KEEPALIVE_S,
        timeout=_TIMEOUT_S,
        max_queued_incoming_messages=_MAX_QUEUED,
    )
