"""Ethernet, IPv4 and UDP headers around NDN packets."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address
from typing import NamedTuple

from innet.tlv_numbers import NDN_PORT

_IPV4 = 0x0800
_UDP = 17
_DONT_FRAGMENT = 0x4000
_TTL = 64
ETHERNET_BYTES = 14
IP_BYTES = 20
UDP_BYTES = 8


class EndAddress(NamedTuple):
    """The addresses of one end of a link."""

    mac: str
    ip: str


def udp_frame(source: EndAddress, destination: EndAddress, payload: bytes) -> bytes:
    """``payload`` in a datagram between port 6363 of both ends, as netns mode has it on its links.

    The check sum of UDP is 0 (none), as IPv4 allows.
    """
    udp_bytes = UDP_BYTES + len(payload)
    return (
        _mac_bytes(destination.mac)
        + _mac_bytes(source.mac)
        + struct.pack("!H", _IPV4)
        + ip_header(source.ip, destination.ip, udp_bytes)
        + struct.pack("!HHHH", NDN_PORT, NDN_PORT, udp_bytes, 0)
        + payload
    )


def ip_header(source: str, destination: str, payload_bytes: int) -> bytes:
    """An IPv4 header for UDP, with its check sum."""
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        IP_BYTES + payload_bytes,
        0,
        _DONT_FRAGMENT,
        _TTL,
        _UDP,
        0,
        IPv4Address(source).packed,
        IPv4Address(destination).packed,
    )
    return with_ip_checksum(header)


def with_ip_checksum(header: bytes) -> bytes:
    """An IPv4 header whose check sum is right (RFC 791)."""
    bare = header[:10] + b"\0\0" + header[12:]
    total = sum(struct.unpack(f"!{len(bare) // 2}H", bare))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return bare[:10] + struct.pack("!H", ~total & 0xFFFF) + bare[12:]


def _mac_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
