"""Publishing objects: large content under a versioned name, in segments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from innet.names import Name, as_name, new_version
from innet.ndn.objects.publication import Cut, Publication, largest_segment, source_of
from innet.security.signers import Signer

if TYPE_CHECKING:
    from innet.ndn.client import Client

DEFAULT_SEGMENT_BYTES = 8000
"""With a name and a signature below the 8800 bytes that NDN programs take."""


class PublishedObject:
    """An object while it is published. ``async with``, or :meth:`withdraw` it.

    Attributes:
        name: of the object, without its version.
        versioned: with its version.
        segments: how many packets it has.
    """

    def __init__(self, client: Client, publication: Publication) -> None:
        self._client = client
        self._publication = publication
        self.name = publication.name
        self.versioned = publication.versioned
        self.segments = publication.segments

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.withdraw()

    async def withdraw(self) -> None:
        """Answer no more for it; of its name neither, unless a later version has taken it over."""
        self._client.stop_producing(self.versioned)
        self._publication.close()
        if self._client.produces(self.name, self._publication.answer):
            await self._client.unregister(self.name)


async def publish(
    client: Client,
    name: Name | str,
    content: bytes | Path,
    *,
    version: int | None = None,
    segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    manifest: bool = False,
    signer: Signer | None = None,
    freshness_s: float = 10.0,
) -> PublishedObject:
    """Publish ``content`` under ``<name>/v=<version>/seg=<k>``, and say in metadata that it is the
    latest version of ``name``.

    Args:
        content: bytes, or a path of a file; neither may change while it is published.
        version: microseconds since 1970 by default. Later ones have to be larger.
        segment_bytes: content of a packet.
        manifest: sign once for the whole object, in manifests that list what belongs to it (they
            are computed now); otherwise every segment is signed when it is asked for.
        signer: the client's by default.
        freshness_s: for how long caches may answer Interests for fresh Data.

    Raises:
        TransportError: the file cannot be read, or a packet would be too large.
        CommandRefused: the forwarder does not let this client serve the name.
    """
    publication = Publication(
        as_name(name),
        new_version() if version is None else version,
        source_of(content),
        Cut(largest_segment(segment_bytes), freshness_s),
        signer or client.signer,
    )
    try:
        await publication.check_size()
        if manifest:
            await publication.seal()
        client.produce(publication.versioned, publication.answer)
        await client.register(publication.name, publication.answer)
    except BaseException:
        client.stop_producing(publication.versioned)
        publication.close()
        raise
    return PublishedObject(client, publication)
