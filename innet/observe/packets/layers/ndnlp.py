"""Link packets (NDNLPv2), with innet's Hold and Hello, and the ports that carry NDN packets."""

from __future__ import annotations

from typing import ClassVar

from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import bind_bottom_up, bind_top_down

from innet import tlv_numbers as numbers
from innet.observe.packets.layers.elements import (
    BytesElement,
    FlagElement,
    NestedElement,
    NumberElement,
    known,
)
from innet.observe.packets.layers.network import Data, Interest, Ndn, NetworkPacket
from innet.tlv_numbers import NDN_ETHERTYPE, NDN_PORT, TlvType


class Sequence(BytesElement):
    """Number of a fragment, 8 bytes."""


class FragIndex(NumberElement):
    """Index of this fragment in the packet, from 0."""


class FragCount(NumberElement):
    """Number of fragments of the packet."""


class HopCount(NumberElement):
    """Number of hops of the packet so far."""


class PitToken(BytesElement):
    """A token that the neighbour expects back on the answer."""


class NackReason(NumberElement):
    """Why an Interest is refused."""

    meanings: ClassVar = numbers.NACK_REASONS


class Nack(NestedElement):
    """The Interest in the fragment is refused."""

    children: ClassVar = known(NackReason)


class IncomingFaceId(NumberElement):
    """The face on which a forwarder received the packet."""


class NextHopFaceId(NumberElement):
    """The face on which the forwarder has to send the Interest."""


class CachePolicyType(NumberElement):
    """1: not to be cached."""


class CachePolicy(NestedElement):
    """How the forwarder's content store treats the Data."""

    children: ClassVar = known(CachePolicyType)


class CongestionMark(NumberElement):
    """Not 0: a queue on the path is congested."""


class Ack(BytesElement):
    """A TxSequence that was received."""


class TxSequence(BytesElement):
    """Number of a packet to be acknowledged."""


class NonDiscovery(FlagElement):
    """The Interest does not look for new routes."""


class PrefixAnnouncement(NestedElement):
    """A Data that announces a prefix."""

    children: ClassVar = known(Data)


class Hold(BytesElement):
    """innet: the Interest in the fragment has arrived, and this rank has not published yet."""

    def show_line(self) -> str:
        return f"Hold for {self.value_bytes().decode(errors='backslashreplace')}"


class Hello(NumberElement):
    """innet: the sender is alive. 1: it receives packets from its peer."""


class Fragment(NestedElement):
    """An Interest or Data, or a fragment of one."""

    children: ClassVar = known(Interest, Data)


class LpPacket(NetworkPacket):
    """A link packet: the headers of one hop around an Interest or Data."""

    children: ClassVar = known(
        Fragment,
        Sequence,
        FragIndex,
        FragCount,
        HopCount,
        PitToken,
        Nack,
        IncomingFaceId,
        NextHopFaceId,
        CachePolicy,
        CongestionMark,
        Ack,
        TxSequence,
        NonDiscovery,
        PrefixAnnouncement,
        Hold,
        Hello,
    )

    @property
    def packet(self) -> NetworkPacket | None:
        """The Interest or Data in it; ``None`` for an idle packet or a piece."""
        fragment = self.element(Fragment)
        found = () if fragment is None else fragment.elements
        return found[0] if found and isinstance(found[0], NetworkPacket) else None

    @property
    def uri(self) -> str:
        """The name of the packet in it as text; empty when it has none."""
        packet = self.packet
        return "" if packet is None else packet.uri


Ndn.known_packets[TlvType.LP_PACKET] = LpPacket


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
