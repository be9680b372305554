"""NDN packets in frames, as captures have them: Ethernet, Linux's cooked and raw IP links."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from innet.observe.packets.tlv import read_header
from innet.tlv_numbers import NDN_ETHERTYPE, NDN_PORT, PACKETS

ETHERNET = 1
_LOOPBACK = 0
_RAW_IP = (12, 14, 101, 228)
_COOKED = 113
_COOKED_2 = 276
_IPV4 = 0x0800
_IPV6 = 0x86DD
_VLAN = 0x8100
_UDP = 17
_TCP = 6


def ndn_packets(
    frame: bytes, link_type: int = ETHERNET, ports: Collection[int] = (NDN_PORT,)
) -> Iterator[bytes]:
    """The NDN packets in a frame: one in a datagram, perhaps several in a piece of a stream.

    Args:
        frame: as captured.
        link_type: what it begins with, by the numbers of pcap.
        ports: of UDP and TCP that are NDN.
    """
    found = _network_layer(frame, link_type)
    if found is None:
        return
    protocol, payload = found
    if protocol == NDN_ETHERTYPE:
        yield payload
        return
    transport = _ipv4(payload) if protocol == _IPV4 else _ipv6(payload)
    if transport is None or transport[0] not in (_UDP, _TCP) or len(transport[1]) < 8:
        return
    number, segment = transport
    here = {int.from_bytes(segment[:2], "big"), int.from_bytes(segment[2:4], "big")}
    if here.isdisjoint(ports):
        return
    if number == _UDP:
        size = int.from_bytes(segment[4:6], "big")
        yield segment[8 : max(size, 8)]
    elif len(segment) > 12:
        yield from _stream_packets(segment[4 * (segment[12] >> 4) :])


def _stream_packets(piece: bytes) -> Iterator[bytes]:
    """Whole packets, and the beginning of one; in the middle of one nothing is known."""
    at = 0
    while at < len(piece):
        header = read_header(piece, at)
        if header is None or header.type not in PACKETS:
            return
        end = header.value_at + header.length
        yield piece[at:end]
        at = end


def _network_layer(frame: bytes, link_type: int) -> tuple[int, bytes] | None:
    if link_type == ETHERNET:
        at = 12
        while int.from_bytes(frame[at : at + 2], "big") == _VLAN:
            at += 4
        return int.from_bytes(frame[at : at + 2], "big"), frame[at + 2 :]
    if link_type == _COOKED:
        return int.from_bytes(frame[14:16], "big"), frame[16:]
    if link_type == _COOKED_2:
        return int.from_bytes(frame[:2], "big"), frame[20:]
    if link_type == _LOOPBACK:
        frame = frame[4:]
    elif link_type not in _RAW_IP:
        return None
    version = frame[0] >> 4 if frame else 0
    return {4: (_IPV4, frame), 6: (_IPV6, frame)}.get(version)


def _ipv4(packet: bytes) -> tuple[int, bytes] | None:
    """Protocol and payload; ``None`` for a fragment but the first, and what is no IPv4."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or int.from_bytes(packet[6:8], "big") & 0x1FFF:
        return None
    size = int.from_bytes(packet[2:4], "big") or len(packet)
    return packet[9], packet[4 * (packet[0] & 15) : size]


def _ipv6(packet: bytes) -> tuple[int, bytes] | None:
    """Protocol and payload; extension headers are not looked behind."""
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return None
    return packet[6], packet[40 : 40 + int.from_bytes(packet[4:6], "big")]
