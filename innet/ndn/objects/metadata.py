"""RDR metadata: a packet that says which version of an object is the latest.

Below ``<object>/32=metadata``, asked for with CanBePrefix and MustBeFresh; its Content begins with
the name of that version. Source: the NDN project's "Realtime Data Retrieval (RDR)" protocol.
"""

from __future__ import annotations

from innet._native import _core
from innet.errors import MalformedPacket
from innet.names import METADATA, Name, with_keyword, with_segment, with_version
from innet.ndn import wire
from innet.security.signers import Signer
from innet.security.validation import ReceivedData
from innet.tlv_numbers import TlvType

FRESHNESS_S = 1.0
"""How long a cache may say that this is the latest version."""


def encode_metadata(name: Name, versioned: Name, version: int, signer: Signer) -> bytes:
    """The metadata packet of ``name`` while ``versioned`` is its latest version."""
    return wire.encode_data(
        with_segment(with_version(with_keyword(name, METADATA), version), 0),
        _core.encode_element(TlvType.NAME, versioned.value()),
        freshness_s=FRESHNESS_S,
        final_component=with_segment("/", 0),
        signer=signer,
    )


def decode_metadata(data: ReceivedData) -> Name:
    """The name of the latest version.

    Raises:
        MalformedPacket: the packet says none.
    """
    elements = wire.parsed(_core.read_elements, data.content)
    if not elements or elements[0][0] != TlvType.NAME:
        raise MalformedPacket(f"{data.name} is no RDR metadata: its Content begins with no name")
    return wire.parsed(Name.from_value, elements[0][1])
