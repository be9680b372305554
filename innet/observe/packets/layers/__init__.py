"""NDN for scapy: dissect and craft Interest, Data, link packets, and innet's names and metadata.

>>> from scapy.layers.inet import IP, UDP
>>> from innet.observe.packets.layers import interest
>>> IP(dst="10.0.0.2") / UDP() / interest("/a/b")  # doctest: +SKIP
"""

from __future__ import annotations

from innet import extras

extras.require("scapy", "dissecting and crafting packets")

from innet.observe.packets.layers.crafting import *
from innet.observe.packets.layers.elements import *
from innet.observe.packets.layers.ndnlp import *
from innet.observe.packets.layers.network import *

__all__ = [
    "Ack",
    "AdditionalDescription",
    "ApplicationParameters",
    "CachePolicy",
    "CachePolicyType",
    "CanBePrefix",
    "CongestionMark",
    "Content",
    "ContentType",
    "Data",
    "DescriptionEntry",
    "DescriptionKey",
    "DescriptionValue",
    "EarlierCalls",
    "Element",
    "FinalBlockId",
    "ForwardingHint",
    "FragCount",
    "FragIndex",
    "Fragment",
    "FreshnessPeriod",
    "Hello",
    "Hold",
    "HopCount",
    "HopLimit",
    "IncomingFaceId",
    "Interest",
    "InterestLifetime",
    "InterestSignatureInfo",
    "InterestSignatureValue",
    "KeyDigest",
    "KeyLocator",
    "LpPacket",
    "ManifestDigests",
    "ManifestFanOut",
    "ManifestObjectBytes",
    "ManifestSegmentBytes",
    "ManifestSegments",
    "MetaInfo",
    "MustBeFresh",
    "Nack",
    "NackReason",
    "Name",
    "Ndn",
    "NestedElement",
    "NetworkPacket",
    "NextHopFaceId",
    "NonDiscovery",
    "Nonce",
    "NotAfter",
    "NotBefore",
    "PitToken",
    "PrefixAnnouncement",
    "SegmentsReceived",
    "Sequence",
    "SignatureInfo",
    "SignatureNonce",
    "SignatureSeqNum",
    "SignatureTime",
    "SignatureType",
    "SignatureValue",
    "SumCarry",
    "TensorElements",
    "TensorError",
    "TxSequence",
    "Undissected",
    "Unknown",
    "ValidityPeriod",
    "bind",
    "data",
    "implicit_digest",
    "interest",
    "link",
    "manifest_content",
    "manifest_elements",
]
