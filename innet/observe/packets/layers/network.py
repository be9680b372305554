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
from innet.tlv_numbers import TlvType


class Name(NameElement):
    """A name. ``Name(value="/a/seq=41")``, or bytes for one that is wrong."""

    name = "Name"
    tlv_type = TlvType.NAME


class CanBePrefix(FlagElement):
    """The Data's name may be longer than the Interest's."""

    name = "CanBePrefix"
    tlv_type = TlvType.CAN_BE_PREFIX


class MustBeFresh(FlagElement):
    """Stale Data does not satisfy the Interest."""

    name = "MustBeFresh"
    tlv_type = TlvType.MUST_BE_FRESH


class ForwardingHint(NestedElement):
    """Names by which the Interest is forwarded."""

    name = "ForwardingHint"
    tlv_type = TlvType.FORWARDING_HINT
    children: ClassVar = known(Name)


class Nonce(BytesElement):
    """Four bytes that distinguish Interests with the same name."""

    name = "Nonce"
    tlv_type = TlvType.NONCE

    def show_line(self) -> str:
        return f"Nonce {self.value_bytes().hex()}"


class InterestLifetime(NumberElement):
    """Lifetime of the Interest in milliseconds; 4000 without this element."""

    name = "InterestLifetime"
    tlv_type = TlvType.INTEREST_LIFETIME


class HopLimit(NumberElement):
    """Remaining hops."""

    name = "HopLimit"
    tlv_type = TlvType.HOP_LIMIT


class ApplicationParameters(BytesElement):
    """Parameters that the consumer sends to the producer."""

    name = "ApplicationParameters"
    tlv_type = TlvType.APPLICATION_PARAMETERS


class SignatureType(NumberElement):
    """The algorithm."""

    name = "SignatureType"
    tlv_type = TlvType.SIGNATURE_TYPE
    meanings: ClassVar = numbers.SIGNATURE_TYPES


class KeyDigest(BytesElement):
    """SHA-256 of a key."""

    name = "KeyDigest"
    tlv_type = TlvType.KEY_DIGEST


class KeyLocator(NestedElement):
    """Identifies the key of the signature."""

    name = "KeyLocator"
    tlv_type = TlvType.KEY_LOCATOR
    children: ClassVar = known(Name, KeyDigest)


class SignatureNonce(BytesElement):
    """A number used once."""

    name = "SignatureNonce"
    tlv_type = TlvType.SIGNATURE_NONCE


class SignatureTime(NumberElement):
    """When it was signed, in milliseconds since 1970."""

    name = "SignatureTime"
    tlv_type = TlvType.SIGNATURE_TIME


class SignatureSeqNum(NumberElement):
    """A number that increases with each Interest."""

    name = "SignatureSeqNum"
    tlv_type = TlvType.SIGNATURE_SEQ_NUM


class _Text(BytesElement):
    def show_line(self) -> str:
        return f"{self.name} {self.value_bytes().decode(errors='backslashreplace')}"


class NotBefore(_Text):
    """When a certificate begins to be valid, such as 20260131T120000."""

    name = "NotBefore"
    tlv_type = TlvType.NOT_BEFORE


class NotAfter(_Text):
    """When a certificate expires."""

    name = "NotAfter"
    tlv_type = TlvType.NOT_AFTER


class ValidityPeriod(NestedElement):
    """When a certificate is valid."""

    name = "ValidityPeriod"
    tlv_type = TlvType.VALIDITY_PERIOD
    children: ClassVar = known(NotBefore, NotAfter)


class DescriptionKey(_Text):
    """The key of a description."""

    name = "DescriptionKey"
    tlv_type = TlvType.DESCRIPTION_KEY


class DescriptionValue(_Text):
    """A description."""

    name = "DescriptionValue"
    tlv_type = TlvType.DESCRIPTION_VALUE


class DescriptionEntry(NestedElement):
    """One description."""

    name = "DescriptionEntry"
    tlv_type = TlvType.DESCRIPTION_ENTRY
    children: ClassVar = known(DescriptionKey, DescriptionValue)


class AdditionalDescription(NestedElement):
    """What else a certificate says of its owner."""

    name = "AdditionalDescription"
    tlv_type = TlvType.ADDITIONAL_DESCRIPTION
    children: ClassVar = known(DescriptionEntry)


class SignatureInfo(NestedElement):
    """How a Data packet is signed, and by whom."""

    name = "SignatureInfo"
    tlv_type = TlvType.SIGNATURE_INFO
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

    name = "SignatureValue"
    tlv_type = TlvType.SIGNATURE_VALUE


class InterestSignatureInfo(SignatureInfo):
    """How an Interest is signed, and by whom."""

    name = "InterestSignatureInfo"
    tlv_type = TlvType.INTEREST_SIGNATURE_INFO


class InterestSignatureValue(BytesElement):
    """The signature of an Interest."""

    name = "InterestSignatureValue"
    tlv_type = TlvType.INTEREST_SIGNATURE_VALUE


class ContentType(NumberElement):
    """What the content is."""

    name = "ContentType"
    tlv_type = TlvType.CONTENT_TYPE
    meanings: ClassVar = numbers.CONTENT_TYPES


class FreshnessPeriod(NumberElement):
    """How long a cache may call it fresh, in milliseconds."""

    name = "FreshnessPeriod"
    tlv_type = TlvType.FRESHNESS_PERIOD


class FinalBlockId(NameElement):
    """The last component of the last segment's name."""

    name = "FinalBlockId"
    tlv_type = TlvType.FINAL_BLOCK_ID

    def show_line(self) -> str:
        return f"FinalBlockId {self.uri[1:]}"


class TensorElements(NumberElement):
    """innet: elements of the whole tensor."""

    name = "TensorElements"
    tlv_type = TlvType.TENSOR_ELEMENTS


class TensorError(NumberElement):
    """innet: why there is no tensor."""

    name = "TensorError"
    tlv_type = TlvType.TENSOR_ERROR
    meanings: ClassVar = numbers.TENSOR_ERRORS


class MetaInfo(NestedElement):
    """What the content is and how long it is fresh."""

    name = "MetaInfo"
    tlv_type = TlvType.META_INFO
    children: ClassVar = known(
        ContentType, FreshnessPeriod, FinalBlockId, TensorElements, TensorError
    )


class Content(BytesElement):
    """The payload of a Data packet."""

    name = "Content"
    tlv_type = TlvType.CONTENT


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

    name = "Interest"
    tlv_type = TlvType.INTEREST
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

    name = "Data"
    tlv_type = TlvType.DATA
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

    name = "ManifestSegments"
    tlv_type = TlvType.MANIFEST_SEGMENTS


class ManifestFanOut(NumberElement):
    """Most children of a manifest; in the root."""

    name = "ManifestFanOut"
    tlv_type = TlvType.MANIFEST_FAN_OUT


class ManifestDigests(BytesElement):
    """Implicit digests of the children, 32 bytes each."""

    name = "ManifestDigests"
    tlv_type = TlvType.MANIFEST_DIGESTS

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

    name = "ManifestObjectBytes"
    tlv_type = TlvType.MANIFEST_OBJECT_BYTES


class ManifestSegmentBytes(NumberElement):
    """Content of every segment but the last; in the root."""

    name = "ManifestSegmentBytes"
    tlv_type = TlvType.MANIFEST_SEGMENT_BYTES


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
