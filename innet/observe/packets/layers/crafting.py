"""Builds whole packets from a few arguments; every element can be changed afterwards.

>>> from innet.observe.packets.layers import Nonce, interest
>>> packet = interest("/a/b", must_be_fresh=True)
>>> packet.element(Nonce).value = b"too long a nonce"
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from innet.observe.packets.layers.elements import Element, Undissected
from innet.observe.packets.layers.ndnlp import (
    CongestionMark,
    FragCount,
    FragIndex,
    Fragment,
    Hello,
    Hold,
    LpPacket,
    Nack,
    NackReason,
    PitToken,
)
from innet.observe.packets.layers.ndnlp import Sequence as SequenceElement
from innet.observe.packets.layers.network import (
    CanBePrefix,
    Content,
    ContentType,
    Data,
    FinalBlockId,
    ForwardingHint,
    FreshnessPeriod,
    Interest,
    InterestLifetime,
    KeyLocator,
    ManifestDigests,
    ManifestFanOut,
    ManifestObjectBytes,
    ManifestSegmentBytes,
    ManifestSegments,
    MetaInfo,
    MustBeFresh,
    Name,
    NetworkPacket,
    Nonce,
    SignatureInfo,
    SignatureType,
    SignatureValue,
    TensorElements,
)

_DIGEST_SHA256 = 0


def interest(
    name: str | bytes,
    *,
    nonce: int = 0,
    can_be_prefix: bool = False,
    must_be_fresh: bool = False,
    hints: Sequence[str] = (),
    lifetime_ms: int | None = None,
) -> Interest:
    """An Interest for ``name``, a URI or the bytes of a Name's value.

    Raises:
        ValueError: a name is malformed.
    """
    elements: list[Element] = [Name(value=name)]
    if can_be_prefix:
        elements.append(CanBePrefix())
    if must_be_fresh:
        elements.append(MustBeFresh())
    if hints:
        elements.append(ForwardingHint(elements=[Name(value=hint) for hint in hints]))
    elements.append(Nonce(value=nonce.to_bytes(4, "big")))
    if lifetime_ms is not None:
        elements.append(InterestLifetime(value=lifetime_ms))
    return Interest(elements=elements)


def data(
    name: str | bytes,
    content: bytes = b"",
    *,
    content_type: int | None = None,
    freshness_ms: int | None = None,
    final_block: str | None = None,
    tensor_elements: int | None = None,
    signature_type: int = _DIGEST_SHA256,
    key_name: str | None = None,
    signature: bytes | None = None,
) -> Data:
    """A Data packet of ``name``.

    Args:
        name: a URI, or the bytes of a Name's value.
        content: its payload.
        content_type: left out by default, which means a blob.
        freshness_ms: left out by default.
        final_block: the last component of the last segment's name, such as ``seg=9``.
        tensor_elements: innet's metadata.
        signature_type: a number; the digest by default.
        key_name: of the KeyLocator.
        signature: the signature's bytes; by default the right digest, whatever the type.

    Raises:
        ValueError: a name is malformed.
    """
    meta: list[Element] = []
    if content_type is not None:
        meta.append(ContentType(value=content_type))
    if freshness_ms is not None:
        meta.append(FreshnessPeriod(value=freshness_ms))
    if final_block is not None:
        meta.append(FinalBlockId(value=f"/{final_block}"))
    if tensor_elements is not None:
        meta.append(TensorElements(value=tensor_elements))
    key = [] if key_name is None else [KeyLocator(elements=[Name(value=key_name)])]
    elements = [
        Name(value=name),
        *([MetaInfo(elements=meta)] if meta else []),
        Content(value=content),
        SignatureInfo(elements=[SignatureType(value=signature_type), *key]),
    ]
    if signature is None:
        signature = hashlib.sha256(b"".join(map(bytes, elements))).digest()
    return Data(elements=[*elements, SignatureValue(value=signature)])


def link(
    packet: NetworkPacket | bytes | None,
    *,
    pit_token: bytes = b"",
    nack: int | None = None,
    hold: str | None = None,
    mark: int | None = None,
    hello: bool | None = None,
    fragment: tuple[int, int, int] | None = None,
) -> LpPacket:
    """A link packet around ``packet``, or an idle one, with headers in the order of their types.

    Args:
        packet: an Interest or Data, or the bytes of a piece of one.
        pit_token: 1 to 32 bytes.
        nack: a reason's number.
        hold: label of the producer that the Interest waits for.
        mark: a congestion mark.
        hello: whether the sender receives packets from the receiver.
        fragment: sequence number, index and count.
    """
    headers: list[Element] = []
    if fragment is not None:
        sequence, index, count = fragment
        headers.append(SequenceElement(value=sequence.to_bytes(8, "big")))
        headers += [FragIndex(value=index), FragCount(value=count)]
    if pit_token:
        headers.append(PitToken(value=pit_token))
    if nack is not None:
        headers.append(Nack(elements=[NackReason(value=nack)] if nack else []))
    if mark is not None:
        headers.append(CongestionMark(value=mark))
    if hold is not None:
        headers.append(Hold(value=hold.encode()))
    if hello is not None:
        headers.append(Hello(value=int(hello)))
    if packet is not None:
        inner = Undissected(load=packet) if isinstance(packet, bytes) else packet
        headers.append(Fragment(elements=[inner]))
    return LpPacket(elements=headers)


def manifest_content(
    digests: Sequence[bytes],
    *,
    segments: int | None = None,
    fan_out: int = 256,
    object_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> bytes:
    """The Content of a manifest; ``segments`` makes it a root."""
    elements: list[Element] = []
    if segments is not None:
        elements += [ManifestSegments(value=segments), ManifestFanOut(value=fan_out)]
    if object_bytes is not None:
        elements.append(ManifestObjectBytes(value=object_bytes))
    if segment_bytes is not None:
        elements.append(ManifestSegmentBytes(value=segment_bytes))
    return b"".join(map(bytes, [*elements, ManifestDigests(value=b"".join(digests))]))


def implicit_digest(packet: Data) -> bytes:
    """SHA-256 over the whole packet, which its full name ends with."""
    return hashlib.sha256(bytes(packet)).digest()
