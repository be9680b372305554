"""Masks: residues that follow from a seed, the same for everybody who has it."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from innet.collectives.masked.fixed_point import Residues
from innet.errors import SecurityError

SEED_BYTES = 32
_FIRST_COUNTER = bytes(16)
_PIECE = bytes(1 << 17)
"""Zeros to encrypt: what they become is added while it is in the core's own cache."""


def add_mask(into: Residues, seed: bytes, sign: int) -> None:
    """Add the mask of ``seed``, or subtract it if ``sign`` is -1, modulo the type of ``into``.

    Masks look uniform to who has not the seed: AES-256 in counter mode. A seed is expanded once in
    a round: it is a key of its own, and so the counter begins at 0.
    """
    combine = np.add if sign > 0 else np.subtract
    stream = Cipher(algorithms.AES(seed), modes.CTR(_FIRST_COUNTER)).encryptor()
    piece = np.empty(len(_PIECE) + 15, np.uint8)  # 15: as many as the library asks for
    per_piece = len(_PIECE) // into.itemsize
    for first in range(0, into.size, per_piece):
        part = into[first : first + per_piece]
        stream.update_into(_PIECE[: part.nbytes], piece.data)
        combine(part, piece[: part.nbytes].view(into.dtype), out=part)


def agreement(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two ranks share, each from its own private key and the other's public one.

    X25519 (RFC 7748). Derive keys from it with :func:`derived_key`.

    Raises:
        SecurityError: the public key is not one that a rank makes.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise SecurityError(f"a rank's public key for masks cannot be used: {error}") from error


def derived_key(agreed: bytes, purpose: bytes) -> bytes:
    """A key for one purpose; keys of different purposes say nothing about each other.

    HKDF-SHA256 (RFC 5869).
    """
    return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=None, info=purpose).derive(agreed)
