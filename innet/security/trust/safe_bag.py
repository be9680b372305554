"""SafeBag: a certificate and its private key, encrypted, in one file.

Source: ndn-cxx, "SafeBag": an element with the certificate (a Data packet) and the private key as
PKCS#8 EncryptedPrivateKeyInfo. ndnsec's and python-ndn's are the same, in base64.
"""

from __future__ import annotations

from dataclasses import dataclass

from innet.errors import SecurityError
from innet.security.trust import tlv
from innet.security.trust.certificate import Certificate, packet_of, text_of
from innet.security.trust.keys import PrivateKey
from innet.security.trust.names import uri_of
from innet.tlv_numbers import TlvType


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
            raise SecurityError(f"{uri_of(certificate.name)} is the certificate of another key")
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
                f"the safe bag of {uri_of(self.certificate.name)} holds another key than its "
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
            SecurityError: it is none.
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
