"""Tenants: the owners of blocks. A tenant's name component and key are derived from its secret.

Only holders of the secret can name, sign and verify the tenant's blocks. HKDF-SHA256 (RFC 5869)
derives both, so that neither reveals the other or the secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from innet._native import _core
from innet.errors import KVError, SecurityError
from innet.kv.names import tenant_component
from innet.node.messages import tenant_prefix
from innet.private_files import read_private
from innet.security.keys import Key
from innet.security.trust.certificate import Certificate, Validity
from innet.security.trust.keys import PrivateKey
from innet.security.trust.names import name_of

MIN_SECRET_BYTES: Final = 16
_DERIVED_BYTES: Final = 32


@dataclass(frozen=True)
class Tenant:
    """A tenant of pools.

    Attributes:
        name: for people; it is in no packet.
        secret: at least 16 bytes that nobody can guess.

    Example:
        >>> tenant = Tenant("acme", b"16 bytes or more of randomness")
        >>> tenant.prefix == f"/kv/{tenant.component}", len(tenant.component)
        (True, 32)
    """

    name: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: the tenant has no name.
            SecurityError: the secret is too short.
        """
        if not self.name:
            raise KVError("a tenant has a name; give one, such as 'acme'")
        if len(self.secret) < MIN_SECRET_BYTES:
            raise SecurityError(
                f"the secret of tenant {self.name} has {len(self.secret)} bytes; it needs at least "
                f"{MIN_SECRET_BYTES} that nobody can guess: openssl rand -hex 32"
            )

    @classmethod
    def from_file(cls, name: str, path: Path) -> Tenant:
        """The tenant whose secret is the contents of ``path``, without surrounding white space.

        Raises:
            SecurityError: the file cannot be read, or other users may read it, or its secret is
                too short.
        """
        return cls(name, _read_secret(path))

    @cached_property
    def component(self) -> str:
        """Stands for the tenant in names: see :func:`innet.kv.names.tenant_component`."""
        return tenant_component(self.name, self._derived("name"))

    @property
    def prefix(self) -> str:
        """The prefix of all its names: ``/kv/<tenant>``."""
        return tenant_prefix(self.component)

    @property
    def key_name(self) -> str:
        """The name of its key in signatures."""
        return f"{self.prefix}/KEY"

    @cached_property
    def key(self) -> Key:
        """The Ed25519 key pair that signs its blocks."""
        return Key(signature="ed25519", name=self.key_name, secret=self._derived("key").hex())

    @cached_property
    def public_key(self) -> Key:
        """The public half of :attr:`key`, for switches."""
        return self.key.public()

    def certificate(self, validity: Validity) -> Certificate:
        """The trust anchor of the policy ``pool``: a self-signed NDN certificate of its key.

        With it alone, without the secret, one can verify the tenant's blocks but not sign any.
        """
        key = PrivateKey.from_raw_ed25519(bytes.fromhex(self.key.secret))
        return Certificate.self_signed(name_of(f"{self.key_name}/1"), key, validity, version=1)

    def proof(self, statement: bytes) -> str:
        """The key's signature of ``statement``, hexadecimal (:mod:`innet.security.pool_proofs`)."""
        key = PrivateKey.from_raw_ed25519(bytes.fromhex(self.key.secret))
        return key.sign(statement).hex()

    @cached_property
    def tag_key(self) -> bytes:
        """Key of the tags of its blocks' segments: 64 bytes known only with the secret."""
        return self._derived("tag-hash") + self._derived("tag")

    @cached_property
    def request_key(self) -> bytes:
        """Key of the tags of requests between its members: 32 bytes known only with the secret."""
        return self._derived("request")

    def signing_key(self) -> _core.SigningKey:
        """:attr:`key`, as the packet path takes it."""
        return self.key.native()

    def member_key(self) -> _core.SigningKey:
        """The key pair for members: with the private half they verify in half the time."""
        pair = self.key.secret + self.public_key.secret
        return self.key.model_copy(update={"secret": pair}).native()

    def _derived(self, purpose: str) -> bytes:
        # A purpose is one word: "a b" for the tenant "c" would be "a" for the tenant "b c".
        info = f"innet kv {purpose} {self.name}".encode()
        return HKDF(SHA256(), _DERIVED_BYTES, salt=None, info=info).derive(self.secret)


def _read_secret(path: Path) -> bytes:
    remedy = f"Make one readable by you alone: (umask 077; openssl rand -hex 32 > {path})"
    return read_private(path, "a tenant's secret", remedy)
