"""The primitives of masking: masks that follow from a seed, derived keys, and shares of secrets.

Shares are Shamir's, "How to share a secret" (CACM 1979): the secret is a polynomial's value at 0, a
share is its value elsewhere, over the prime field of 2**521 - 1. Enough shares restore the secret,
fewer reveal nothing.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from innet.collectives.masked.fixed_point import Residues
from innet.errors import SecurityError

SEED_BYTES = 32
SECRET_BYTES = 32
SHARE_BYTES = 66
PRIME = (1 << 521) - 1

_FIRST_COUNTER = bytes(16)
_PIECE = bytes(1 << 17)
"""Zeros to encrypt; the key stream of one piece stays in the processor core's cache."""

Randomness = Callable[[int], bytes]
"""Returns that many random bytes."""


def add_mask(into: Residues, seed: bytes, sign: int) -> None:
    """Add the mask of ``seed``, or subtract it if ``sign`` is -1, modulo the type of ``into``.

    Masks look uniform without the seed: AES-256 in counter mode. A seed is expanded once in a round
    and is a key of its own, so the counter begins at 0.
    """
    combine = np.add if sign > 0 else np.subtract
    stream = Cipher(algorithms.AES(seed), modes.CTR(_FIRST_COUNTER)).encryptor()
    piece = np.empty(len(_PIECE) + 15, np.uint8)  # 15: the library requires them
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
    """A key for one purpose; keys of different purposes are independent.

    HKDF-SHA256 (RFC 5869).
    """
    return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=None, info=purpose).derive(agreed)


def split(
    secret: bytes,
    threshold: int,
    holders: Iterable[int],
    random: Randomness = secrets.token_bytes,
) -> dict[int, bytes]:
    """A share of 66 bytes for each holder; any ``threshold`` of them restore the 32-byte secret.

    >>> parts = split(bytes(range(32)), threshold=2, holders=range(3))
    >>> combine({0: parts[0], 2: parts[2]}) == bytes(range(32))
    True
    """
    coefficients = [int.from_bytes(secret, "big")]
    # 64 bits more than the field has: the remainder is uniform but for 2**-64.
    coefficients += [int.from_bytes(random(74), "big") % PRIME for _ in range(threshold - 1)]
    return {
        holder: _value_at(coefficients, holder + 1).to_bytes(SHARE_BYTES, "big")
        for holder in holders
    }


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret of these shares, by holder: as many as the threshold, or more.

    Raises:
        SecurityError: they are not shares of one secret.
    """
    weights = _weights_at_zero(tuple(shares))
    values = (int.from_bytes(share, "big") for share in shares.values())
    secret = sum(weight * value for weight, value in zip(weights, values, strict=True)) % PRIME
    if secret.bit_length() > SECRET_BYTES * 8:
        raise SecurityError(
            "shares of a mask do not belong together: a rank has given a wrong one. The round is "
            "lost; find out which rank runs another program"
        )
    return secret.to_bytes(SECRET_BYTES, "big")


@functools.lru_cache(maxsize=256)
def _weights_at_zero(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's coefficients: cached, because a round restores many secrets from one set."""
    points = [holder + 1 for holder in holders]
    weights = []
    for at in points:
        numerator = denominator = 1
        for other in points:
            if other != at:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - at) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return tuple(weights)


def _value_at(coefficients: list[int], at: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * at + coefficient) % PRIME
    return value
