"""NDN names and the naming conventions, revision 3.

Typed components carry their meaning in their type, so that no marker can be taken for a file's
name: ``seg=`` 50, ``off=`` 52, ``v=`` 54, ``t=`` 56, ``seq=`` 58, and keywords such as
``32=metadata``. Source: NDN Technical Memo NDN-0022, "NDN Memo: Naming Conventions", revision 3.
"""

from __future__ import annotations

import time

from innet._native import _core
from innet.tlv_numbers import ComponentType

Name = _core.Name

METADATA = b"metadata"
"""Keyword of the RDR protocol: the latest version of what stands before it."""


def as_name(name: Name | str) -> Name:
    """``name``, parsed when it is an NDN URI such as ``/a/b/v=3`` or ``ndn:/a/b``.

    Raises:
        ValueError: the URI is malformed.
    """
    return _core.Name(name) if isinstance(name, str) else name


def with_component(name: Name | str, value: bytes) -> Name:
    """``<name>/<value>``, an ordinary component."""
    return as_name(name).append(ComponentType.GENERIC, value)


def with_segment(name: Name | str, segment: int) -> Name:
    """``<name>/seg=<segment>``."""
    return as_name(name).append_number(ComponentType.SEGMENT, segment)


def with_version(name: Name | str, version: int) -> Name:
    """``<name>/v=<version>``."""
    return as_name(name).append_number(ComponentType.VERSION, version)


def with_keyword(name: Name | str, keyword: bytes) -> Name:
    """``<name>/32=<keyword>``."""
    return as_name(name).append(ComponentType.KEYWORD, keyword)


def with_digest(name: Name | str, digest: bytes) -> Name:
    """The full name of the packet with this name and implicit digest."""
    return as_name(name).append(ComponentType.IMPLICIT_SHA256_DIGEST, digest)


def without_digest(name: Name) -> Name:
    """``name`` without an implicit digest at its end, which Data packets do not carry in theirs."""
    has_digest = len(name) > 0 and name[-1][0] == ComponentType.IMPLICIT_SHA256_DIGEST
    return name.parent() if has_digest else name


def number_at(name: Name, index: int, component_type: int) -> int | None:
    """The number in component ``index``; ``None`` when it is of another type or no number.

    >>> number_at(Name("/a/v=7"), -1, ComponentType.VERSION)
    7
    """
    if not -len(name) <= index < len(name):
        return None
    found, value = name[index]
    if found != component_type or len(value) not in (1, 2, 4, 8):
        return None
    return int.from_bytes(value, "big")


def new_version() -> int:
    """A version for what is published now: microseconds since 1970, so that later is larger."""
    return time.time_ns() // 1000
