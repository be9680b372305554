"""Binds NDN to scapy's layers: UDP and TCP port 6363, and Ethernet type 0x8624."""

from __future__ import annotations

from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import bind_bottom_up, bind_top_down

from innet.observe.packets.layers.ndnlp import LpPacket
from innet.observe.packets.layers.network import Data, Interest, Ndn
from innet.tlv_numbers import NDN_ETHERTYPE, NDN_PORT


def bind(port: int = NDN_PORT) -> None:
    """Let scapy dissect UDP and TCP of ``port`` as NDN, in addition to 6363.

    Local runs use ports that the kernel has chosen.
    """
    for layer in (UDP, TCP):
        for keyword in ("sport", "dport"):
            bind_bottom_up(layer, Ndn, **{keyword: port})


bind()
bind_bottom_up(Ether, Ndn, type=NDN_ETHERTYPE)
for packet in (Interest, Data, LpPacket):  # what is crafted gets ports and type by itself
    bind_top_down(UDP, packet, sport=NDN_PORT, dport=NDN_PORT)
    bind_top_down(Ether, packet, type=NDN_ETHERTYPE)
