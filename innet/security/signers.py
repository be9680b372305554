"""Keys that packets are signed with (NDN Packet Format v0.3, section 5)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from innet.errors import SecurityError
from innet.names import Name, as_name
from innet.tlv_numbers import SignatureType


class Signer(Protocol):
    """Signs packets with one key.

    Attributes:
        signature_type: number of its SignatureType.
        key_name: what stands in KeyLocator, the name of a key or certificate; ``None`` for none.
    """

    @property
    def signature_type(self) -> int: ...

    @property
    def key_name(self) -> Name | None: ...

    def sign(self, signed_portion: bytes) -> bytes:
        """The signature's value over these bytes."""


class DigestSigner:
    """SHA-256 over the packet: it detects damage and names no signer."""

    signature_type = int(SignatureType.DIGEST_SHA256)
    key_name: Name | None = None

    def sign(self, signed_portion: bytes) -> bytes:
        return hashlib.sha256(signed_portion).digest()


class NullSigner:
    """No signature: something else, such as a manifest, vouches for the packet."""

    signature_type = int(SignatureType.NULL)
    key_name: Name | None = None

    def sign(self, signed_portion: bytes) -> bytes:
        return b""


class HmacSigner:
    """HMAC-SHA256 with a secret that both sides know.

    Args:
        key_name: name that receivers look the secret up by.
        secret: any number of bytes but none.
    """

    signature_type = int(SignatureType.HMAC_WITH_SHA256)

    def __init__(self, key_name: Name | str, secret: bytes) -> None:
        if not secret:
            raise SecurityError("an empty secret signs nothing; give one of 32 random bytes")
        self.key_name: Name | None = as_name(key_name)
        self._secret = secret

    def sign(self, signed_portion: bytes) -> bytes:
        return hmac.digest(self._secret, signed_portion, "sha256")


class Ed25519Signer:
    """Ed25519: 64-byte signatures, the quickest of the public-key ones here."""

    signature_type = int(SignatureType.ED25519)

    def __init__(self, key_name: Name | str, key: ed25519.Ed25519PrivateKey) -> None:
        self.key_name: Name | None = as_name(key_name)
        self._key = key

    def sign(self, signed_portion: bytes) -> bytes:
        return self._key.sign(signed_portion)


class EcdsaSigner:
    """ECDSA over P-256 with SHA-256, which every NDN library verifies."""

    signature_type = int(SignatureType.SHA256_WITH_ECDSA)

    def __init__(self, key_name: Name | str, key: ec.EllipticCurvePrivateKey) -> None:
        if not isinstance(key.curve, ec.SECP256R1):
            raise SecurityError(
                f"{key.curve.name} is not the curve that NDN uses; make a key on SECP256R1 (P-256)"
            )
        self.key_name: Name | None = as_name(key_name)
        self._key = key

    def sign(self, signed_portion: bytes) -> bytes:
        return self._key.sign(signed_portion, ec.ECDSA(SHA256()))
