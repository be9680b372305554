"""TLV elements as bytes (NDN Packet Format v0.3, section 1), read without validation.

A node's own parser rejects malformed packets. These functions read as much as possible, and keep
the form of each number, so that the same bytes can be written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

Bytes = bytes | memoryview

_LONG_FORMS = {253: 2, 254: 4, 255: 8}
NUMBER_SIZES = (1, 2, 4, 8)


class VarNumber(int):
    """A TLV-TYPE or TLV-LENGTH with the bytes that it took: 1, 3, 5 or 9."""

    size_bytes: int

    def __new__(cls, number: int, size_bytes: int | None = None) -> Self:
        """``size_bytes``: by default the least that ``number`` needs."""
        made = super().__new__(cls, number)
        made.size_bytes = var_number_size(number) if size_bytes is None else size_bytes
        return made

    @property
    def is_shortest(self) -> bool:
        """Whether it took no more bytes than needed, as the specification demands."""
        return self.size_bytes == var_number_size(self)

    def encoded(self) -> bytes:
        """Its bytes, in the form that it had."""
        if self.size_bytes == 1:
            return bytes([self])
        payload = int(self).to_bytes(self.size_bytes - 1, "big")
        return bytes([251 + (self.size_bytes - 1).bit_length()]) + payload


class Header(NamedTuple):
    """Type and length of an element, and where its value begins."""

    type: VarNumber
    length: VarNumber
    value_at: int


def var_number_size(number: int) -> int:
    """Bytes that ``number`` takes as a VAR-NUMBER.

    Raises:
        ValueError: it is negative, or 2**64 or more.
    """
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number} is no TLV-TYPE or TLV-LENGTH: they are below 2**64")
    return 1 if number < 253 else 3 if number < 1 << 16 else 5 if number < 1 << 32 else 9


def read_var_number(data: Bytes, at: int = 0) -> VarNumber | None:
    """The VAR-NUMBER at offset ``at``; ``None`` when it is cut off."""
    if at >= len(data):
        return None
    size = _LONG_FORMS.get(data[at])
    if size is None:
        return VarNumber(data[at], 1)
    payload = data[at + 1 : at + 1 + size]
    return VarNumber(int.from_bytes(payload, "big"), 1 + size) if len(payload) == size else None


def read_header(data: Bytes, at: int = 0) -> Header | None:
    """Type and length of the element at offset ``at``; ``None`` when they are cut off."""
    kind = read_var_number(data, at)
    length = None if kind is None else read_var_number(data, at + kind.size_bytes)
    if kind is None or length is None:
        return None
    return Header(kind, length, at + kind.size_bytes + length.size_bytes)


def whole_elements(data: Bytes) -> Iterator[tuple[int, Bytes]]:
    """Type and value of each element in ``data``, up to the first that is cut off."""
    at = 0
    while (header := read_header(data, at)) is not None:
        end = header.value_at + header.length
        if end > len(data):
            return
        yield header.type, data[header.value_at : end]
        at = end


def encoded_number(number: int) -> bytes:
    """A NonNegativeInteger in the fewest bytes that are allowed: 1, 2, 4 or 8.

    Raises:
        ValueError: it is negative, or 2**64 or more.
    """
    for size in NUMBER_SIZES:
        if 0 <= number < 1 << (8 * size):
            return number.to_bytes(size, "big")
    raise ValueError(f"{number} is no NonNegativeInteger: they are below 2**64")


def read_number(value: Bytes) -> int | None:
    """The NonNegativeInteger that is all of ``value``; ``None`` when it has a wrong length."""
    return int.from_bytes(value, "big") if len(value) in NUMBER_SIZES else None
