"""Secrets that one process alone can read: Hybrid Public Key Encryption (RFC 9180).

X25519, HKDF-SHA256 and AES-128-GCM, in base mode: who has sealed something is told by the signature
of the packet that carries it.
"""

from __future__ import annotations

from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from innet.errors import SecurityError

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


class SealingKey:
    """A process's key pair. The private half never leaves the process, and ends with it."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls) -> Self:
        """A new pair."""
        return cls(X25519PrivateKey.generate())

    @property
    def public(self) -> str:
        """What others seal to, hexadecimal."""
        return self._private.public_key().public_bytes_raw().hex()

    def open(self, sealed: bytes, purpose: bytes) -> bytes:
        """What :func:`seal` was given.

        Raises:
            SecurityError: it was sealed to another key or for another purpose, or was changed.
        """
        try:
            return _SUITE.decrypt(sealed, self._private, purpose)
        except InvalidTag as error:
            raise SecurityError(
                "a sealed secret is not for this process, or for another purpose: it was sealed to "
                "another key, or changed on the way"
            ) from error


def seal(secret: bytes, public: str, purpose: bytes) -> bytes:
    """``secret`` for the process with this public key, which opens it with the same ``purpose``.

    Raises:
        SecurityError: that is no public key.

    >>> key = SealingKey.generate()
    >>> key.open(seal(b"secret", key.public, b"example"), b"example")
    b'secret'
    """
    try:
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        return _SUITE.encrypt(secret, key, purpose)
    except ValueError as error:
        raise SecurityError(f"{public!r} is no key that can be sealed to: {error}") from error
