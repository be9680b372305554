"""Interests, Data and link packets as bytes (NDN Packet Format v0.3, NDNLPv2).

>>> packet = encode_data("/hello", b"world")
>>> parse_data(packet).content
b'world'
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypedDict, TypeVar, Unpack

from innet._native import _core
from innet.errors import MalformedPacket, TransportError
from innet.names import Name, as_name
from innet.security.signers import DigestSigner, Signer
from innet.tlv_numbers import ContentType, TlvType

ReceivedInterest = _core.ReceivedInterest
ReceivedData = _core.ReceivedData
ReceivedLpPacket = _core.ReceivedLpPacket


MAX_PACKET_BYTES = 8800
"""Maximum packet size that other NDN implementations accept."""
_SIGNATURE_NONCE_BYTES = 8
_Parsed = TypeVar("_Parsed")


class InterestFields(TypedDict, total=False):
    """Fields of an Interest beside its name, lifetime and nonce."""

    can_be_prefix: bool
    """Whether longer names are an answer; default false."""
    must_be_fresh: bool
    """Whether caches answer only with fresh Data; default false."""
    hop_limit: int | None
    """How many forwarders it may pass."""
    forwarding_hint: Name | str | None
    """A delegation by whose routes it may travel."""
    parameters: bytes | None
    """ApplicationParameters; the name gets their digest."""
    signer: Signer | None
    """Signs it, with a nonce and the time; then it has parameters, if empty ones."""


def encode_interest(
    name: Name | str,
    *,
    lifetime_s: float = 4.0,
    nonce: int | None = None,
    **fields: Unpack[InterestFields],
) -> bytes:
    """An Interest.

    Args:
        name: without the digest of the parameters, which is appended when there are any.
        lifetime_s: how long forwarders keep it, to the millisecond.
        nonce: four bytes as a number; a random one by default.
        fields: see :class:`InterestFields`.

    Raises:
        TypeError: there is no such field.
        ValueError: the name is malformed or empty.
    """
    if unknown := fields.keys() - InterestFields.__annotations__.keys():
        raise TypeError(
            f"an Interest has no field {unknown.pop()}; fields: "
            f"{', '.join(InterestFields.__annotations__)}"
        )
    plain, hint = as_name(name), fields.get("forwarding_hint")
    signer, parameters = fields.get("signer"), fields.get("parameters")
    portion = b""
    if signer is not None:
        portion = _signed_parameters(plain, parameters or b"", signer)
    elif parameters is not None:
        portion = _core.encode_parameters(parameters)
    return _core.encode_interest(
        plain,
        secrets.randbits(32) if nonce is None else nonce,
        can_be_prefix=fields.get("can_be_prefix", False),
        must_be_fresh=fields.get("must_be_fresh", False),
        lifetime_ms=round(lifetime_s * 1000),
        hop_limit=fields.get("hop_limit"),
        forwarding_hint=None if hint is None else as_name(hint),
        parameters_portion=portion,
    )


def _signed_parameters(name: Name, parameters: bytes, signer: Signer) -> bytes:
    portion = _core.encode_parameters(
        parameters,
        signature_type=signer.signature_type,
        key_name=signer.key_name,
        nonce=secrets.token_bytes(_SIGNATURE_NONCE_BYTES),
        time_ms=time.time_ns() // 1_000_000,
    )
    signature = signer.sign(name.value() + portion)
    return portion + _core.encode_element(TlvType.INTEREST_SIGNATURE_VALUE, signature)


def encode_data(
    name: Name | str,
    content: bytes = b"",
    *,
    signer: Signer | None = None,
    content_type: int = ContentType.BLOB,
    freshness_s: float = 0.0,
    final_component: Name | None = None,
) -> bytes:
    """A Data packet.

    Args:
        signer: a SHA-256 digest by default, which detects damage and names no signer.
        freshness_s: how long caches may answer Interests for fresh Data with it, to the
            millisecond. Nodes of innet do so only with Data of keys that they know.
        final_component: FinalBlockId, as a name of that one component.

    Raises:
        ValueError: the name is malformed.
    """
    by = signer or DigestSigner()
    signed_portion = _core.encode_signed_portion(
        as_name(name),
        content,
        content_type=content_type,
        freshness_ms=round(freshness_s * 1000),
        final_component=b"" if final_component is None else final_component.value(),
        signature_type=by.signature_type,
        key_name=by.key_name,
    )
    return _core.encode_data(signed_portion, by.sign(signed_portion))


def encode_lp_packet(
    payload: bytes, *, pit_token: bytes = b"", nack_reason: int | None = None
) -> bytes:
    """A link packet around an Interest or a Data.

    Raises:
        ValueError: a PIT token of more than 32 bytes.
    """
    return _core.encode_lp_packet(payload, pit_token=pit_token, nack_reason=nack_reason)


def check_size(packet: bytes, name: Name) -> None:
    """Refuse a packet that other NDN implementations would not accept.

    Raises:
        TransportError: it is larger than 8800 bytes.
    """
    if len(packet) > MAX_PACKET_BYTES:
        raise TransportError(
            f"{name} would be a packet of {len(packet)} bytes, and NDN programs take "
            f"{MAX_PACKET_BYTES} at most; make its content or its name shorter, or publish it in "
            "segments"
        )


def parse_interest(packet: bytes) -> ReceivedInterest:
    """Read an Interest.

    Raises:
        MalformedPacket: the bytes are malformed.
    """
    return parsed(ReceivedInterest, packet)


def parse_data(packet: bytes) -> ReceivedData:
    """Read a Data packet; its signature is not checked.

    Raises:
        MalformedPacket: the bytes are malformed.
    """
    return parsed(ReceivedData, packet)


def parse_lp_packet(packet: bytes) -> ReceivedLpPacket:
    """Read a received packet: a link packet, or a bare Interest or Data.

    Raises:
        MalformedPacket: these bytes are neither.
    """
    return parsed(ReceivedLpPacket, packet)


def parsed(parse: Callable[[bytes], _Parsed], wire: bytes) -> _Parsed:
    """The result of a parser of the compiled module.

    Raises:
        MalformedPacket: it refuses these bytes.
    """
    try:
        return parse(wire)
    except ValueError as error:
        raise MalformedPacket(f"{error}: {wire[:16].hex()}…") from error
