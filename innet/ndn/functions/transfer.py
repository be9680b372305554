"""Arguments, items and results on their way: objects of one version, at names that both know."""

from __future__ import annotations

import asyncio

from innet.errors import TransportError
from innet.names import Name, with_version
from innet.ndn.client import Client
from innet.ndn.objects.object_fetch import ObjectFetch
from innet.ndn.objects.publication import Cut, Publication
from innet.ndn.objects.sink import MemorySink
from innet.ndn.objects.source import MemorySource
from innet.security.validation import Validator

_VERSION = 1
_SEGMENT_BYTES = 8000
_FRESHNESS_S = 4.0
NO_ROUTE_PATIENCE_S = 1.0
"""Whoever has just begun to serve a name is found everywhere a moment later."""
DEFAULT_MOST_BYTES = 64 << 20
"""Of the arguments of a call, of its result, and of an item of a flow."""


def publication_of(client: Client, name: Name, content: bytes) -> Publication:
    """``content`` in segments below ``<name>/v=1``; the caller lets it answer Interests."""
    cut = Cut(_SEGMENT_BYTES, _FRESHNESS_S)
    return Publication(name, _VERSION, MemorySource(content), cut, client.signer)


async def fetch_content(
    client: Client,
    name: Name,
    *,
    validator: Validator,
    patience_s: float,
    most_bytes: int,
    deadline_s: float | None = None,
) -> bytes:
    """What :func:`publication_of` was given, elsewhere.

    Args:
        patience_s: how long one segment may go unanswered.
        deadline_s: within which all of it has to come; the caller's own limits by default.

    Raises:
        ObjectIncomplete: some of it did not come; the message says why.
        SecurityError: a segment may not be believed.
        TransportError: it has more than ``most_bytes``, or the deadline has passed.
    """
    fetch = ObjectFetch(
        client,
        with_version(name, _VERSION),
        MemorySink(),
        validator=validator,
        patience_s=patience_s,
        no_route_patience_s=NO_ROUTE_PATIENCE_S,
        most_bytes=most_bytes,
    )
    limit = asyncio.timeout(deadline_s)
    try:
        async with limit:
            return (await fetch.run()).content
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TransportError(
            f"{name}: not all of it came within {deadline_s:g} s; send less at once"
        ) from error
