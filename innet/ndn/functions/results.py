"""Results that are larger than a packet, until their callers have fetched them."""

from __future__ import annotations

import asyncio
import secrets

from innet.names import Name, with_component
from innet.ndn.client import Client
from innet.ndn.functions.kept_bytes import KeptBytes
from innet.ndn.functions.transfer import publication_of

RESULT = b"result"
_KEPT_S = 60.0


class Results:
    """Serves each for a minute; under load, when there is no room, the oldest for less.

    Args:
        most_bytes: that are kept; the latest result always is.
    """

    def __init__(self, client: Client, most_bytes: int) -> None:
        self._client = client
        self._kept = KeptBytes[Name](most_bytes)

    def publish(self, function: Name, content: bytes) -> Name:
        """The name by which it can be fetched: nobody can guess it."""
        name = with_component(with_component(function, RESULT), secrets.token_hex(16).encode())
        self._client.produce(name, publication_of(self._client, name, content).answer)
        self._kept.add(name, len(content))
        while self._kept.too_many:
            self._drop(next(iter(self._kept.sizes)))
        asyncio.get_running_loop().call_later(_KEPT_S, self._drop, name)
        return name

    def close(self) -> None:
        """Serve none any more."""
        for name in list(self._kept.sizes):
            self._drop(name)

    def _drop(self, name: Name) -> None:
        if self._kept.remove(name):
            self._client.stop_producing(name)
