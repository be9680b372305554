"""Masks: a seed expanded to residues, the same for everybody who has the seed."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from innet.errors import SecurityError
from innet.masking.fixed_point import FixedPoint, Residues

SEED_BYTES = 32
_FIRST_COUNTER = bytes(16)


def expand(seed: bytes, size: int, point: FixedPoint) -> Residues:
    """``size`` residues that look uniform to who has not the seed: AES-256 in counter mode.

    A seed is expanded once: it is a key of its own, and so the counter begins at 0.
    """
    residues = np.zeros(size, point.wire)
    stream = Cipher(algorithms.AES(seed), modes.CTR(_FIRST_COUNTER)).encryptor()
    residues = np.frombuffer(stream.update(residues.tobytes()), point.wire)
    return point.reduced(residues)


def agreed_seed(private: X25519PrivateKey, public: bytes, purpose: bytes) -> bytes:
    """What two ranks derive, each of its own private key and the other's public one.

    X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869). ``purpose`` is the same on both; seeds for
    different purposes tell nothing of each other.

    Raises:
        SecurityError: the public key is none that a rank makes.
    """
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise SecurityError(f"a rank's public key for masks cannot be used: {error}") from error
    return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=None, info=purpose).derive(shared)
