"""NDN packets in capture files (pcap and pcapng) and in frames.

Frames are of Ethernet, Linux's cooked captures or raw IP links.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innet import extras
from innet.errors import FileError
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
    """The NDN packets in a frame: one per datagram, one or more per TCP segment.

    Args:
        frame: as captured.
        link_type: its outermost header, by the numbers of pcap.
        ports: UDP and TCP ports of NDN.
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
    """Protocol and payload; ``None`` for later fragments and for anything but IPv4."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or int.from_bytes(packet[6:8], "big") & 0x1FFF:
        return None
    size = int.from_bytes(packet[2:4], "big") or len(packet)
    return packet[9], packet[4 * (packet[0] & 15) : size]


def _ipv6(packet: bytes) -> tuple[int, bytes] | None:
    """Protocol and payload; extension headers are not parsed."""
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return None
    return packet[6], packet[40 : 40 + int.from_bytes(packet[4:6], "big")]


@dataclass(frozen=True)
class ReadPacket:
    """An NDN packet of a file.

    Attributes:
        number: of its frame in the file, from 1.
        time_s: since 1970, or since a simulation began.
        since_first_s: since the file's first frame.
        where: the interface that it was captured on; empty when the file does not say.
        packet: its bytes.
        frame: all bytes of the frame.
        link_type: what the frame begins with.
    """

    number: int
    time_s: float
    since_first_s: float
    where: str
    packet: bytes
    frame: bytes
    link_type: int


def read_packets(path: Path, ports: Collection[int] = (NDN_PORT,)) -> Iterator[ReadPacket]:
    """The NDN packets of a file; takes memory for one at a time.

    Raises:
        FileError: it cannot be read, or is not a capture file.
        InnetError: scapy is not installed.
    """
    extras.require("scapy", "reading captures")
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapNgReader, RawPcapReader

    try:
        # The beginning of the file decides whether this makes a reader of pcap or of pcapng.
        reader: Any = RawPcapReader(str(path))
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", path=path) from error
    except Scapy_Exception as error:
        raise FileError(
            "is no capture: neither pcap nor pcapng. `innet capture` and tcpdump -w write them",
            path=path,
        ) from error
    first_s = 0.0
    with reader:
        for number, (frame, meta) in enumerate(reader, 1):
            if isinstance(reader, RawPcapNgReader):
                link_type, where = meta.linktype, (meta.ifname or b"").decode(errors="replace")
                time_s = ((meta.tshigh << 32) | meta.tslow) / meta.tsresol
            else:
                link_type, where = reader.linktype, ""
                time_s = meta.sec + meta.usec / (1e9 if reader.nano else 1e6)
            first_s = time_s if number == 1 else first_s
            for packet in ndn_packets(frame, link_type, ports):
                yield ReadPacket(number, time_s, time_s - first_s, where, packet, frame, link_type)
