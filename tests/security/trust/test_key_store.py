"""Keys on disk: nobody else reads them, and they come back as they were."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from Cryptodome.IO import PKCS8
from Cryptodome.PublicKey import ECC
from ndn.app_support import security_v2
from ndn.encoding import Name as NdnName
from ndn.encoding import parse_and_check_tl
from ndn.security.signer import Sha256WithEcdsaSigner

from innet.errors import SecurityError
from innet.security.trust import KeyStore, PrivateKey, SafeBag, Validity, WrongPassphrase
from innet.security.trust.key_operations import import_text, issue, make_key, revoke
from innet.security.trust.keys import KINDS, KeyKind
from innet.security.trust.names import name_of

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
MONTH = timedelta(days=30)
FROM_NOW = Validity(NOW, NOW + MONTH)


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys")


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_key_is_loaded_and_private(
    store: KeyStore, kind: KeyKind, passphrase: str | None
) -> None:
    made = make_key(store, "/alice", FROM_NOW, kind=kind, passphrase=passphrase)
    [key] = store.keys()
    assert (key.name, key.is_encrypted) == (made.key, passphrase is not None)
    assert store.private_key(key.name, passphrase).public == made.public_key
    for path in (store.directory, *store.directory.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
        if path.is_file():
            secret = store.private_key(key.name, passphrase).to_der()
            stored = path.read_bytes()
            assert secret not in stored
            assert (base64.b64encode(secret)[:40] in stored) == (
                path.name == "private.pem" and passphrase is None
            )


def test_a_key_readable_by_others_is_refused(store: KeyStore) -> None:
    made = make_key(store, "/alice", FROM_NOW)
    [path] = store.directory.rglob("private.pem")
    path.chmod(0o640)
    with pytest.raises(SecurityError, match="others than its owner have rights"):
        store.private_key(made.key)


def test_wrong_and_missing_passphrases_are_distinguished(store: KeyStore) -> None:
    made = make_key(store, "/alice", FROM_NOW, passphrase="right")
    with pytest.raises(WrongPassphrase, match="give its passphrase"):
        store.private_key(made.key)
    with pytest.raises(WrongPassphrase, match="is wrong"):
        store.private_key(made.key, "wrong")


def test_a_key_is_found_by_its_identity_unless_that_has_several(store: KeyStore) -> None:
    first = make_key(store, "/alice", FROM_NOW, key_id="1")
    assert store.find("/alice").name == store.find("/alice/KEY/1").name == first.key
    make_key(store, "/alice", FROM_NOW, key_id="2")
    with pytest.raises(SecurityError, match=r"several keys; say which: /alice/KEY/1, /alice/KEY/2"):
        store.find("/alice")
    with pytest.raises(SecurityError, match="is not there"):
        store.find("/bob")
    with pytest.raises(SecurityError, match="another id"):
        make_key(store, "/alice", FROM_NOW, key_id="1")


def test_an_issued_certificate_expires_with_its_issuers(store: KeyStore) -> None:
    make_key(store, "/site", FROM_NOW)
    request = make_key(store, "/site/alice", FROM_NOW)
    issuer = store.find("/site")
    made = issue(store, request, issuer, Validity(NOW, NOW + 10 * MONTH), issuer_id="site")
    assert made.validity.not_after == NOW + MONTH
    assert store.find_certificate("/site/alice") == made
    with pytest.raises(SecurityError, match="has expired on"):
        issue(store, request, issuer, Validity(NOW + 2 * MONTH, NOW + 3 * MONTH), issuer_id="site")


def test_a_request_signed_by_another_key_is_refused(store: KeyStore) -> None:
    make_key(store, "/site", FROM_NOW)
    request = make_key(store, "/site/alice", FROM_NOW)
    wire = bytearray(request.wire)
    wire[-1] ^= 1
    forged = type(request).parse(bytes(wire))
    with pytest.raises(SecurityError, match="not signed by its own key"):
        issue(store, forged, store.find("/site"), FROM_NOW, issuer_id="site")


def test_revocations_are_kept(store: KeyStore) -> None:
    certificate = make_key(store, "/alice", FROM_NOW)
    revoke(store, certificate, store.find("/alice"), NOW, "lost")
    [record] = store.revocations()
    assert (record.certificate, record.reason) == (certificate.name, "lost")


@pytest.mark.parametrize("kind", KINDS)
def test_python_ndn_and_pkcs8_tools_read_our_safe_bag(store: KeyStore, kind: KeyKind) -> None:
    made = make_key(store, "/alice", FROM_NOW, kind=kind)
    key = store.private_key(made.key)
    wire = base64.b64decode(SafeBag.seal(made, key, "pw").to_text())
    bag = security_v2.SafeBag.parse(
        parse_and_check_tl(wire, security_v2.SecurityV2TypeNumber.SAFE_BAG)
    )
    # Its model keeps the certificate's value, without type and length.
    assert bytes(bag.certificate_v2) == made.wire[-len(bytes(bag.certificate_v2)) :]
    oid, _, _ = PKCS8.unwrap(bytes(bag.encrypted_key_bag), b"pw")
    assert oid == ("1.2.840.10045.2.1" if kind == "ecdsa" else "1.3.101.112")
    theirs = ECC.import_key(bytes(bag.encrypted_key_bag), "pw")
    assert theirs.public_key().export_key(format="DER") == made.public_key.spki


def test_we_read_a_safe_bag_of_python_ndn(store: KeyStore) -> None:
    key = ECC.generate(curve="P-256")
    name = NdnName.from_str("/bob/KEY/5")
    signer = Sha256WithEcdsaSigner(name, key.export_key(format="DER"))
    spki = key.public_key().export_key(format="DER")
    _, certificate = security_v2.self_sign(name, spki, signer)
    bag = security_v2.SafeBag()
    bag.certificate_v2 = bytes(certificate)[4:]  # after type and length, as its model has it
    bag.encrypted_key_bag = key.export_key(
        format="DER", passphrase=b"pw", protection="PBKDF2WithHMAC-SHA1AndAES256-CBC"
    )
    value = bytes(bag.encode())
    text = base64.b64encode(b"\x80\xfd" + len(value).to_bytes(2, "big") + value)
    with pytest.raises(WrongPassphrase):
        import_text(store, text, "other", None)
    assert store.keys() == []
    import_text(store, text, "pw", "mine")
    [stored] = store.keys()
    assert (str(stored.name), stored.is_encrypted) == ("/bob/KEY/5", True)
    assert store.private_key(stored.name, "mine").public.spki == bytes(spki)


def test_a_safe_bag_whose_key_does_not_match_its_certificate_is_refused(store: KeyStore) -> None:
    made = make_key(store, "/alice", FROM_NOW)
    swapped = SafeBag(made, PrivateKey.generate().to_der("pw"))
    with pytest.raises(SecurityError, match="tampered"):
        SafeBag.from_text(swapped.to_text().encode()).open("pw")
    with pytest.raises(SecurityError, match="certificate of another key"):
        SafeBag.seal(made, PrivateKey.generate(), "pw")


def test_a_file_of_another_kind_is_refused(store: KeyStore) -> None:
    for text in (b"", b"hello", base64.b64encode(b"hello"), b"\x06\x03abc", b"\x80\x00"):
        with pytest.raises(SecurityError):
            import_text(store, text, "pw", None)


def test_an_identity_that_is_a_key_is_refused(store: KeyStore) -> None:
    with pytest.raises(SecurityError, match="KEY"):
        make_key(store, "/alice/KEY/1", FROM_NOW)
    with pytest.raises(SecurityError, match="invalid name"):
        make_key(store, "alice", FROM_NOW)
    with pytest.raises(SecurityError, match="not a name of a key"):
        store.add(name_of("/alice"), PrivateKey.generate())
