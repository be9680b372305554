"""Shamir's secret sharing: enough shares restore a secret, and fewer reveal nothing.

Shamir, "How to share a secret" (CACM 1979): the secret is a polynomial's value at 0, a share is
its value elsewhere, over the prime field of 2**521 - 1.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable, Mapping

from innet.errors import SecurityError

SECRET_BYTES = 32
SHARE_BYTES = 66
PRIME = (1 << 521) - 1

Randomness = Callable[[int], bytes]
"""Returns that many random bytes."""


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
