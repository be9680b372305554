"""Private and public keys: Ed25519 and ECDSA P-256; RSA is verified alone.

Secrets are PKCS#8 wherever they are stored, and stand in no ``repr`` and in no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
)

from innet._native import _core
from innet.errors import SecurityError
from innet.tlv_numbers import SignatureType

KeyKind: TypeAlias = Literal["ed25519", "ecdsa"]
KINDS: tuple[str, ...] = get_args(KeyKind)

_MIN_RSA_BITS = 2048
_KIND_NAMES: Mapping[int, str] = {
    SignatureType.SHA256_WITH_RSA: "rsa",
    SignatureType.SHA256_WITH_ECDSA: "ecdsa",
    SignatureType.ED25519: "ed25519",
}
_Private: TypeAlias = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
_Public: TypeAlias = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class WrongPassphrase(SecurityError):
    """A key is encrypted, and the passphrase for it is missing or another one."""


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies.

    Attributes:
        spki: X.509 SubjectPublicKeyInfo in DER: the Content of its certificates.
        signature_type: of the signatures that it verifies, as NDN numbers them.
    """

    spki: bytes = field(repr=False)
    signature_type: int
    _key: _Public = field(repr=False, compare=False)

    @classmethod
    def from_spki(cls, spki: bytes) -> PublicKey:
        """The key in a SubjectPublicKeyInfo.

        Raises:
            SecurityError: it holds no key that NDN has signatures of.
        """
        try:
            key = load_der_public_key(spki)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SecurityError(f"no SubjectPublicKeyInfo of a known kind: {error}") from error
        if isinstance(key, ed25519.Ed25519PublicKey):
            return cls(spki, SignatureType.ED25519, key)
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            return cls(spki, SignatureType.SHA256_WITH_ECDSA, key)
        if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
            return cls(spki, SignatureType.SHA256_WITH_RSA, key)
        raise SecurityError(
            "a key is of a kind that is not taken; Ed25519, ECDSA over P-256, and RSA of at least "
            f"{_MIN_RSA_BITS} bits are"
        )

    @property
    def kind(self) -> str:
        """The kind as shown to users: ``ed25519``, ``ecdsa`` or ``rsa``."""
        return _KIND_NAMES[self.signature_type]

    @property
    def rsa_bits(self) -> int | None:
        """Length of an RSA key's modulus; ``None`` for any other key."""
        return self._key.key_size if isinstance(self._key, rsa.RSAPublicKey) else None

    def raw_ed25519(self) -> bytes | None:
        """The 32 bytes of an Ed25519 key; ``None`` for any other."""
        if isinstance(self._key, ed25519.Ed25519PublicKey):
            return self._key.public_bytes_raw()
        return None

    def has_signed(self, data: _core.ReceivedData) -> bool:
        """Whether the signature of ``data`` is this key's, and of the type that it makes."""
        return data.signature_type == self.signature_type and self.verifies(
            data.signed_portion, data.signature_value
        )

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's over ``message``."""
        try:
            if isinstance(self._key, ed25519.Ed25519PublicKey):
                self._key.verify(signature, message)
            elif isinstance(self._key, ec.EllipticCurvePublicKey):
                self._key.verify(signature, message, ec.ECDSA(SHA256()))
            else:
                self._key.verify(signature, message, padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs. Its secret is shown nowhere."""

    public: PublicKey
    _key: _Private = field(repr=False, compare=False)

    @classmethod
    def generate(cls, kind: KeyKind = "ed25519") -> PrivateKey:
        """A new key."""
        if kind == "ed25519":
            return cls._of(ed25519.Ed25519PrivateKey.generate())
        return cls._of(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_raw_ed25519(cls, seed: bytes) -> PrivateKey:
        """The Ed25519 key of a 32-byte seed, as the packet path has it.

        Raises:
            SecurityError: it has another length.
        """
        try:
            return cls._of(ed25519.Ed25519PrivateKey.from_private_bytes(seed))
        except ValueError as error:
            raise SecurityError(f"an Ed25519 key has 32 bytes, not {len(seed)}") from error

    @classmethod
    def from_pkcs8(cls, data: bytes, passphrase: str | None = None) -> PrivateKey:
        """The key in a PKCS#8 document, PEM or DER, encrypted if there is a passphrase.

        Raises:
            WrongPassphrase: it is encrypted with another passphrase, or with one and none is given.
            SecurityError: it holds no key that can sign here.
        """
        load = load_pem_private_key if data.startswith(b"-----") else load_der_private_key
        try:
            key = load(data, None if passphrase is None else passphrase.encode())
        except TypeError as error:
            if passphrase is None:
                raise WrongPassphrase("the key is encrypted; give its passphrase") from error
            return cls.from_pkcs8(data)  # it is not encrypted, and needs none
        except (ValueError, UnsupportedAlgorithm) as error:
            if passphrase is not None:
                raise WrongPassphrase("the passphrase is wrong, or the key is damaged") from error
            raise SecurityError(
                "this is not a private key in PKCS#8; the file is damaged"
            ) from error
        if isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
            return cls._of(key)
        raise SecurityError(
            "a private key is of a kind that does not sign here; make one with `innet keys new`"
        )

    @classmethod
    def _of(cls, key: _Private) -> PrivateKey:
        spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(PublicKey.from_spki(spki), key)

    def sign(self, message: bytes) -> bytes:
        """The signature of ``message``."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(message)
        return self._key.sign(message, ec.ECDSA(SHA256()))

    def raw_ed25519(self) -> bytes | None:
        """The 32-byte seed of an Ed25519 key, as the packet path takes it; ``None`` for others."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.private_bytes_raw()
        return None

    def to_pem(self, passphrase: str | None = None) -> bytes:
        """PKCS#8 in PEM, encrypted if there is a passphrase."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(passphrase))

    def to_der(self, passphrase: str | None = None) -> bytes:
        """PKCS#8 in DER, encrypted if there is a passphrase."""
        return self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, _encryption(passphrase))


def _encryption(passphrase: str | None) -> KeySerializationEncryption:
    if not passphrase:
        return NoEncryption()
    return BestAvailableEncryption(passphrase.encode())
