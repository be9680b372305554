"""Interest and Data (NDN Packet Format v0.3), with innet's metadata and manifests."""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.packet import Packet, Raw

from innet import tlv_numbers as numbers
from innet.observe.packets.layers.elements import (
    BytesElement,
    Element,
    FlagElement,
    NameElement,
    NestedElement,
    NumberElement,
    Undissected,
    known,
    read_elements,
)
from innet.observe.packets.outline import Outline
from innet.observe.packets.tlv import read_header


class Name(NameElement):
    """A name. ``Name(value="/a/seq=41")``, or bytes for one that is wrong."""


class CanBePrefix(FlagElement):
    """The Data's name may be longer than the Interest's."""


class MustBeFresh(FlagElement):
    """Stale Data does not satisfy the Interest."""


class ForwardingHint(NestedElement):
    """Names by which the Interest is forwarded."""

    children: ClassVar = known(Name)


class Nonce(BytesElement):
    """Four bytes that distinguish Interests with the same name."""

    def show_line(self) -> str:
        return f"Nonce {self.value_bytes().hex()}"


class InterestLifetime(NumberElement):
    """Lifetime of the Interest in milliseconds; 4000 without this element."""


class HopLimit(NumberElement):
    """Remaining hops."""


class ApplicationParameters(BytesElement):
    """Parameters that the consumer sends to the producer."""


class SignatureType(NumberElement):
    """The algorithm."""

    meanings: ClassVar = numbers.SIGNATURE_TYPES


class KeyDigest(BytesElement):
    """SHA-256 of a key."""


class KeyLocator(NestedElement):
    """Identifies the key of the signature."""

    children: ClassVar = known(Name, KeyDigest)


class SignatureNonce(BytesElement):
    """A number used once."""


class SignatureTime(NumberElement):
    """When it was signed, in milliseconds since 1970."""


class SignatureSeqNum(NumberElement):
    """A number that increases with each Interest."""


class _Text(BytesElement):
    def show_line(self) -> str:
        return f"{self.name} {self.value_bytes().decode(errors='backslashreplace')}"


class NotBefore(_Text):
    """When a certificate begins to be valid, such as 20260131T120000."""


class NotAfter(_Text):
    """When a certificate expires."""


class ValidityPeriod(NestedElement):
    """When a certificate is valid."""

    children: ClassVar = known(NotBefore, NotAfter)


class DescriptionKey(_Text):
    """The key of a description."""


class DescriptionValue(_Text):
    """A description."""


class DescriptionEntry(NestedElement):
    """One description."""

    children: ClassVar = known(DescriptionKey, DescriptionValue)


class AdditionalDescription(NestedElement):
    """Further descriptions of a certificate's owner."""

    children: ClassVar = known(DescriptionEntry)


class SignatureInfo(NestedElement):
    """How a Data packet is signed, and by whom."""

    children: ClassVar = known(
        SignatureType,
        KeyLocator,
        SignatureNonce,
        SignatureTime,
        SignatureSeqNum,
        ValidityPeriod,
        AdditionalDescription,
    )


class SignatureValue(BytesElement):
    """The signature of a Data packet."""


class InterestSignatureInfo(SignatureInfo):
    """How an Interest is signed, and by whom."""


class InterestSignatureValue(BytesElement):
    """The signature of an Interest."""


class ContentType(NumberElement):
    """The kind of the content."""

    meanings: ClassVar = numbers.CONTENT_TYPES


class FreshnessPeriod(NumberElement):
    """Milliseconds for which a content store considers the Data fresh."""


class FinalBlockId(NameElement):
    """The last component of the last segment's name."""

    def show_line(self) -> str:
        return f"FinalBlockId {self.uri[1:]}"


class TensorElements(NumberElement):
    """innet: elements of the whole tensor."""


class TensorError(NumberElement):
    """innet: why there is no tensor."""

    meanings: ClassVar = numbers.TENSOR_ERRORS


class EarlierCalls(BytesElement):
    """innet: calls of the publisher that its group compares, as text."""


class SegmentsReceived(NumberElement):
    """innet: below this segment, all ranks of the name's interval hold the whole sum."""


class SumCarry(NumberElement):
    """innet: what a sum of integers left out of its type."""


class MetaInfo(NestedElement):
    """The kind of the content, and its freshness."""

    children: ClassVar = known(
        ContentType,
        FreshnessPeriod,
        FinalBlockId,
        TensorElements,
        TensorError,
        EarlierCalls,
        SegmentsReceived,
        SumCarry,
    )


class Content(BytesElement):
    """The payload of a Data packet."""


class NetworkPacket(NestedElement):
    """An Interest or Data."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Another packet of a stream, if it is one."""
        header = read_header(payload)
        return Ndn if header is not None and header.type in numbers.PACKETS else Raw

    @property
    def uri(self) -> str:
        """Its name as text; empty when it has none."""
        name = self.element(Name)
        return "" if name is None else str(name.uri)

    def mysummary(self) -> str:
        return str(Outline.of(self.self_build()))


class Interest(NetworkPacket):
    """Asks for Data by name."""

    children: ClassVar = known(
        Name,
        CanBePrefix,
        MustBeFresh,
        ForwardingHint,
        Nonce,
        InterestLifetime,
        HopLimit,
        ApplicationParameters,
        InterestSignatureInfo,
        InterestSignatureValue,
    )


class Data(NetworkPacket):
    """Named, signed content."""

    children: ClassVar = known(Name, MetaInfo, Content, SignatureInfo, SignatureValue)

    @property
    def content(self) -> bytes:
        """The payload; empty without one."""
        found = self.element(Content)
        return b"" if found is None else bytes(found.value_bytes())


class Ndn(Packet):
    """Bytes that begin with an Interest, a Data or a link packet: becomes one of them."""

    name = "NDN"
    known_packets: ClassVar[dict[int, type[Element]]] = known(Interest, Data)

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *_: Any, **__: Any) -> type[Packet]:
        """scapy's hook: the class for ``data``."""
        header = None if data is None else read_header(data)
        return Undissected if header is None else cls.known_packets.get(header.type, Raw)


_MANIFEST = 1024


class ManifestSegments(NumberElement):
    """Segments of the object; in the root."""


class ManifestFanOut(NumberElement):
    """Most children of a manifest; in the root."""


class ManifestDigests(BytesElement):
    """Implicit digests of the children, 32 bytes each."""

    @property
    def digests(self) -> list[bytes]:
        """One for each child; the last one is shorter if it is cut off."""
        value = self.value_bytes()
        return [value[at : at + 32] for at in range(0, len(value), 32)]

    def show_line(self) -> str:
        digests = self.digests
        shown = ", ".join(digest.hex()[:8] for digest in digests[:4])
        return f"ManifestDigests {len(digests)}: {shown}{', …' if len(digests) > 4 else ''}"


class ManifestObjectBytes(NumberElement):
    """Size of the object; in the root."""


class ManifestSegmentBytes(NumberElement):
    """Content of every segment but the last; in the root."""


_CHILDREN: dict[int, type[Element]] = known(
    ManifestSegments, ManifestFanOut, ManifestDigests, ManifestObjectBytes, ManifestSegmentBytes
)


def manifest_elements(data: Data) -> list[Packet]:
    """The elements of a manifest; empty when ``data`` is not a manifest."""
    meta_info = data.element(MetaInfo)
    content_type = None if meta_info is None else meta_info.element(ContentType)
    if content_type is None or content_type.value != _MANIFEST:
        return []
    return read_elements(data.content, _CHILDREN)
