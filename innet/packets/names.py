"""Names as text: the URI scheme of NDN Packet Format v0.3 with naming conventions rev 3.

Any bytes have a text here, also those that are no name, because people want to see them.
"""

from __future__ import annotations

import re

from innet.packets.numbers import ComponentType
from innet.packets.tlv import (
    Bytes,
    element,
    encoded_number,
    read_header,
    read_number,
)

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
_NUMBER_TYPES = {text: kind for kind, text in _NUMBER_PREFIXES.items()}
_DIGEST_TYPES = {text: kind for kind, text in _DIGEST_PREFIXES.items()}
_RESERVED = re.compile(rb"[^A-Za-z0-9._~-]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_MOST_TYPE = 0xFFFF


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
    path = uri.removeprefix("ndn:")
    if not path.startswith("/"):
        raise ValueError(f"{uri!r} is no name: it begins with '/', such as /a/b")
    if path == "/":
        return b""
    return b"".join(_component(part, uri) for part in path[1:].split("/"))


def _component(text: str, uri: str) -> bytes:
    convention, equals, rest = text.partition("=")
    if not equals:
        return element(ComponentType.GENERIC, _unescaped(text, uri))
    if convention in _NUMBER_TYPES and rest.isdecimal() and rest.isascii():
        return element(_NUMBER_TYPES[convention], encoded_number(int(rest)))
    if convention in _DIGEST_TYPES and re.fullmatch(r"[0-9a-fA-F]{64}", rest):
        return element(_DIGEST_TYPES[convention], bytes.fromhex(rest))
    if re.fullmatch(r"[1-9][0-9]{0,4}", convention) and int(convention) <= _MOST_TYPE:
        return element(int(convention), _unescaped(rest, uri))
    raise ValueError(
        f"{uri!r} is no name: {text!r} has no type that there is, such as seq=41, seg=0 or 32=meta"
    )


def _escaped(value: bytes) -> str:
    if not value.strip(b"."):
        return "..." + value.decode()
    return _RESERVED.sub(lambda match: b"%%%02X" % match[0][0], value).decode()


def _unescaped(text: str, uri: str) -> bytes:
    if not text.strip("."):
        if len(text) < 3:
            raise ValueError(f"{uri!r} is no name: {text!r} is no component")
        return text[3:].encode()
    if "%" in _ESCAPE.sub("", text):
        raise ValueError(f"{uri!r} is no name: a '%' in {text!r} is not followed by two digits")
    head, *tail = text.split("%")
    return head.encode() + b"".join(bytes([int(s[:2], 16)]) + s[2:].encode() for s in tail)
