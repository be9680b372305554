"""One named key, as key files and messages have it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict

from innet._native import _core
from innet.settings import Signature

SHARED_KEY_BYTES = {"gmac": 16, "hmac": 32}
"""Of the keys that several nodes share, by what they sign with them."""


class Key(BaseModel):
    """A named key. ``secret`` is hexadecimal: the shared secret, private seed or public key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signature: Signature
    name: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.signature}, {self.name})"

    def public(self) -> Key:
        """The half of an Ed25519 pair that verifies."""
        private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.secret))
        secret = private.public_key().public_bytes_raw().hex()
        return self.model_copy(update={"secret": secret})

    def native(self, salt: bytes = b"") -> _core.SigningKey:
        """The key as the packet path takes it."""
        return _core.SigningKey(self.signature, self.name, bytes.fromhex(self.secret), salt)
