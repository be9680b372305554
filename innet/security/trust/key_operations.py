"""Operations on keys: make, certify, revoke, export and import.

The caller gives the time (``now``, in UTC). A SafeBag (source: ndn-cxx, "SafeBag") is an element
with a certificate and its private key as PKCS#8 EncryptedPrivateKeyInfo; ndnsec and python-ndn
write the same, in base64.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from innet.errors import SecurityError
from innet.security.trust import tlv
from innet.security.trust.certificate import Certificate, Issuer, Validity, packet_of, text_of
from innet.security.trust.key_store import KeyStore, StoredKey, new_key_id
from innet.security.trust.keys import KeyKind, PrivateKey
from innet.security.trust.names import is_certificate_name, name_of, new_key_name
from innet.security.trust.revocation import Revocation
from innet.security.trust.signed_data import parse_data
from innet.tlv_numbers import TlvType


def make_key(
    store: KeyStore,
    identity: str,
    validity: Validity,
    *,
    kind: KeyKind = "ed25519",
    key_id: str | None = None,
    passphrase: str | None = None,
) -> Certificate:
    """Make a key in ``store``, now; returns its self-signed certificate.

    That certificate serves as a trust anchor, and as a request to an issuer.

    Raises:
        SecurityError: there is a key of that name, or the identity can have none.
    """
    name = new_key_name(name_of(identity), key_id or new_key_id())
    key = PrivateKey.generate(kind)
    store.add(name, key, passphrase)
    version = version_at(validity.not_before)
    certificate = Certificate.self_signed(name, key, validity, version=version)
    store.add_certificate(certificate)
    return certificate


def issue(
    store: KeyStore,
    request: Certificate,
    issuer: StoredKey,
    validity: Validity,
    *,
    issuer_id: str,
    passphrase: str | None = None,
) -> Certificate:
    """Certify the key of ``request`` now; the certificate stays in ``store``, beside its issuer.

    A certificate ends no later than its issuer's: validators would refuse it afterwards.

    Raises:
        SecurityError: the request is not signed by its own key, the issuer has no certificate that
            is valid now, or its private key is not in the store.
    """
    if request.is_self_signed and not request.has_own_signature:
        raise SecurityError(
            f"the request {request.name} is not signed by its own key: whoever sent it "
            "need not have that key"
        )
    now = validity.not_before
    own = _valid_certificate(issuer, now)
    certificate = Certificate.issue(
        request.key,
        request.public_key,
        Validity(now, min(validity.not_after, own.validity.not_after)),
        Issuer(store.private_key(issuer.name, passphrase), own.name, issuer_id),
        version=version_at(now),
    )
    store.add_certificate(certificate)
    return certificate


def revoke(
    store: KeyStore,
    certificate: Certificate,
    by: StoredKey,
    now: datetime,
    reason: str,
    passphrase: str | None = None,
) -> Revocation:
    """Revoke a certificate with its own key or its issuer's; the record is kept in ``store``.

    Raises:
        SecurityError: ``by`` is neither, or its private key is not here.
    """
    signer = store.private_key(by.name, passphrase)
    record = Revocation.of(certificate, signer, by.name, time=now, reason=reason)
    store.add_revocation(record)
    return record


def export_private(
    store: KeyStore, certificate: Certificate, passphrase: str, own: str | None
) -> SafeBag:
    """The safe bag of a certificate's key, encrypted with ``passphrase``.

    ``own`` is the passphrase that the store has it under.

    Raises:
        SecurityError: the key is not here, or a passphrase is missing or wrong.
    """
    return SafeBag.seal(certificate, store.private_key(certificate.key, own), passphrase)


def import_text(
    store: KeyStore, text: bytes, passphrase: str | None, own: str | None
) -> Certificate | Revocation | SafeBag:
    """Keep what a file holds: a certificate, a safe bag, or a revocation.

    Args:
        store: where.
        text: the file, in base64 or bare.
        passphrase: of the safe bag.
        own: passphrase of the key in the store; ``None``: not encrypted.

    Raises:
        SecurityError: the file holds something else, or the passphrase is wrong.
    """
    if is_safe_bag(text):
        bag = SafeBag.from_text(text)
        store.add(bag.certificate.key, bag.open(passphrase or ""), own)
        store.add_certificate(bag.certificate)
        return bag
    data = parse_data(packet_of(text, TlvType.DATA, "certificate, safe bag or revocation"))
    if is_certificate_name(data.name):
        certificate = Certificate.from_data(data)
        store.add_certificate(certificate)
        return certificate
    record = Revocation.from_data(data)
    store.add_revocation(record)
    return record


def is_safe_bag(text: bytes) -> bool:
    """Whether a file holds a safe bag, which needs a passphrase."""
    try:
        packet_of(text, TlvType.SAFE_BAG, "safe bag")
    except SecurityError:
        return False
    return True


def read_file(path: Path) -> bytes:
    """The content of a file.

    Raises:
        SecurityError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"cannot read {path}: {error.strerror}") from error


def load_certificate(path: Path) -> Certificate:
    """The certificate in a file, in base64 or bare.

    Raises:
        SecurityError: it cannot be read, or is malformed.
    """
    try:
        return Certificate.from_text(read_file(path))
    except SecurityError as error:
        raise SecurityError(f"{path}: {error}") from error


def version_at(now: datetime) -> int:
    """The version of a certificate or record made at ``now``: milliseconds since 1970."""
    return int(now.timestamp() * 1000)


def record_text(record: Revocation) -> str:
    """A revocation as a file: base64 in lines."""
    return text_of(record.data.wire)


def _valid_certificate(key: StoredKey, now: datetime) -> Certificate:
    valid = [c for c in key.certificates if c.validity.covers(now)]
    issued: list[Certificate] = [c for c in valid if not c.is_self_signed]
    if not valid:
        whys = "; ".join(f"{c.name} {c.describe_period(now)}" for c in key.certificates)
        raise SecurityError(
            f"{key.name} has no certificate that counts now ({whys or 'none at all'})"
        )
    return (issued or valid)[0]


@dataclass(frozen=True)
class SafeBag:
    """A certificate with its key.

    Attributes:
        certificate: for the key.
        encrypted_key: PKCS#8 EncryptedPrivateKeyInfo in DER.
    """

    certificate: Certificate
    encrypted_key: bytes

    @classmethod
    def seal(cls, certificate: Certificate, key: PrivateKey, passphrase: str) -> SafeBag:
        """Encrypt ``key`` and put it beside its certificate.

        Raises:
            SecurityError: there is no passphrase, or the certificate is of another key.
        """
        if not passphrase:
            raise SecurityError("a private key leaves the store encrypted: give a passphrase")
        if certificate.public_key != key.public:
            raise SecurityError(f"{certificate.name} is the certificate of another key")
        return cls(certificate, key.to_der(passphrase))

    def open(self, passphrase: str) -> PrivateKey:
        """The private key.

        Raises:
            WrongPassphrase: it is another one.
            SecurityError: the key is not the certificate's.
        """
        key = PrivateKey.from_pkcs8(self.encrypted_key, passphrase)
        if key.public != self.certificate.public_key:
            raise SecurityError(
                f"the safe bag of {self.certificate.name} holds another key than its "
                "certificate says; it has been tampered with"
            )
        return key

    def to_text(self) -> str:
        """The file: base64 in lines."""
        key = tlv.encode(TlvType.ENCRYPTED_KEY, self.encrypted_key)
        return text_of(tlv.encode(TlvType.SAFE_BAG, self.certificate.wire, key))

    @classmethod
    def from_text(cls, text: bytes) -> SafeBag:
        """The safe bag in a file.

        Raises:
            SecurityError: it is malformed.
        """
        wire = packet_of(text, TlvType.SAFE_BAG, "safe bag")
        match tlv.decode(wire):
            case [(TlvType.SAFE_BAG, value)]:
                elements = tlv.decode(value)
            case _:
                raise SecurityError(
                    f"these {len(wire)} bytes are not one safe bag: export it again"
                )
        match elements:
            case [(TlvType.DATA, certificate), (TlvType.ENCRYPTED_KEY, key)]:
                return cls(Certificate.parse(tlv.encode(TlvType.DATA, certificate)), key)
            case _:
                raise SecurityError("a safe bag holds a certificate and a key; this one does not")
