"""Validators of Data packets.

A :class:`Validator` decides; ``security.trust`` has one that follows a trust policy. The two here
need no policy: :class:`IntegrityValidator` finds damage, :class:`KeyValidator` knows its keys.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from innet._native import _core
from innet.errors import SecurityError
from innet.names import Name, as_name
from innet.tlv_numbers import SignatureType

ReceivedData = _core.ReceivedData

VerificationKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | bytes
"""A public key, or the secret of an HMAC."""


class Validator(Protocol):
    """Decides on packets. Fetching certificates on the way is why it may have to be awaited."""

    async def check(self, name: str, data: ReceivedData) -> None:
        """Return when ``data``, which is called ``name``, may be trusted."""


class IntegrityValidator:
    """Refuses packets whose digest is wrong, and none that a key has signed.

    It detects damage only and ignores signers. It is the default where the program names no trusted
    keys.
    """

    async def check(self, name: str, data: ReceivedData) -> None:
        if data.signature_type != SignatureType.DIGEST_SHA256:
            return
        if not hmac.compare_digest(
            hashlib.sha256(data.signed_portion).digest(), data.signature_value
        ):
            raise SecurityError(f"{name} is damaged: its digest is not that of its bytes")


class KeyValidator:
    """Accepts packets of any name that one of a few known keys has signed.

    Args:
        keys: by the name in KeyLocator: ``{"/alice/KEY/1": public_key}``.
    """

    def __init__(self, keys: Mapping[str, VerificationKey]) -> None:
        self._keys: dict[Name, VerificationKey] = {as_name(name): key for name, key in keys.items()}

    async def check(self, name: str, data: ReceivedData) -> None:
        if data.key_name is None:
            raise SecurityError(
                f"{name} is signed by no key (signature type {data.signature_type}); ask its "
                "producer to sign it, or check its integrity alone"
            )
        key = self._keys.get(data.key_name)
        if key is None:
            raise SecurityError(f"{name} is signed by {data.key_name}, which is none of your keys")
        if not signature_holds(key, data):
            raise SecurityError(f"{name}: the signature is not that of {data.key_name}")


def signature_holds(key: VerificationKey, data: ReceivedData) -> bool:
    """Whether ``key`` made the signature of ``data``, of the type that goes with the key."""
    signed, value, kind = data.signed_portion, data.signature_value, data.signature_type
    if isinstance(key, bytes):
        expected = hmac.digest(key, signed, "sha256")
        return kind == SignatureType.HMAC_WITH_SHA256 and hmac.compare_digest(expected, value)
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(value, signed)
            return kind == SignatureType.ED25519
        key.verify(value, signed, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return kind == SignatureType.SHA256_WITH_ECDSA
