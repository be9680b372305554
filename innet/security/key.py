"""One named key, as key files and messages have it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field

from innet._native import _core
from innet.settings import Signature

ISSUER = "anchor"
"""Issuer component of the names of a job's node certificates."""
SHARED_KEY_BYTES = {"gmac": 16, "hmac": 32}
"""Size of the keys that several nodes share, by signature."""


class Key(BaseModel):
    """A named key.

    Attributes:
        signature: the type that it makes and verifies.
        name: its name in packets.
        secret: hexadecimal: the shared secret, private seed or public key.
        not_after: until when it verifies, in seconds since 1970; ``None``: for ever.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    signature: Signature
    name: str
    secret: str = Field(repr=False)
    not_after: float | None = None

    def __repr__(self) -> str:
        return f"Key({self.signature}, {self.name})"

    def called(self, name: str) -> Key:
        """The same key under another name."""
        return self.model_copy(update={"name": name})

    def public(self) -> Key:
        """The half of an Ed25519 pair that verifies."""
        private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.secret))
        secret = private.public_key().public_bytes_raw().hex()
        return self.model_copy(update={"secret": secret})

    def native(self, salt: bytes = b"", names: Iterable[str] | None = None) -> _core.SigningKey:
        """The key as the packet path takes it.

        To verify, it vouches for names below ``names`` alone; ``None``: for all where it is
        installed.
        """
        return _core.SigningKey(
            self.signature,
            self.name,
            bytes.fromhex(self.secret),
            salt,
            None if names is None else list(names),
            None if self.not_after is None else self.not_after - time.time(),
        )


def node_key_prefix(node: str) -> str:
    """What the names of all keys of ``node`` begin with."""
    return f"/n/{node}/KEY"


def node_certificate_name(node: str, job: str) -> str:
    """The name of the certificate of the Ed25519 key of ``node`` in a job, as KeyLocators have it.

    It contains the job's name, which is unique in a network: the names of a job's nodes give the
    names of their keys.

    >>> node_certificate_name("h0", "j1")
    '/n/h0/KEY/j1/anchor/v=1'
    """
    return f"{node_key_prefix(node)}/{job}/{ISSUER}/v=1"
