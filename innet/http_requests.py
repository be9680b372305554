"""What the HTTP servers of this project have in common: whose requests they answer, and limits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

MOST_CONNECTIONS: Final = 256
CLIENT_S: Final = 60.0
"""For a client to send a request, or to read some of an answer."""
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def host_in(header: str) -> str | None:
    """The name or address in a Host header, without a port; ``None``: there is none."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def is_from_here(host: str, origin: str | None, names: Collection[str]) -> bool:
    """Whether a request names this server, and comes from no page of another one.

    A page can let its own name resolve to 127.0.0.1 (DNS rebinding): the Host header has that name.
    A page can also send requests to 127.0.0.1 whose answers it cannot read: its origin is another.

    Args:
        host: the Host header.
        origin: the Origin header; ``None``: the client is no page.
        names: of this server.
    """
    if host_in(host) not in names:
        return False
    if origin is None:
        return True
    try:
        return urlsplit(origin).hostname in names
    except ValueError:
        return False
