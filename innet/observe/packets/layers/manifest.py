"""The elements in the Content of innet's manifests."""

from __future__ import annotations

from scapy.packet import Packet

from innet.observe.packets.layers.elements import (
    BytesElement,
    Element,
    NumberElement,
    known,
    read_elements,
)
from innet.observe.packets.layers.network import ContentType, Data, MetaInfo
from innet.tlv_numbers import TlvType

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
