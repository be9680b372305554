"""Certificates: what we make python-ndn reads and verifies, and the other way round."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from Cryptodome.PublicKey import ECC, RSA
from hypothesis import given
from hypothesis import strategies as st
from ndn.app_support import security_v2
from ndn.encoding import Name as NdnName
from ndn.encoding import parse_data
from ndn.security import verify_ecdsa, verify_ed25519
from ndn.security.signer import Ed25519Signer, Sha256WithEcdsaSigner, Sha256WithRsaSigner

from innet.errors import SecurityError
from innet.security.trust import (
    Certificate,
    PrivateKey,
    PublicKey,
    Revocation,
    Validity,
    sign_data,
    tlv,
)
from innet.security.trust.certificate import Issuer
from innet.security.trust.keys import KINDS, KeyKind
from innet.security.trust.names import name_of

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
YEAR = Validity(NOW, NOW + timedelta(days=365))
KEY = name_of("/site/alice/KEY/1")
ISSUER = name_of("/site/KEY/9/self/v=1")


def certified(kind: KeyKind, issuer: PrivateKey) -> Certificate:
    return Certificate.issue(
        KEY,
        PrivateKey.generate(kind).public,
        YEAR,
        Issuer(issuer, ISSUER, "site"),
        version=7,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_names_its_subject_and_issuer(kind: KeyKind) -> None:
    issuer = PrivateKey.generate(kind)
    made = Certificate.parse(certified(kind, issuer).wire)
    assert str(made.name) == "/site/alice/KEY/1/site/v=7"
    assert (made.key, made.identity) == (KEY, name_of("/site/alice"))
    assert made.validity == YEAR
    assert made.data.key_name == ISSUER
    assert issuer.public.has_signed(made.data)
    assert not PrivateKey.generate(kind).public.has_signed(made.data)
    assert not made.is_self_signed


@pytest.mark.parametrize("kind", KINDS)
def test_python_ndn_reads_and_verifies_our_certificates(kind: KeyKind) -> None:
    issuer = PrivateKey.generate(kind)
    made = certified(kind, issuer)
    read = security_v2.parse_certificate(made.wire)
    assert NdnName.to_str(read.name) == str(made.name)
    assert bytes(read.content) == made.public_key.spki
    assert bytes(read.signature_info.validity_period.not_after) == b"20270504T120000"
    _, _, _, pointers = parse_data(made.wire)
    verify = verify_ed25519 if kind == "ed25519" else verify_ecdsa
    assert verify(ECC.import_key(issuer.public.spki), pointers)


def test_we_read_and_verify_python_ndn_s_certificates() -> None:
    rsa, ecc, edwards = (
        RSA.generate(2048),
        ECC.generate(curve="P-256"),
        ECC.generate(curve="ed25519"),
    )
    signers: dict[Any, Any] = {
        Sha256WithRsaSigner("/site/KEY/9", rsa.export_key("DER")): rsa.publickey(),
        Sha256WithEcdsaSigner("/site/KEY/9", ecc.export_key(format="DER")): ecc.public_key(),
        Ed25519Signer("/site/KEY/9", edwards.export_key(format="DER")): edwards.public_key(),
    }
    for signer, public in signers.items():
        issuer = PublicKey.from_spki(bytes(public.export_key(format="DER")))
        content = PrivateKey.generate("ecdsa").public.spki
        _, wire = security_v2.new_cert(
            NdnName.from_str("/site/alice/KEY/1"), b"\x08\x02by", content, signer, NOW, NOW
        )
        read = Certificate.parse(bytes(wire))
        assert issuer.has_signed(read.data)
        assert read.public_key.spki == content
        assert read.validity == Validity(NOW, NOW)


def test_python_ndn_accepts_our_anchor_and_chain() -> None:
    """Its own validator, from a packet over two certificates to a self-signed anchor."""
    from ndn.security.validator.cascade_validator import CascadeChecker

    root, alice = PrivateKey.generate("ecdsa"), PrivateKey.generate("ecdsa")
    anchor = Certificate.self_signed(name_of("/site/KEY/9"), root, YEAR, version=1)
    certificate = Certificate.issue(
        KEY,
        alice.public,
        YEAR,
        Issuer(root, anchor.name, "site"),
        version=7,
    )
    data = sign_data(name_of("/site/alice/file"), b"text", alice, certificate.name)

    class App:
        async def express_interest(self, name, validator, **_):
            got, meta, content, pointers = parse_data(certificate.wire)
            assert await validator(got, pointers)
            return got, meta, content

    checker = CascadeChecker(App(), anchor.wire)
    name, _, _, pointers = parse_data(data.wire)
    assert asyncio.run(checker(name, pointers))


def test_a_packet_that_nodes_drop_is_refused_despite_a_valid_signature() -> None:
    """Python reads packets exactly as nodes do: an unknown critical element makes both refuse."""
    key = PrivateKey.generate()
    signed = sign_data(KEY, b"text", key, KEY, info=tlv.encode(0x1F0, b"ignorable"))
    assert key.public.has_signed(signed)
    with pytest.raises(SecurityError, match="damaged or forged"):
        sign_data(KEY, b"text", key, KEY, info=tlv.encode(0x1F1, b"critical"))


def test_a_name_with_an_implicit_digest_is_not_signed() -> None:
    key = PrivateKey.generate()
    name = name_of("/site/alice/sha256digest=" + "01" * 32)
    with pytest.raises(SecurityError, match="leave out the implicit digest"):
        sign_data(name, b"text", key, KEY)


def test_a_key_that_is_too_weak_is_refused() -> None:
    weak = bytes(RSA.generate(1024).publickey().export_key(format="DER"))
    other_curve = bytes(ECC.generate(curve="P-384").public_key().export_key(format="DER"))
    for spki in (weak, other_curve, b"no key"):
        with pytest.raises(SecurityError, match=r"kind"):
            PublicKey.from_spki(spki)


def test_secrets_are_not_in_the_repr() -> None:
    key = PrivateKey.generate()
    assert (key.raw_ed25519() or b"").hex() not in repr(key)
    assert str(key.raw_ed25519()) not in repr(key)


@given(st.data())
def test_a_damaged_certificate_is_refused_and_never_verifies(data: st.DataObject) -> None:
    issuer = PrivateKey.generate()
    wire = bytearray(certified("ed25519", issuer).wire)
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] ^= data.draw(st.integers(1, 255))
    try:
        damaged = Certificate.parse(bytes(wire))
    except SecurityError:
        return
    assert not issuer.public.has_signed(damaged.data)


@given(st.binary(max_size=80))
def test_malformed_packets_raise_one_kind_of_error(wire: bytes) -> None:
    for prefix in (b"", b"\x06\x20", b"\x06\x10\x07\x06\x08\x01a"):
        with pytest.raises(SecurityError):
            Certificate.parse(prefix + wire)


def test_only_the_key_itself_and_its_issuer_can_revoke() -> None:
    issuer, stranger, own = PrivateKey.generate(), PrivateKey.generate(), PrivateKey.generate()
    certificate = Certificate.issue(
        KEY, own.public, YEAR, Issuer(issuer, ISSUER, "site"), version=7
    )
    for signer, last in ((issuer, "issuer"), (own, "self")):
        made = Revocation.of(certificate, signer, ISSUER, time=NOW, reason="lost")
        record = Revocation.parse(made.data.wire)
        assert str(record.data.name) == f"/site/alice/REVOKE/1/site/v=7/{last}"
        assert record.certificate == certificate.name
        assert record.revokes(certificate, issuer.public)
        assert not record.revokes(certificate, stranger.public) or last == "self"
    with pytest.raises(SecurityError, match="can be revoked by its own key or by /site/KEY/9"):
        Revocation.of(certificate, stranger, KEY, time=NOW, reason="envy")
    forged = sign_data(made.data.name, made.data.content, stranger, KEY)
    assert not Revocation.from_data(forged).revokes(certificate, issuer.public)
