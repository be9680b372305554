"""Names as text: the URI scheme of NDN Packet Format v0.3 with naming conventions rev 3.

Any bytes have a text here, also those that are no name, because people want to see them.
"""

from __future__ import annotations

import re

from innet._native import _core
from innet.observe.packets.tlv import (
    Bytes,
    encoded_number,
    read_header,
    read_number,
)
from innet.tlv_numbers import ComponentType

_NUMBER_PREFIXES: dict[int, str] = {
    ComponentType.SEGMENT: "seg",
    ComponentType.BYTE_OFFSET: "off",
    ComponentType.VERSION: "v",
    ComponentType.TIMESTAMP: "t",
    ComponentType.SEQUENCE_NUM: "seq",
}
_DIGEST_PREFIXES: dict[int, str] = {
    ComponentType.IMPLICIT_SHA256_DIGEST: "sha256digest",
    ComponentType.PARAMETERS_SHA256_DIGEST: "params-sha256",
}
_RESERVED = re.compile(rb"[^A-Za-z0-9._~-]")


def uri_of(value: Bytes) -> str:
    """The text of a Name element's value; what is no component stands behind ``!`` in hex.

    >>> uri_of(bytes.fromhex("0801613a0129"))
    '/a/seq=41'
    >>> uri_of(bytes.fromhex("0801610809"))
    '/a/!0809'
    """
    parts = []
    at = 0
    while at < len(value):
        header = read_header(value, at)
        end = len(value) + 1 if header is None else header.value_at + header.length
        if header is None or end > len(value):
            parts.append(f"!{bytes(value[at:]).hex()}")
            break
        parts.append(component_text(header.type, bytes(value[header.value_at : end])))
        at = end
    return "/" + "/".join(parts)


def component_text(kind: int, value: bytes) -> str:
    """One component as text, by its convention where that says all of it."""
    if kind in _NUMBER_PREFIXES:
        number = read_number(value)
        if number is not None and encoded_number(number) == value:
            return f"{_NUMBER_PREFIXES[kind]}={number}"
    if kind in _DIGEST_PREFIXES and len(value) == 32:
        return f"{_DIGEST_PREFIXES[kind]}={value.hex()}"
    prefix = "" if kind == ComponentType.GENERIC else f"{kind}="
    return prefix + _escaped(value)


def name_value(uri: str) -> bytes:
    """The value of the Name element that ``uri`` stands for.

    >>> name_value("/a/seq=41").hex()
    '0801613a0129'

    Raises:
        ValueError: it is no URI of a name.
    """
    return _core.Name(uri).value()


def _escaped(value: bytes) -> str:
    if not value.strip(b"."):
        return "..." + value.decode()
    return _RESERVED.sub(lambda match: b"%%%02X" % match[0][0], value).decode()
