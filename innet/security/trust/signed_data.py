"""Data packets for code that verifies and signs outside the packet path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from innet._native import _core
from innet.errors import SecurityError
from innet.security.trust.keys import PrivateKey, PublicKey
from innet.security.trust.names import Name, components_of, native_name
from innet.tlv_numbers import ContentType

_FRESHNESS_MS: Final = 3_600_000


@dataclass(frozen=True)
class SignedData:
    """A Data packet.

    Attributes:
        wire: the packet.
        name: its name.
        content_type: see :class:`innet.tlv_numbers.ContentType`.
        content: its Content.
        signature_type: as NDN numbers them.
        key_locator: the name of the key or certificate that claims to have signed it, if any.
        validity_period: value of a certificate's ValidityPeriod.
        signed_portion: what the signature covers.
        signature: its SignatureValue.
    """

    wire: bytes = field(repr=False)
    name: Name
    content_type: int
    content: bytes = field(repr=False)
    signature_type: int
    key_locator: Name | None
    validity_period: bytes | None = field(repr=False)
    signed_portion: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def parse(cls, wire: bytes) -> SignedData:
        """Read a Data packet; its signature is not checked.

        Raises:
            SecurityError: these bytes are no Data packet, or its signature is missing, or its name
                claims an implicit digest.
        """
        try:
            packet = _core.ReceivedData(wire)
        except ValueError as error:
            raise SecurityError(
                f"{error}, beginning with {wire[:16].hex()}: expected one signed Data packet "
                "without an implicit digest in its name; it is damaged or forged, drop it"
            ) from error
        return cls(
            wire=wire,
            name=components_of(packet.name),
            content_type=packet.content_type,
            content=packet.content,
            signature_type=packet.signature_type,
            key_locator=None if packet.key_name is None else components_of(packet.key_name),
            validity_period=packet.validity_period,
            signed_portion=packet.signed_portion,
            signature=packet.signature_value,
        )

    @classmethod
    def sign(
        cls,
        name: Name,
        content: bytes,
        key: PrivateKey,
        key_locator: Name,
        *,
        content_type: int = ContentType.BLOB,
        info: bytes = b"",
    ) -> SignedData:
        """A packet signed by ``key``; ``info``: elements of SignatureInfo after KeyLocator.

        Raises:
            SecurityError: no Data packet can have that name.
        """
        try:
            portion = _core.encode_signed_portion(
                native_name(name),
                content,
                content_type=content_type,
                freshness_ms=_FRESHNESS_MS,
                signature_type=key.public.signature_type,
                key_name=native_name(key_locator),
                signature_extension=info,
            )
        except ValueError as error:
            raise SecurityError(str(error)) from error
        return cls.parse(_core.encode_data(portion, key.sign(portion)))

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether the signature is this key's, and of the type that it makes."""
        return self.signature_type == key.signature_type and key.verifies(
            self.signed_portion, self.signature
        )
