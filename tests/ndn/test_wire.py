"""Packets: the same bytes as python-ndn's encoders give, and refusal of all that is malformed."""

from __future__ import annotations

import hashlib
from typing import Any

import ndn.encoding as other
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ndn.security import DigestSha256Signer, HmacSha256Signer

from innet._native import _core
from innet.errors import MalformedPacket
from innet.ndn import HmacSigner, Name, encode_data, encode_interest
from innet.ndn.control import ControlParameters
from innet.ndn.wire import (
    encode_lp_packet,
    parse_data,
    parse_interest,
    parse_lp_packet,
)
from innet.tlv_numbers import TlvType

_FINAL = st.none() | st.integers(0, 2**40).map(lambda n: Name("/").append_number(50, n))
_SECRET = b"a secret that both know"


def _components(name: Name) -> list[bytes]:
    return [other.Component.from_bytes(value, kind) for kind, value in list_of(name)]


def list_of(name: Name) -> list[tuple[int, bytes]]:
    return [name[index] for index in range(len(name))]


_TYPES = st.sampled_from([8, 32, 50, 52, 54, 56, 58, 300, 65535])
components = st.tuples(_TYPES, st.binary(max_size=12))


@st.composite
def names(draw: st.DrawFn, min_size: int = 1) -> Name:
    """Names of any bytes, not only of what people would type."""
    name = Name("/")
    for kind, value in draw(st.lists(components, min_size=min_size, max_size=5)):
        name = name.append(kind, value)
    return name


@given(
    name=names(min_size=0),
    content=st.binary(max_size=300),
    content_type=st.sampled_from([0, 1, 2, 3, 1024]),
    freshness_ms=st.integers(0, 2**33),
    final=_FINAL,
    hmac=st.booleans(),
)
def test_data_are_encoded_as_by_python_ndn(name, content, content_type, freshness_ms, final, hmac):
    meta = other.MetaInfo(
        content_type=content_type or None,
        freshness_period=freshness_ms or None,
        final_block_id=None if final is None else final.value(),
    )
    has_meta = content_type or freshness_ms or final is not None
    theirs = other.make_data(
        _components(name),
        meta if has_meta else None,
        content,
        signer=HmacSha256Signer("/key", _SECRET) if hmac else DigestSha256Signer(),
    )
    ours = encode_data(
        name,
        content,
        content_type=content_type,
        freshness_s=freshness_ms / 1000,
        final_component=final,
        signer=HmacSigner("/key", _SECRET) if hmac else None,
    )
    assert ours == bytes(theirs)


@given(
    name=names(),
    can_be_prefix=st.booleans(),
    must_be_fresh=st.booleans(),
    nonce=st.integers(0, 2**32 - 1),
    lifetime_ms=st.integers(0, 2**33).filter(lambda ms: ms != 4000),
    hop_limit=st.none() | st.integers(0, 255),
    hint=st.none() | names(),
    parameters=st.none() | st.binary(max_size=300),
)
def test_interests_are_encoded_as_by_python_ndn(
    name, can_be_prefix, must_be_fresh, nonce, lifetime_ms, hop_limit, hint, parameters
):
    theirs = other.make_interest(
        _components(name),
        other.InterestParam(
            can_be_prefix=can_be_prefix,
            must_be_fresh=must_be_fresh,
            nonce=nonce,
            lifetime=lifetime_ms,
            hop_limit=hop_limit,
            forwarding_hint=[] if hint is None else [_components(hint)],
        ),
        parameters,
    )
    ours = encode_interest(
        name,
        can_be_prefix=can_be_prefix,
        must_be_fresh=must_be_fresh,
        nonce=nonce,
        lifetime_s=lifetime_ms / 1000,
        hop_limit=hop_limit,
        forwarding_hint=hint,
        parameters=parameters,
    )
    assert ours == bytes(theirs)


@given(name=names(), parameters=st.binary(max_size=60))
def test_signed_interests_are_encoded_as_by_python_ndn(name, parameters):
    theirs = bytes(
        other.make_interest(
            _components(name),
            other.InterestParam(nonce=7, lifetime=None),
            parameters,
            signer=DigestSha256Signer(for_interest=True),
        )
    )
    read = parse_interest(theirs)
    assert read.parameters == parameters
    assert read.parameters_digest_holds()
    assert hashlib.sha256(read.signed_portion).digest() == read.signature_value
    assert read.signature_nonce is not None
    portion = _core.encode_parameters(
        parameters,
        signature_type=0,
        nonce=read.signature_nonce,
        time_ms=read.signature_time_ms,
    )
    portion += _core.encode_element(
        TlvType.INTEREST_SIGNATURE_VALUE, hashlib.sha256(name.value() + portion).digest()
    )
    assert _core.encode_interest(name, 7, parameters_portion=portion) == theirs


def test_python_ndn_verifies_our_signature_of_an_interest():
    packet = encode_interest("/a/b", parameters=b"what", signer=HmacSigner("/key", _SECRET))
    name, _, parameters, signature = other.parse_interest(packet)
    assert bytes(parameters) == b"what"
    covered = b"".join(bytes(part) for part in signature.signature_covered_part)
    assert HmacSigner("/key", _SECRET).sign(covered) == bytes(signature.signature_value_buf)
    assert other.Name.to_str(name[:2]) == "/a/b"
    assert covered == parse_interest(packet).signed_portion


@given(name=names(), payload=st.binary(max_size=100), token=st.binary(min_size=1, max_size=32))
def test_link_packets_carry_tokens_of_any_length(name, payload, token):
    data = encode_data(name, payload)
    packet = encode_lp_packet(data, pit_token=token)
    theirs = other.parse_lp_packet_v2(packet, with_tl=True)
    assert bytes(theirs.pit_token) == token
    assert bytes(theirs.fragment) == data
    ours = parse_lp_packet(packet)
    assert (ours.pit_token, ours.payload, ours.nack_reason) == (token, data, None)


def test_python_ndn_parses_our_nack():
    interest = encode_interest("/a", nonce=1)
    packet = encode_lp_packet(interest, nack_reason=150)
    theirs = other.parse_lp_packet_v2(packet, with_tl=True)
    assert theirs.nack.nack_reason == 150
    assert bytes(theirs.fragment) == interest


@given(wire=st.binary(max_size=60), cut=st.integers(0, 40))
def test_malformed_bytes_raise_one_clear_error(wire, cut):
    whole = encode_data("/a/b", b"some content")
    for packet in (whole[:cut], wire):
        with pytest.raises(MalformedPacket, match=r"malformed Data \(\d+ bytes\)"):
            parse_data(packet)
    with pytest.raises(MalformedPacket):
        parse_interest(whole)


@given(name=names(min_size=0))
def test_a_name_can_be_rebuilt_from_its_bytes_text_and_components(name):
    again = Name.from_value(name.value())
    assert again == name
    assert Name(str(name)) == name
    assert name.prefix(len(name)) == name
    rebuilt = Name("/")
    for kind, value in list_of(name):
        assert rebuilt.is_prefix_of(name)
        rebuilt = rebuilt.append(kind, value)
    assert rebuilt == name
    with pytest.raises(IndexError):
        name[len(name)]


def test_names_in_control_parameters_can_be_text():
    text: dict[str, Any] = {"name": "/video", "strategy": "/localhost/nfd/strategy/best-route"}
    given = ControlParameters(**text)
    assert given.name == Name("/video")
    assert given.encode() == ControlParameters(Name("/video"), strategy=given.strategy).encode()
    with pytest.raises(ValueError, match="video"):
        ControlParameters(**{**text, "name": "video"})


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", 5), ("uri", 5), ("cost", "low"), ("face_id", -1), ("expiration_s", "1 min")],
)
def test_invalid_parameters_of_commands_are_named(field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(TypeError, match=f"{field}={value!r}: expected"):
        ControlParameters(**wrong)


def test_a_name_equals_only_names():
    assert Name("/a") == Name("/a")
    for thing in (None, "/a", b"/a", 1):
        assert Name("/a") != thing
    assert ControlParameters(name=Name("/a")) != ControlParameters()


def test_an_unknown_field_of_an_interest_is_refused() -> None:
    with pytest.raises(TypeError, match="no field fresh"):
        encode_interest("/a", fresh=True)  # type: ignore[call-arg]
