"""Publishes objects: answers the Interests for their segments, manifests and metadata."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from innet._native import _core
from innet.errors import TransportError
from innet.names import (
    METADATA,
    Name,
    as_name,
    new_version,
    number_at,
    with_keyword,
    with_segment,
    with_version,
    without_digest,
)
from innet.ndn import wire
from innet.ndn.objects.discovery import encode_metadata
from innet.ndn.objects.sources import ContentSource, open_source
from innet.ndn.production import Answer, Refusal
from innet.ndn.wire import ReceivedInterest
from innet.security.signers import NullSigner, Signer
from innet.tlv_numbers import ComponentType, NackReason

if TYPE_CHECKING:
    from innet.ndn.client import Client

MANIFEST = b"manifest"


@dataclass(frozen=True)
class Cut:
    """How an object is cut into packets.

    Attributes:
        segment_bytes: content of every segment but the last.
        freshness_s: for how long caches may answer Interests for fresh Data with a segment.
    """

    segment_bytes: int
    freshness_s: float


class Publication:
    """One version of an object; made by :func:`innet.ndn.objects.publication`.

    Attributes:
        name: of the object, without its version.
        versioned: with its version.
        segments: how many packets it has.
        failure: why segments cannot be served any more; ``None`` while they can.
    """

    def __init__(
        self, name: Name, version: int, source: ContentSource, cut: Cut, signer: Signer
    ) -> None:
        self.name = name
        self.versioned = with_version(name, version)
        self._source = source
        self._cut = cut
        self._signer = signer
        self._segment_signer = signer
        self.segments = max(1, -(-source.size_bytes // cut.segment_bytes))
        self._metadata = encode_metadata(name, self.versioned, version, signer)
        self._manifests: list[bytes] = []
        self._closed = False
        self.failure: TransportError | None = None
        self._failed = asyncio.Event()

    async def seal(self) -> None:
        """Sign the object once: its segments carry no signature, and manifests list their digests.

        Raises:
            TransportError: its file cannot be read.
        """
        self._segment_signer = NullSigner()
        digests = [
            hashlib.sha256(await self._segment(segment)).digest()
            for segment in range(self.segments)
        ]
        manifests = _core.build_manifests(
            self.versioned, b"".join(digests), self._source.size_bytes, self._cut.segment_bytes
        )
        unsigned = wire.parse_data(manifests[0])
        root = wire.encode_data(
            unsigned.name,
            unsigned.content,
            content_type=unsigned.content_type,
            final_component=with_segment("/", len(manifests) - 1),
            signer=self._signer,
        )
        self._manifests = [root, *manifests[1:]]

    async def check_size(self) -> None:
        """Refuse segments that other NDN implementations would not accept.

        Raises:
            TransportError: a segment's packet is too large.
        """
        content = await self._source.read(0, self._cut.segment_bytes)
        # The last segment's number is the longest.
        wire.check_size(self._packet(self.segments - 1, content), self.versioned)

    async def answer(self, interest: ReceivedInterest) -> Answer:
        """Return the packet that an Interest below ``name`` requests, or ``None``."""
        name = without_digest(interest.name)
        below = name.parent()
        number = number_at(name, -1, ComponentType.SEGMENT)
        if below == self.versioned and number is not None:
            return await self._segment_answer(number)
        if below == with_keyword(self.versioned, MANIFEST) and number is not None:
            return self._manifests[number] if number < len(self._manifests) else None
        return await self._discovered(name, interest.can_be_prefix)

    async def _discovered(self, name: Name, can_be_prefix: bool) -> Answer:
        metadata = with_keyword(self.name, METADATA)
        metadata_name = wire.parse_data(self._metadata).name
        if name == metadata_name or (can_be_prefix and metadata.is_prefix_of(name)):
            return self._metadata if name.is_prefix_of(metadata_name) else None
        if can_be_prefix and name.is_prefix_of(self.versioned):
            return await self._segment_answer(0)
        return None

    async def _segment_answer(self, segment: int) -> Answer:
        if segment >= self.segments:
            return None
        try:
            if self.failure is None:
                return await self._segment(segment)
        except TransportError as error:
            if self._closed:  # while it was read
                return None
            self.failure = error
            self._failed.set()
        return Refusal(NackReason.NO_DATA)

    async def until_failure(self) -> NoReturn:
        """Wait until segments cannot be served any more.

        Raises:
            TransportError: the content changed, or cannot be read.
        """
        await self._failed.wait()
        assert self.failure is not None
        raise self.failure

    async def _segment(self, segment: int) -> bytes:
        size = self._cut.segment_bytes
        return self._packet(segment, await self._source.read(segment * size, size))

    def _packet(self, segment: int, content: bytes) -> bytes:
        return wire.encode_data(
            with_segment(self.versioned, segment),
            content,
            freshness_s=self._cut.freshness_s,
            final_component=with_segment("/", self.segments - 1),
            signer=self._segment_signer,
        )

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        self._source.close()


def largest_segment(segment_bytes: int) -> int:
    """``segment_bytes``, if a packet can have so many.

    Raises:
        TransportError: it is not positive, or too large for any packet.
    """
    if not 1 <= segment_bytes < wire.MAX_PACKET_BYTES:
        raise TransportError(
            f"a segment of {segment_bytes} bytes fits in no packet; give 1 to 8000"
        )
    return segment_bytes


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

    async def until_failure(self) -> NoReturn:
        """Wait until the published content changes; its segments are refused then.

        Raises:
            TransportError: what happened.
        """
        await self._publication.until_failure()

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
        content: bytes, or a path of a file. A change of the file while it is published is an error
            (see :meth:`PublishedObject.until_failure`), never a mixture. A pipe, a FIFO or a file
            of ``/proc`` is read to its end at first.
        version: microseconds since 1970 by default. Later ones have to be larger.
        segment_bytes: content of a packet.
        manifest: sign once for the whole object, in manifests that list what belongs to it (they
            are computed now); otherwise every segment is signed when it is requested.
        signer: the client's by default.
        freshness_s: for how long caches may answer Interests for fresh Data. Nodes of innet do so
            only with Data of keys that they know, such as their jobs': it has no effect there.

    Raises:
        TransportError: the file cannot be read, or a packet would be too large.
        CommandRefused: the forwarder does not let this client serve the name.
    """
    publication = Publication(
        as_name(name),
        new_version() if version is None else version,
        await open_source(content),
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
