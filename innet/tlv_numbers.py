"""Numbers of NDN Packet Format v0.3, NDNLPv2, NDN certificates v2 and of innet's own elements.

Sources: the NDN Packet Format specification (sections 1 to 5), the NDNLPv2 page of NFD's wiki, the
certificate format v2, and ``docs/protocol.md`` for what innet adds.
"""

from __future__ import annotations

from enum import IntEnum


class TlvType:
    """TLV-TYPE numbers of elements; those of name components are in :class:`ComponentType`."""

    INTEREST = 0x05
    DATA = 0x06
    NAME = 0x07
    NONCE = 0x0A
    INTEREST_LIFETIME = 0x0C
    MUST_BE_FRESH = 0x12
    META_INFO = 0x14
    CONTENT = 0x15
    SIGNATURE_INFO = 0x16
    SIGNATURE_VALUE = 0x17
    CONTENT_TYPE = 0x18
    FRESHNESS_PERIOD = 0x19
    FINAL_BLOCK_ID = 0x1A
    SIGNATURE_TYPE = 0x1B
    KEY_LOCATOR = 0x1C
    KEY_DIGEST = 0x1D
    FORWARDING_HINT = 0x1E
    CAN_BE_PREFIX = 0x21
    HOP_LIMIT = 0x22
    APPLICATION_PARAMETERS = 0x24
    SIGNATURE_NONCE = 0x26
    SIGNATURE_TIME = 0x28
    SIGNATURE_SEQ_NUM = 0x2A
    INTEREST_SIGNATURE_INFO = 0x2C
    INTEREST_SIGNATURE_VALUE = 0x2E
    LP_PACKET = 0x64
    SAFE_BAG = 0x80
    ENCRYPTED_KEY = 0x81
    FRAGMENT = 0x50
    SEQUENCE = 0x51
    FRAG_INDEX = 0x52
    FRAG_COUNT = 0x53
    HOP_COUNT = 0x54
    PIT_TOKEN = 0x62
    VALIDITY_PERIOD = 0xFD
    NOT_BEFORE = 0xFE
    NOT_AFTER = 0xFF
    ADDITIONAL_DESCRIPTION = 0x102
    DESCRIPTION_ENTRY = 0x200
    DESCRIPTION_KEY = 0x201
    DESCRIPTION_VALUE = 0x202
    NACK = 0x320
    NACK_REASON = 0x321
    INCOMING_FACE_ID = 0x32C
    NEXT_HOP_FACE_ID = 0x330
    CACHE_POLICY = 0x334
    CACHE_POLICY_TYPE = 0x335
    CONGESTION_MARK = 0x340
    ACK = 0x344
    TX_SEQUENCE = 0x348
    NON_DISCOVERY = 0x34C
    PREFIX_ANNOUNCEMENT = 0x350
    HOLD = 0x390
    HELLO = 0x394
    # innet's, in MetaInfo's range for applications
    TENSOR_ELEMENTS = 0x80
    TENSOR_ERROR = 0x82
    EARLIER_CALLS = 0x94
    SEGMENTS_RECEIVED = 0x96
    SUM_CARRY = 0x9C
    # innet's, in an Interest
    ATTACHED_ROOTS = 0x98
    ACCEPTS_DRAFT = 0x9A
    # innet's, in the Content of a manifest
    MANIFEST_SEGMENTS = 0x84
    MANIFEST_FAN_OUT = 0x86
    MANIFEST_DIGESTS = 0x88
    MANIFEST_OBJECT_BYTES = 0x8A
    MANIFEST_SEGMENT_BYTES = 0x8C


NDN_PORT = 6363
"""The UDP and TCP port of NDN, assigned by IANA."""
NDN_ETHERTYPE = 0x8624

NETWORK_PACKETS = (TlvType.INTEREST, TlvType.DATA)
PACKETS = (*NETWORK_PACKETS, TlvType.LP_PACKET)


class ComponentType:
    """Types of name components (naming conventions rev 3 from 32 on)."""

    IMPLICIT_SHA256_DIGEST = 1
    PARAMETERS_SHA256_DIGEST = 2
    GENERIC = 8
    KEYWORD = 32
    SEGMENT = 50
    BYTE_OFFSET = 52
    VERSION = 54
    TIMESTAMP = 56
    SEQUENCE_NUM = 58


def _as_written(number: IntEnum) -> str:
    """The name in the specifications, such as ``NoRoute``."""
    return number.name.title().replace("_", "")


class ContentType(IntEnum):
    """Numbers of ContentType."""

    BLOB = 0
    LINK = 1
    KEY = 2
    NACK = 3
    PREFIX_ANNOUNCEMENT = 5
    MANIFEST = 1024


class NackReason(IntEnum):
    """Numbers of a Nack's reason: NFD's, and innet's own from 200."""

    NONE = 0
    CONGESTION = 50
    DUPLICATE = 100
    NO_ROUTE = 150
    NO_SLOT = 200
    NO_RULE = 201
    FORBIDDEN = 202
    NO_DATA = 203


class SignatureType(IntEnum):
    """Numbers of SignatureType: NDN's, and innet's own from 201."""

    DIGEST_SHA256 = 0
    SHA256_WITH_RSA = 1
    SHA256_WITH_ECDSA = 3
    HMAC_WITH_SHA256 = 4
    ED25519 = 5
    NULL = 200
    AES_GMAC = 201


NACK_REASONS = {int(reason): _as_written(reason) for reason in NackReason}
CONTENT_TYPES = {int(kind): _as_written(kind) for kind in ContentType}
SIGNATURE_TYPES = {int(kind): _as_written(kind) for kind in SignatureType}
TENSOR_ERRORS = {1: "mismatch", 2: "overflow", 3: "aborted", 4: "failed"}
