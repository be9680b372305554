"""TLV elements of certificates and safe bags: the compiled codec, with this package's errors."""

from __future__ import annotations

from innet._native import _core
from innet.errors import SecurityError


def encode(number: int, *values: bytes) -> bytes:
    """One element of type ``number`` whose value is ``values``, concatenated.

    >>> encode(8, b"KEY").hex()
    '08034b4559'
    """
    return _core.encode_element(number, b"".join(values))


def decode(data: bytes) -> list[tuple[int, bytes]]:
    """Types and values of consecutive elements."""
    try:
        return _core.read_elements(data)
    except ValueError as error:
        raise SecurityError(
            f"{error}: {len(data)} bytes beginning with {data[:16].hex()}; the packet or file is "
            "truncated or damaged, fetch or export it again"
        ) from error
