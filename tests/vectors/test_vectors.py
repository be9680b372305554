"""Our codec, our scapy layers and foreign encoders agree on every byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from innet._native import _core
from innet.observe.packets.layers import Ndn
from innet.observe.packets.outline import Outline

# As transport/wire/interest.hpp has it.
_MAX_LIFETIME_MS = 60_000
_FILES = sorted(Path(__file__).parent.glob("*.json"))


def vectors(kind: str) -> list[Any]:
    """All vectors that have something of ``kind``, with names for the report."""
    return [
        pytest.param(vector, id=f"{path.stem}: {vector['what']}")
        for path in _FILES
        for vector in json.loads(path.read_text())["vectors"]
        if kind in vector
    ]


def name_of(fields: dict[str, Any]) -> _core.Name:
    return _core.Name.from_value(bytes.fromhex("".join(fields["name"])))


def optional_name(uri: str | None) -> _core.Name | None:
    return None if uri is None else _core.Name(uri)


def signature_of(received: _core.ReceivedInterest) -> dict[str, Any]:
    nonce = received.signature_nonce
    return {
        "type": received.signature_type,
        "key_name": None if received.key_name is None else str(received.key_name),
        "nonce": "" if nonce is None else nonce.hex(),
        "time_ms": received.signature_time_ms,
        "sequence": received.signature_sequence,
        "value": (received.signature_value or b"").hex(),
    }


@pytest.mark.parametrize("vector", vectors("interest"))
def test_interests(vector: dict[str, Any]) -> None:
    wire, fields = bytes.fromhex(vector["hex"]), vector["interest"]
    received = _core.ReceivedInterest(wire)
    assert received.name == name_of(fields)
    assert received.can_be_prefix == fields["can_be_prefix"]
    assert received.must_be_fresh == fields["must_be_fresh"]
    assert received.nonce == fields["nonce"]
    # Longer lifetimes are cut, so that nobody holds state for ever (docs/protocol.md).
    assert round(received.lifetime_s * 1000) == min(fields["lifetime_ms"], _MAX_LIFETIME_MS)
    assert received.hop_limit == fields["hop_limit"]
    assert received.forwarding_hint == optional_name(fields["hint"])
    assert received.parameters == optional_bytes(fields["parameters"])
    assert received.parameters_digest_holds()
    signature = fields.get("signature")
    if signature is not None:
        assert signature_of(received) == signature
    if vector["canonical"]:
        assert encoded_interest(fields) == wire


def optional_bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def encoded_interest(fields: dict[str, Any]) -> bytes:
    """The Interest as we write it."""
    name, parameters, portion = name_of(fields), fields["parameters"], b""
    if parameters is not None:
        name = name.parent()  # the encoder appends the digest
        portion = encoded_parameters(bytes.fromhex(parameters), fields.get("signature"))
    return _core.encode_interest(
        name,
        fields["nonce"],
        can_be_prefix=fields["can_be_prefix"],
        must_be_fresh=fields["must_be_fresh"],
        lifetime_ms=fields["lifetime_ms"],
        hop_limit=fields["hop_limit"],
        forwarding_hint=optional_name(fields["hint"]),
        parameters_portion=portion,
    )


def encoded_parameters(parameters: bytes, signature: dict[str, Any] | None) -> bytes:
    if signature is None:
        return _core.encode_parameters(parameters)
    portion = _core.encode_parameters(
        parameters,
        signature_type=signature["type"],
        key_name=optional_name(signature["key_name"]),
        nonce=bytes.fromhex(signature["nonce"]),
        time_ms=signature["time_ms"],
        sequence=signature["sequence"],
    )
    return portion + _core.encode_element(0x2E, bytes.fromhex(signature["value"]))


@pytest.mark.parametrize("vector", vectors("data"))
def test_datas(vector: dict[str, Any]) -> None:
    wire, fields = bytes.fromhex(vector["hex"]), vector["data"]
    received = _core.ReceivedData(wire)
    final = optional_bytes(fields["final"])
    assert received.name == name_of(fields)
    assert received.content == bytes.fromhex(fields["content"])
    assert received.content_type == fields["content_type"]
    assert round(received.freshness_s * 1000) == fields["freshness_ms"]
    assert received.final_component == final
    assert received.signature_type == fields["signature_type"]
    assert received.key_name == optional_name(fields["key_name"])
    assert received.signature_value == bytes.fromhex(fields["signature"])
    signed = _core.encode_signed_portion(
        name_of(fields),
        received.content,
        content_type=fields["content_type"],
        freshness_ms=fields["freshness_ms"],
        final_component=final or b"",
        signature_type=fields["signature_type"],
        key_name=optional_name(fields["key_name"]),
    )
    if vector["canonical"]:
        assert signed == received.signed_portion
        assert _core.encode_data(signed, received.signature_value) == wire


@pytest.mark.parametrize("vector", vectors("link"))
def test_link_packets(vector: dict[str, Any]) -> None:
    wire, fields = bytes.fromhex(vector["hex"]), vector["link"]
    received = _core.ReceivedLpPacket(wire)
    assert received.payload == bytes.fromhex(fields["payload"])
    assert received.pit_token == bytes.fromhex(fields["pit_token"])
    assert received.nack_reason == fields["nack"]
    assert received.congestion_mark == fields["congestion_mark"]
    fragment = fields["fragment"]
    assert received.fragment == (None if fragment is None else tuple(fragment))
    if vector["canonical"]:
        assert (
            _core.encode_lp_packet(
                received.payload,
                pit_token=received.pit_token,
                nack_reason=received.nack_reason,
                congestion_mark=received.congestion_mark,
            )
            == wire
        )


@pytest.mark.parametrize("vector", vectors("refused"))
def test_what_the_specifications_forbid_is_refused(vector: dict[str, Any]) -> None:
    wire = bytes.fromhex(vector["hex"])
    kind = {0x05: _core.ReceivedInterest, 0x06: _core.ReceivedData}.get(
        wire[0], _core.ReceivedLpPacket
    )
    with pytest.raises(ValueError, match=r"\w"):
        kind(wire)


@pytest.mark.parametrize("vector", vectors("hex"))
def test_the_layers_for_scapy_build_each_again(vector: dict[str, Any]) -> None:
    wire = bytes.fromhex(vector["hex"])
    dissected = Ndn(wire).copy()
    dissected.clear_cache()
    assert bytes(dissected) == wire
    kind = Outline.of(wire).kind
    if "interest" in vector or "data" in vector:
        assert kind == ("interest" if "interest" in vector else "data")
