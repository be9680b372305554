"""Group credentials on their way: named Data, sealed to one process, signed by the run's authority.

    /<job>/KEY/<group>/v=<epoch>/sealed/<node>/seq=<n>

``n`` counts everything that the authority seals, and the salt of the key's nonces is made of it. So
two processes never have the same salt, nor one process twice: it opens a packet once, and its
successor has another key pair, which opens none of its packets.
"""

from __future__ import annotations

from itertools import count
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from pydantic import ValidationError

from innet.errors import SecurityError
from innet.security.group_keys import GroupCredentials
from innet.security.trust.keys import PrivateKey, PublicKey
from innet.security.trust.names import name_of
from innet.security.trust.signed_data import parse_data, sign_data

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


class SealingKey:
    """A process's key pair. The private half never leaves the process, and ends with it."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls) -> Self:
        """A new pair."""
        return cls(X25519PrivateKey.generate())

    @property
    def public(self) -> str:
        """The public key that others seal to, hexadecimal."""
        return self._private.public_key().public_bytes_raw().hex()

    def open(self, sealed: bytes, purpose: bytes) -> bytes:
        """Decrypt the output of :func:`seal`."""
        try:
            return _SUITE.decrypt(sealed, self._private, purpose)
        except InvalidTag as error:
            raise SecurityError(
                "a sealed secret is not for this process, or for another purpose: it was sealed to "
                "another key, or changed on the way"
            ) from error


def seal(secret: bytes, public: str, purpose: bytes) -> bytes:
    """``secret`` for the process with this public key, which opens it with the same ``purpose``.

    >>> key = SealingKey.generate()
    >>> key.open(seal(b"secret", key.public, b"example"), b"example")
    b'secret'
    """
    try:
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        return _SUITE.encrypt(secret, key, purpose)
    except ValueError as error:
        raise SecurityError(f"{public!r} is not a key that can be sealed to: {error}") from error


AUTHORITY_NAME = "/authority/KEY"
"""Name of the key that signs credentials."""

_GENERATION_BITS = 16
_COUNT_BITS = 32


class KeyAuthority:
    """Seals group credentials to the processes that may have them.

    Args:
        private: the authority's key.
        generation: restarts of the process that seals with this key.
    """

    def __init__(self, private: PrivateKey, generation: int = 0) -> None:
        if generation >> _GENERATION_BITS:
            raise SecurityError(
                f"keys were sealed by {generation} controllers already; launch the run again"
            )
        self._private = private
        self._numbers = count(generation << _COUNT_BITS)
        self._last = ((generation + 1) << _COUNT_BITS) - 1

    @classmethod
    def from_hex(cls, document: str, generation: int) -> Self:
        """The authority whose private key (PKCS#8, hexadecimal) this is."""
        return cls(PrivateKey.from_pkcs8(bytes.fromhex(document)), generation)

    @property
    def public(self) -> str:
        """The public key (SubjectPublicKeyInfo, hexadecimal)."""
        return self._private.public.spki.hex()

    @staticmethod
    def require_sealing_key(public: object) -> None:
        """Check a public key to which credentials are to be sealed.

        Raises:
            SecurityError: nothing can be sealed to it.
        """
        if not isinstance(public, str):
            raise SecurityError(f"a sealing key is hexadecimal text, not {type(public).__name__}")
        seal(b"", public, b"")

    def seal(self, epoch: str, credentials: GroupCredentials, node: str, public: str) -> bytes:
        """A packet with the credentials and a salt of its own, for the process with that key.

        Args:
            epoch: name of the group's key.
            credentials: without a salt.
            node: where the process is.
            public: its sealing key, hexadecimal.
        """
        number = next(self._numbers)
        if number > self._last:
            raise SecurityError("no salts are left for another key; launch the run again")
        name = f"{epoch}/sealed/{node}/seq={number}"
        salted = credentials.model_copy(update={"salt": number.to_bytes(6, "big").hex()})
        sealed = seal(salted.model_dump_json().encode(), public, name.encode())
        signed = sign_data(name_of(name), sealed, self._private, name_of(AUTHORITY_NAME))
        return signed.wire


class CredentialOpener:
    """Opens the credentials that are for one process.

    Args:
        node: where it is.
        authority: whose signature counts: a public key (SubjectPublicKeyInfo, hexadecimal).
    """

    def __init__(self, node: str, authority: str) -> None:
        self._node = node
        self._authority = PublicKey.from_spki(bytes.fromhex(authority))
        self._key = SealingKey.generate()
        self._opened: set[str] = set()

    @property
    def public(self) -> str:
        """The public key that others seal to, hexadecimal."""
        return self._key.public

    def open(self, packet: bytes) -> GroupCredentials:
        """The credentials in a packet."""
        data = parse_data(packet)
        name = str(data.name)
        if not self._authority.has_signed(data):
            raise SecurityError(f"{name} is not signed by the authority of this run")
        if name.split("/")[-3:-1] != ["sealed", self._node]:
            raise SecurityError(f"{name} is not for {self._node}")
        if name in self._opened:
            raise SecurityError(f"{name} was opened before; its nonces must not begin again")
        try:
            credentials = GroupCredentials.model_validate_json(
                self._key.open(data.content, name.encode())
            )
        except ValidationError as error:
            raise SecurityError(f"{name} does not hold credentials of this version") from error
        self._opened.add(name)
        return credentials
