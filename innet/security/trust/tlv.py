"""TLV blocks of the NDN Packet Format v0.3: what certificates, records and safe bags are made of.

Strict, as the node's own decoder is: shortest numbers, nothing beyond the end. Source: NDN Packet
Format Specification 0.3, "TLV encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from innet.errors import SecurityError

SAFE_BAG = 0x80
ENCRYPTED_KEY = 0x81

_FORMS = {253: (">H", 2, 253), 254: (">I", 4, 1 << 16), 255: (">Q", 8, 1 << 32)}
"""By first byte: format, size, and the smallest number that may be written so."""


class Block(NamedTuple):
    """One element.

    Attributes:
        type: its number.
        value: its bytes.
        whole: with type and length.
    """

    type: int
    value: bytes
    whole: bytes


def encode(number: int, *values: bytes) -> bytes:
    """An element of type ``number`` with ``values`` one after the other.

    >>> encode(8, b"KEY").hex()
    '08034b4559'
    """
    value = b"".join(values)
    return _encode_number(number) + _encode_number(len(value)) + value


def encode_integer(number: int, value: int) -> bytes:
    """An element whose value is a NonNegativeInteger."""
    for size, form in ((1, ">B"), (2, ">H"), (4, ">I")):
        if value < 1 << (8 * size):
            return encode(number, struct.pack(form, value))
    return encode(number, struct.pack(">Q", value))


def decode_integer(value: bytes) -> int:
    """The NonNegativeInteger that ``value`` is.

    Raises:
        SecurityError: it has a length that none has.
    """
    if len(value) not in (1, 2, 4, 8):
        raise SecurityError(f"a number of {len(value)} bytes is none; the bytes are damaged")
    return int.from_bytes(value, "big")


def decode(data: bytes) -> Iterator[Block]:
    """The elements that ``data`` consists of.

    Raises:
        SecurityError: it does not consist of elements.
    """
    at = 0
    while at < len(data):
        number, start = _decode_number(data, at)
        length, start = _decode_number(data, start)
        end = start + length
        if end > len(data):
            raise SecurityError(
                f"an element of {length} bytes does not fit into the {len(data) - start} that are "
                "left: the packet is cut off or damaged"
            )
        yield Block(number, data[start:end], data[at:end])
        at = end


def decode_one(data: bytes, number: int, what: str) -> Block:
    """The one element of type ``number`` that ``data`` is.

    Raises:
        SecurityError: it is something else; ``what`` it should be is said.
    """
    blocks = list(decode(data))
    if len(blocks) != 1 or blocks[0].type != number:
        raise SecurityError(f"these {len(data)} bytes are no {what}")
    return blocks[0]


def _encode_number(number: int) -> bytes:
    if number < 253:
        return bytes((number,))
    first = 253 if number < 1 << 16 else 254 if number < 1 << 32 else 255
    return bytes((first,)) + struct.pack(_FORMS[first][0], number)


def _decode_number(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 253:
        return data[at], at + 1
    form, size, least = _FORMS[data[at]] if at < len(data) else ("", 1, 0)
    end = at + 1 + size
    if end > len(data):
        raise SecurityError("the packet ends within an element's type or length: it is cut off")
    number: int = struct.unpack(form, data[at + 1 : end])[0]
    if number < least:
        raise SecurityError("a number is not in its shortest form: this is no NDN packet")
    return number, end
