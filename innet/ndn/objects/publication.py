"""A published object: answers the Interests for its segments, manifests and metadata."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from innet._native import _core
from innet.errors import TransportError
from innet.names import METADATA, Name, number_at, with_keyword, with_segment, with_version
from innet.ndn import wire
from innet.ndn.objects.metadata import encode_metadata
from innet.ndn.objects.source import Source
from innet.ndn.production import Answer
from innet.ndn.wire import ReceivedInterest
from innet.security.signers import NullSigner, Signer
from innet.tlv_numbers import ComponentType

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
    """One version of an object; made by :func:`innet.ndn.objects.publish`.

    Attributes:
        name: of the object, without its version.
        versioned: with its version.
        segments: how many packets it has.
    """

    def __init__(self, name: Name, version: int, source: Source, cut: Cut, signer: Signer) -> None:
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
        """Refuse segments that programs of other houses would not take.

        Raises:
            TransportError: a segment's packet is too large.
        """
        wire.check_size(await self._segment(0), self.versioned)

    async def answer(self, interest: ReceivedInterest) -> Answer:
        """The packet that an Interest below ``name`` asks for; nothing if there is none."""
        name = interest.name
        if name[-1][0] == ComponentType.IMPLICIT_SHA256_DIGEST:
            name = name.parent()
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
        try:
            return await self._segment(segment) if segment < self.segments else None
        except TransportError:
            if self._closed:  # while it was read
                return None
            raise

    async def _segment(self, segment: int) -> bytes:
        size = self._cut.segment_bytes
        return wire.encode_data(
            with_segment(self.versioned, segment),
            await self._source.read(segment * size, size),
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
