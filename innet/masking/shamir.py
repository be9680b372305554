"""Secrets shared so that some of the shares give it back, and fewer tell nothing.

Shamir, "How to share a secret" (CACM 1979): the secret is a polynomial's value at 0, a share its
value elsewhere, over the prime field of 2**521 - 1.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from innet.errors import SecurityError

SECRET_BYTES = 32
SHARE_BYTES = 66
PRIME = (1 << 521) - 1

Randomness = Callable[[int], bytes]
"""So many random bytes."""


def split(
    secret: bytes, threshold: int, shares: int, random: Randomness = secrets.token_bytes
) -> list[bytes]:
    """``shares`` shares of 66 bytes, of which any ``threshold`` give the secret of 32 bytes.

    >>> parts = split(bytes(range(32)), threshold=2, shares=3)
    >>> combine({0: parts[0], 2: parts[2]}) == bytes(range(32))
    True
    """
    coefficients = [int.from_bytes(secret, "big")]
    # 64 bits more than the field has: the remainder is uniform but for 2**-64.
    coefficients += [int.from_bytes(random(74), "big") % PRIME for _ in range(threshold - 1)]
    return [
        _value_at(coefficients, rank + 1).to_bytes(SHARE_BYTES, "big") for rank in range(shares)
    ]


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret of these shares, by rank: exactly as many as the threshold, or more.

    Raises:
        SecurityError: they are not shares of one secret.
    """
    points = {rank + 1: int.from_bytes(share, "big") for rank, share in shares.items()}
    secret = 0
    for at, value in points.items():
        numerator = denominator = 1
        for other in points:
            if other != at:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - at) % PRIME
        secret += value * numerator * pow(denominator, -1, PRIME)
    secret %= PRIME
    if secret.bit_length() > SECRET_BYTES * 8:
        raise SecurityError(
            "shares of a mask do not belong together: a rank has given a wrong one. The round is "
            "lost; find out which rank runs another program"
        )
    return secret.to_bytes(SECRET_BYTES, "big")


def _value_at(coefficients: list[int], at: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * at + coefficient) % PRIME
    return value
