"""Keys that a launcher deals to the nodes of a run.

Each node has an Ed25519 pair of its own, and all know everybody's public key: a node signs its
objects with it, and its segments too when that is the setting. With a symmetric signature, segments
are signed with a group key that all members share. The files are readable by their owner alone.
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
    """What one node signs with, and what it trusts.

    Attributes:
        signing: for segments and sums.
        objects: for the manifests of objects: the node's own Ed25519 key.
        trusted: whose signatures are taken.
        operator: public key of who may give commands, hexadecimal; ``None``: nobody.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    signing: Key
    objects: Key
    trusted: tuple[Key, ...]
    operator: str | None = None

    def signing_key(self) -> _core.SigningKey:
        """The signing key with a fresh salt: no GMAC nonce repeats after a restart."""
        return self.signing.native(secrets.token_bytes(6))

    def object_key(self) -> _core.SigningKey:
        """The key that this node's objects are signed with."""
        return self.objects.native()

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


def deal_keys(
    nodes: Iterable[str], signature: Signature, operator: str | None = None
) -> dict[str, NodeKeys]:
    """Make keys for ``nodes``, which take commands of ``operator``.

    >>> keys = deal_keys(["h0", "s0"], "gmac")
    >>> keys["h0"].signing == keys["s0"].signing
    True
    """
    pairs = {node: Ed25519PrivateKey.generate() for node in nodes}
    own = {node: _own_key(node, pair.private_bytes_raw()) for node, pair in pairs.items()}
    trusted = tuple(
        _own_key(node, pair.public_key().public_bytes_raw()) for node, pair in pairs.items()
    )
    if signature == "ed25519":
        return {
            node: NodeKeys(signing=key, objects=key, trusted=trusted, operator=operator)
            for node, key in own.items()
        }
    secret = secrets.token_bytes(_GROUP_KEY_BYTES.get(signature, 0)).hex()
    name = "" if signature == "digest" else "/g/k"
    shared = Key(signature=signature, name=name, secret=secret)
    return {
        node: NodeKeys(signing=shared, objects=key, trusted=(shared, *trusted), operator=operator)
        for node, key in own.items()
    }


def own_key_name(node: str) -> str:
    """Name of the Ed25519 key of ``node``."""
    return f"/n/{node}/KEY"


def _own_key(node: str, secret: bytes) -> Key:
    return Key(signature="ed25519", name=own_key_name(node), secret=secret.hex())
