"""Data packets for code that verifies and signs outside the packet path."""

from __future__ import annotations

from typing import Final

from innet._native import _core
from innet.errors import SecurityError
from innet.names import Name
from innet.security.trust.keys import PrivateKey
from innet.tlv_numbers import ContentType

_FRESHNESS_MS: Final = 3_600_000


def parse_data(wire: bytes) -> _core.ReceivedData:
    """Read a Data packet; its signature is not checked.

    Raises:
        SecurityError: the bytes are not a Data packet, its signature is missing, or its name claims
            an implicit digest.
    """
    try:
        return _core.ReceivedData(wire)
    except ValueError as error:
        raise SecurityError(
            f"{error}, beginning with {wire[:16].hex()}: expected one signed Data packet "
            "without an implicit digest in its name; it is damaged or forged, drop it"
        ) from error


def sign_data(
    name: Name,
    content: bytes,
    key: PrivateKey,
    key_locator: Name,
    *,
    content_type: int = ContentType.BLOB,
    info: bytes = b"",
) -> _core.ReceivedData:
    """A packet signed by ``key``; ``info``: elements of SignatureInfo after KeyLocator.

    Raises:
        SecurityError: no Data packet can have that name.
    """
    try:
        portion = _core.encode_signed_portion(
            name,
            content,
            content_type=content_type,
            freshness_ms=_FRESHNESS_MS,
            signature_type=key.public.signature_type,
            key_name=key_locator,
            signature_extension=info,
        )
    except ValueError as error:
        raise SecurityError(str(error)) from error
    return parse_data(_core.encode_data(portion, key.sign(portion)))
