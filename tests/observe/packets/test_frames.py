"""NDN packets in frames of every kind of link."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1Q, Ether, Loopback
from scapy.packet import Packet, Raw

from innet.observe.packets.capture.links import EndAddress, udp_frame
from innet.observe.packets.capture.sources import VNET_HEADER, datagrams
from innet.observe.packets.frames import ndn_packets
from innet.observe.packets.layers import data, interest

_PACKET = bytes(interest("/a/b"))
_DATAGRAM = UDP(sport=6363, dport=40_000) / Raw(_PACKET)


@pytest.mark.parametrize(
    ("frame", "link_type"),
    [
        (Ether() / IP() / _DATAGRAM, 1),
        (Ether() / IPv6() / _DATAGRAM, 1),
        (Ether() / Dot1Q(vlan=7) / IP() / _DATAGRAM, 1),
        (Ether(type=0x8624) / Raw(_PACKET), 1),
        (CookedLinux(proto=0x800) / IP() / _DATAGRAM, 113),
        (CookedLinuxV2(proto=0x800) / IP() / _DATAGRAM, 276),
        (Loopback() / IP() / _DATAGRAM, 0),
        (IP() / _DATAGRAM, 101),
        (IPv6() / _DATAGRAM, 228),
    ],
)
def test_a_packet_is_found(frame: Packet, link_type: int) -> None:
    assert list(ndn_packets(bytes(frame), link_type)) == [_PACKET]


def test_other_frames_have_no_packet() -> None:
    other_port = Ether() / IP() / UDP(sport=1, dport=2) / Raw(_PACKET)
    assert list(ndn_packets(bytes(other_port))) == []
    assert list(ndn_packets(bytes(other_port), ports=[2])) == [_PACKET]
    second_fragment = Ether() / IP(frag=100) / _DATAGRAM
    assert list(ndn_packets(bytes(second_fragment))) == []
    assert list(ndn_packets(bytes(Ether() / IP() / _DATAGRAM), link_type=147)) == []


def test_packets_of_a_stream_are_found_up_to_a_truncated_one() -> None:
    second = bytes(data("/a", bytes(50)))
    stream = _PACKET + second + _PACKET[:9]
    frame = Ether() / IP() / TCP(sport=6363, options=[("NOP", None)] * 4) / Raw(stream)
    assert list(ndn_packets(bytes(frame))) == [_PACKET, second, _PACKET[:9]]


@given(st.binary(max_size=80), st.sampled_from([0, 1, 101, 113, 276]))
def test_any_frame_is_parsed(frame: bytes, link_type: int) -> None:
    assert all(packet in frame for packet in ndn_packets(frame, link_type))


def test_segmentation_offload_packets_are_split_into_datagrams() -> None:
    pieces = [bytes([n]) * 1000 for n in range(3)] + [b"\3" * 10]
    ends = (
        EndAddress("02:00:00:00:00:01", "10.0.0.1"),
        EndAddress("02:00:00:00:00:02", "10.0.0.2"),
    )
    together = udp_frame(*ends, b"".join(pieces))
    message = VNET_HEADER.pack(1, 5, 42, 1000, 34, 6) + together
    assert list(datagrams(message)) == [udp_frame(*ends, piece) for piece in pieces]


def test_a_single_datagram_is_unchanged() -> None:
    frame = bytes(Ether() / IP() / _DATAGRAM)
    assert list(datagrams(struct.pack("=BBHHHH", 0, 0, 0, 0, 0, 0) + frame)) == [frame]
