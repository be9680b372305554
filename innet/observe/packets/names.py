"""Names as text, and what innet's names mean (the table in ``docs/protocol.md``).

The text is the URI scheme of NDN Packet Format v0.3 with naming conventions rev 3. Any bytes have
one, invalid names too.
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
    """The text of a Name element's value; bytes that are no component follow ``!`` in hex.

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


_JOB = r"/[^/]+/[^/]+"
_KV = r"/kv/[0-9a-f]{32}"
_BLOCK = r"/[0-9a-f]+/[^/]+/(?P<a>\d+)-(?P<b>\d+)/[0-9a-f]{64}"
_SEG = r"/seg=(?P<seg>\d+)"

_SEQ = r"/seq=(?P<seq>\d+)"

_FORMS: tuple[tuple[str, str], ...] = (
    (rf"{_JOB}/rounds/(?P<rank>\d+)/ready{_SEQ}{_SEG}", "rank {rank} is ready for round {seq}"),
    (rf"{_JOB}/rounds/0/set{_SEQ}{_SEG}", "who is in round {seq}"),
    (
        rf"{_JOB}/p2p/(?P<src>\d+)/receipt/of-(?P<dst>\d+)/[^/]+{_SEQ}{_SEG}",
        "receipt of {src} for message {seq} from {dst}",
    ),
    (
        rf"{_JOB}/p2p/(?P<src>\d+)/[^/]+/(?P<dst>\d+)/[^/]+{_SEQ}{_SEG}",
        "message {seq} from {src} to {dst}, segment {seg}",
    ),
    (
        rf"{_JOB}/obj/(?P<rank>\d+)/.+/32=manifest{_SEG}",
        "manifest {seg} of an object of rank {rank}",
    ),
    (rf"{_JOB}/obj/(?P<rank>\d+)/.+{_SEG}", "segment {seg} of an object of rank {rank}"),
    (
        rf"{_JOB}/arrays/(?P<owner>\d+)/snapshot/.+{_SEQ}{_SEG}",
        "version {seq} of an array of rank {owner}, segment {seg}",
    ),
    (
        rf"{_JOB}/arrays/(?P<asker>\d+)/(?P<verb>request|put)/(?P<owner>\d+){_SEQ}{_SEG}",
        "{verb} {seq} of rank {asker} to rank {owner}",
    ),
    (
        rf"{_JOB}/arrays/(?P<owner>\d+)/reply/(?P<asker>\d+){_SEQ}{_SEG}",
        "reply {seq} of rank {owner} to rank {asker}",
    ),
    (
        rf"{_JOB}/(?P<a>\d+)-(?P<b>\d+)/(?P<what>[^/]+){_SEQ}{_SEG}",
        "{what} of ranks {a} to {b}, operation {seq}, segment {seg}",
    ),
    (
        rf"{_JOB}/(?P<rank>\d+)/(?P<what>[^/]+){_SEQ}{_SEG}",
        "{what} from rank {rank}, operation {seq}, segment {seg}",
    ),
    (
        rf"{_KV}/request/(?P<member>[^/]+)/(?P<asker>[^/]+)/[0-9a-f]+/(?P<verb>[a-z]+)/.+",
        "{asker} requests {member} to {verb} a block",
    ),
    (rf"{_KV}{_BLOCK}/32=manifest{_SEG}", "manifest {seg} of a block of layers {a} to {b}"),
    (rf"{_KV}{_BLOCK}{_SEG}", "block of layers {a} to {b}, segment {seg}"),
    (r"/n/(?P<node>[^/]+)/KEY/(?P<job>[^/]+)/[^/]+/v=\d+", "key of node {node} in job {job}"),
    (r".+/KEY(?:/[^/]+){3}", "certificate"),
    (r".+/32=metadata(?:/.*)?", "metadata of an object"),
    (rf".+/32=manifest{_SEG}", "manifest {seg}"),
    (
        r"/local(?:host|hop)/nfd/(?P<module>[^/]+)/(?P<verb>[^/]+).*",
        "management: {module} {verb}",
    ),
)
_PATTERNS = tuple((re.compile(pattern), words) for pattern, words in _FORMS)


def meaning_of(uri: str) -> str | None:
    """The meaning of a name in a few words; ``None`` for names that are not innet's.

    >>> meaning_of("/train1/g0/0-7/sum.f32/seq=41/seg=9")
    'sum.f32 of ranks 0 to 7, operation 41, segment 9'
    >>> meaning_of("/videos/cat.mp4") is None
    True
    """
    bare = re.sub(r"/sha256digest=[0-9a-f]{64}$", "", uri)
    for pattern, words in _PATTERNS:
        found = pattern.fullmatch(bare)
        if found is not None:
            return words.format_map(found.groupdict())
    return None
