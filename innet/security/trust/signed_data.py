"""Data packets as those see them who verify and sign outside the packet path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from innet.errors import SecurityError
from innet.security.trust import tlv
from innet.security.trust.keys import PrivateKey, PublicKey
from innet.security.trust.names import Name, decode_name, encode_name, has_digest, uri_of
from innet.tlv_numbers import TlvType

CONTENT_TYPE_KEY = 2


@dataclass(frozen=True)
class SignedData:
    """A Data packet.

    Attributes:
        wire: the packet.
        name: its name.
        content_type: 0 for bytes; 2 for a key.
        content: its Content.
        signature_type: as NDN numbers them.
        key_locator: the name of the key or certificate that is said to have signed it, if any.
        signature_info: what else is in SignatureInfo, by element type.
        signed_portion: what the signature covers.
        signature: its SignatureValue.
    """

    wire: bytes = field(repr=False)
    name: Name
    content_type: int
    content: bytes = field(repr=False)
    signature_type: int
    key_locator: Name | None
    signature_info: dict[int, bytes] = field(repr=False)
    signed_portion: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def parse(cls, wire: bytes) -> SignedData:
        """The packet that these bytes are.

        Raises:
            SecurityError: they are no Data packet, or one without a signature, or one whose name
                claims an implicit digest.
        """
        packet = tlv.decode_one(wire, TlvType.DATA, "Data packet")
        blocks = list(tlv.decode(packet.value))
        by_type = {block.type: block for block in blocks}
        if not blocks or blocks[0].type != TlvType.NAME or len(by_type) != len(blocks):
            raise SecurityError("a Data packet has no name, or an element twice: it is damaged")
        name = decode_name(by_type[TlvType.NAME].value)
        if has_digest(name):
            raise SecurityError(
                f"{uri_of(name)} cannot name a Data packet: it claims an implicit digest, which "
                "receivers compute; drop the packet"
            )
        if TlvType.SIGNATURE_INFO not in by_type or TlvType.SIGNATURE_VALUE not in by_type:
            raise SecurityError("a Data packet has no signature")
        info = {b.type: b.value for b in tlv.decode(by_type[TlvType.SIGNATURE_INFO].value)}
        if TlvType.SIGNATURE_TYPE not in info:
            raise SecurityError("a signature does not say of which type it is")
        meta = by_type.get(TlvType.META_INFO)
        content = by_type.get(TlvType.CONTENT)
        portion = b"".join(b.whole for b in blocks if b.type != TlvType.SIGNATURE_VALUE)
        return cls(
            wire=wire,
            name=name,
            content_type=_content_type(meta.value if meta else b""),
            content=content.value if content else b"",
            signature_type=tlv.decode_integer(info[TlvType.SIGNATURE_TYPE]),
            key_locator=_key_locator(info.get(TlvType.KEY_LOCATOR)),
            signature_info=info,
            signed_portion=portion,
            signature=by_type[TlvType.SIGNATURE_VALUE].value,
        )

    @classmethod
    def sign(
        cls,
        name: Name,
        content: bytes,
        key: PrivateKey,
        key_locator: Name,
        *,
        content_type: int = 0,
        freshness_ms: int = 3_600_000,
        info: Sequence[bytes] = (),
    ) -> SignedData:
        """A packet signed by ``key``; ``info`` are more elements of its SignatureInfo."""
        meta = (
            tlv.encode_integer(TlvType.CONTENT_TYPE, content_type),
            tlv.encode_integer(TlvType.FRESHNESS_PERIOD, freshness_ms),
        )
        portion = b"".join(
            (
                encode_name(name),
                tlv.encode(TlvType.META_INFO, *meta),
                tlv.encode(TlvType.CONTENT, content),
                tlv.encode(
                    TlvType.SIGNATURE_INFO,
                    tlv.encode_integer(TlvType.SIGNATURE_TYPE, key.public.signature_type),
                    tlv.encode(TlvType.KEY_LOCATOR, encode_name(key_locator)),
                    *info,
                ),
            )
        )
        signature = tlv.encode(TlvType.SIGNATURE_VALUE, key.sign(portion))
        return cls.parse(tlv.encode(TlvType.DATA, portion, signature))

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether the signature is this key's, and of the type that it makes."""
        return self.signature_type == key.signature_type and key.verifies(
            self.signed_portion, self.signature
        )


def _content_type(meta: bytes) -> int:
    for block in tlv.decode(meta):
        if block.type == TlvType.CONTENT_TYPE:
            return tlv.decode_integer(block.value)
    return 0


def _key_locator(value: bytes | None) -> Name | None:
    if value is None:
        return None
    blocks = list(tlv.decode(value))
    return decode_name(blocks[0].value) if blocks and blocks[0].type == TlvType.NAME else None
