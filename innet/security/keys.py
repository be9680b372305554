"""Keys that a launcher deals to the nodes of a run.

With a symmetric signature all members share the group key. With Ed25519 each node has its own pair,
and all know everybody's public key. The files are readable by their owner alone.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, ValidationError

from innet._native import _core
from innet.errors import SecurityError
from innet.settings import Signature

KEYS_VARIABLE = "INNET_KEYS"
"""Environment variable with the path of the node's key file."""

_GROUP_KEY_BYTES = {"gmac": 16, "hmac": 32}


class Key(BaseModel):
    """A named key. ``secret`` is hexadecimal: the shared secret, private seed or public key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signature: Signature
    name: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.signature}, {self.name})"

    def native(self, salt: bytes = b"") -> _core.SigningKey:
        """The key as the packet path takes it."""
        return _core.SigningKey(self.signature, self.name, bytes.fromhex(self.secret), salt)


class NodeKeys(BaseModel):
    """What one node signs with, and what it trusts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signing: Key
    trusted: tuple[Key, ...]

    def signing_key(self) -> _core.SigningKey:
        """The signing key with a fresh salt: no GMAC nonce repeats after a restart."""
        return self.signing.native(secrets.token_bytes(6))

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]

    def save(self, path: Path) -> None:
        """Write the keys to ``path``, readable by the owner alone."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self.model_dump_json())

    @classmethod
    def load(cls, path: Path) -> NodeKeys:
        """Read what :meth:`save` wrote.

        Raises:
            SecurityError: the file cannot be read or holds something else.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise SecurityError(f"cannot read the keys {path}: {error.strerror}") from error
        except ValidationError as error:
            raise SecurityError(
                f"{path} is not a key file of this version of innet; launch the run again"
            ) from error


def deal_keys(nodes: Iterable[str], signature: Signature) -> dict[str, NodeKeys]:
    """Make keys for ``nodes``.

    >>> keys = deal_keys(["h0", "s0"], "gmac")
    >>> keys["h0"].signing == keys["s0"].signing
    True
    """
    if signature == "ed25519":
        return _deal_pairs(list(nodes))
    secret = secrets.token_bytes(_GROUP_KEY_BYTES.get(signature, 0)).hex()
    name = "" if signature == "digest" else "/g/k"
    shared = Key(signature=signature, name=name, secret=secret)
    return {node: NodeKeys(signing=shared, trusted=(shared,)) for node in nodes}


def _deal_pairs(nodes: list[str]) -> dict[str, NodeKeys]:
    private = {node: Ed25519PrivateKey.generate() for node in nodes}

    def key(node: str, secret: bytes) -> Key:
        return Key(signature="ed25519", name=f"/n/{node}/KEY", secret=secret.hex())

    public = tuple(
        key(node, pair.public_key().public_bytes_raw()) for node, pair in private.items()
    )
    return {
        node: NodeKeys(signing=key(node, pair.private_bytes_raw()), trusted=public)
        for node, pair in private.items()
    }
