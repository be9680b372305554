"""Cuts what the kernel carries in one piece into the datagrams that cross the link.

Nodes hand the kernel many datagrams at once (UDP_SEGMENT). Between namespaces they stay together,
and a packet socket sees them as one, with their size in a header of its own (PACKET_VNET_HDR,
whose layout is virtio's ``struct virtio_net_hdr``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from innet.observe.packets.capture.headers import ETHERNET_BYTES, UDP_BYTES, with_ip_checksum

VNET_HEADER = struct.Struct("=BBHHHH")
"""Flags, kind, size of the headers, size of each datagram, and where the check sum is."""
_GSO_UDP_L4 = 5


def datagrams(message: bytes) -> Iterator[bytes]:
    """The frames in what a packet socket with PACKET_VNET_HDR has read."""
    _, kind, _, segment_bytes, _, _ = VNET_HEADER.unpack_from(message)
    frame = message[VNET_HEADER.size :]
    if kind != _GSO_UDP_L4 or segment_bytes == 0:
        yield frame
        return
    ip_bytes = 4 * (frame[ETHERNET_BYTES] & 15)
    headers = ETHERNET_BYTES + ip_bytes + UDP_BYTES
    for at in range(headers, len(frame), segment_bytes):
        yield _one(frame[:headers], ip_bytes, frame[at : at + segment_bytes])


def _one(headers: bytes, ip_bytes: int, payload: bytes) -> bytes:
    udp_bytes = UDP_BYTES + len(payload)
    ip = headers[ETHERNET_BYTES : ETHERNET_BYTES + ip_bytes]
    ip = with_ip_checksum(ip[:2] + struct.pack("!H", ip_bytes + udp_bytes) + ip[4:])
    ports = headers[ETHERNET_BYTES + ip_bytes :][:4]
    return headers[:ETHERNET_BYTES] + ip + ports + struct.pack("!HH", udp_bytes, 0) + payload
