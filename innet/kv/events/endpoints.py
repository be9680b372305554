"""Addresses at which events are published: on this machine alone."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from innet.errors import KVError


@dataclass(frozen=True)
class Endpoints:
    """Addresses of a stream.

    Attributes:
        events: of the PUB socket.
        replay: of the ROUTER socket.
    """

    events: str
    replay: str

    @classmethod
    def of(cls, events: str, replay: str = "") -> Endpoints:
        """Addresses to bind; by default replays are at the next port, or beside the path.

        Raises:
            KVError: one is no address on this machine: events contain prompts, and nothing
                authenticates who reads them.

        >>> Endpoints.of("tcp://127.0.0.1:5557").replay
        'tcp://127.0.0.1:5558'
        """
        chosen = cls(events, replay or _replay_beside(events))
        for endpoint in (chosen.events, chosen.replay):
            _require_local(endpoint)
        return chosen


def _replay_beside(events: str) -> str:
    if events.startswith("ipc://"):
        return f"{events}-replay"
    host, _, port = events.rpartition(":")
    return f"{host}:{int(port) + 1 if int(port) else 0}" if port.isdecimal() else events


def _require_local(endpoint: str) -> None:
    with contextlib.suppress(ValueError):
        parts = urlsplit(endpoint)
        if parts.scheme == "ipc" and endpoint.removeprefix("ipc://"):
            return
        is_loopback = parts.hostname is not None and ip_address(parts.hostname).is_loopback
        if parts.scheme == "tcp" and parts.port is not None and is_loopback:
            return
    raise KVError(
        f"KV events contain the tokens of prompts and are published on this machine alone, and "
        f"{endpoint!r} is no address of it: give tcp://127.0.0.1:PORT or ipc://PATH, and forward "
        "that over SSH for consumers elsewhere"
    )
