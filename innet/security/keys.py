"""Keys of nodes and of the operator, and the files that hold them.

:mod:`.key_dealer` makes a run's keys. Keys of groups are in no file (:mod:`.group_keys`). The
certificates of a job are one base64 packet per line.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, ValidationError

from innet._native import _core
from innet.errors import SecurityError
from innet.private_files import write_private
from innet.settings import Signature
from innet.validation_messages import StrictModel

KEYS_VARIABLE = "INNET_KEYS"
"""Environment variable with the path of the node's key file."""
ISSUER = "anchor"
"""Issuer component of the names of a job's node certificates."""
SHARED_KEY_BYTES = {"gmac": 16, "hmac": 32}
"""Size of the keys that several nodes share, by signature."""


class Key(StrictModel):
    """A named key.

    Attributes:
        signature: the type that it makes and verifies.
        name: its name in packets.
        secret: hexadecimal: the shared secret, private seed or public key.
        not_after: until when it verifies, in seconds since 1970; ``None``: for ever.
    """

    signature: Signature
    name: str
    secret: str = Field(repr=False)
    not_after: float | None = None

    def __repr__(self) -> str:
        return f"Key({self.signature}, {self.name})"

    def called(self, name: str) -> Key:
        """This key under another name."""
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


class NodeKeys(StrictModel):
    """The keys with which one node signs, and those it trusts.

    Attributes:
        signing: for segments and sums.
        objects: for the manifests of objects: the node's own Ed25519 key.
        trusted: keys whose signatures it accepts.
        operator: public key of the operator, hexadecimal; ``None``: commands are refused.
        authority: public key of the controller, which gives groups their keys
            (SubjectPublicKeyInfo, hexadecimal); ``None``: groups have no keys of their own.
        pool_secret: of the job's tenant of pools, hexadecimal; ``None``: a switch has none.
        commands_by: certificates (packets, hexadecimal) of the keys whose NDN management commands
            it accepts; empty: any command of a local program.
    """

    signing: Key
    objects: Key
    trusted: tuple[Key, ...]
    operator: str | None = None
    authority: str | None = None
    pool_secret: str | None = Field(default=None, repr=False)
    commands_by: tuple[str, ...] = ()

    def signing_key(self) -> _core.SigningKey:
        """The signing key with a fresh salt: no GMAC nonce repeats after a restart."""
        return self.signing.native(secrets.token_bytes(6))

    def signing_key_as(self, name: str) -> _core.SigningKey | None:
        """The node's own key under another name; ``None`` where segments are not signed with it."""
        if self.signing.signature != "ed25519":
            return None
        return self.signing.called(name).native()

    def object_key(self) -> _core.SigningKey:
        """The key that this node's objects are signed with."""
        return self.objects.native()

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]

    def pool_secret_bytes(self) -> bytes:
        """The secret of the job's tenant of pools."""
        if self.pool_secret is None:
            raise SecurityError("these keys are of no job's host, and so have no pool's secret")
        return bytes.fromhex(self.pool_secret)

    def save(self, path: Path) -> None:
        """Write the keys to ``path``, readable by the owner alone."""
        write_private(path, self.model_dump_json())

    @classmethod
    def load(cls, path: Path) -> NodeKeys:
        """Read what :meth:`save` wrote."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise SecurityError(f"cannot read the keys {path}: {error.strerror}") from error
        except ValidationError as error:
            raise SecurityError(
                f"{path} is not a key file of this version of innet; launch the run again"
            ) from error


class JobTrust(StrictModel):
    """The keys of a job that a switch needs before any of the job's groups exists.

    Attributes:
        signing: for the job's sums; ``None``: the switch's own key signs them.
        trusted: whose signatures are taken for the job's names, and for no others.
    """

    signing: Key | None
    trusted: tuple[Key, ...]

    def signing_key(self) -> _core.SigningKey | None:
        """The signing key with a fresh salt, if the job has one."""
        return None if self.signing is None else self.signing.native(secrets.token_bytes(6))

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]


def node_key_prefix(node: str) -> str:
    """The prefix of the names of all keys of ``node``."""
    return f"/n/{node}/KEY"


def node_certificate_name(node: str, job: str) -> str:
    """The name of the certificate of the Ed25519 key of ``node`` in a job, as KeyLocators have it.

    It contains the job's name, which is unique in a network: the names of a job's nodes give the
    names of their keys.

    >>> node_certificate_name("h0", "j1")
    '/n/h0/KEY/j1/anchor/v=1'
    """
    return f"{node_key_prefix(node)}/{job}/{ISSUER}/v=1"


OPERATOR_KEY_NAME = "operator.key"
"""Name of the file in the run directory."""


class OperatorKey:
    """An Ed25519 key pair, made with the run; its file is readable by its owner alone."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls) -> Self:
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote."""
        try:
            return cls(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text())))
        except OSError as error:
            raise SecurityError(
                f"cannot read the operator's key {path}: {error.strerror}. Only the user who "
                "launched a run gives orders to its nodes."
            ) from error
        except ValueError as error:
            raise SecurityError(f"{path} is not an operator's key; launch the run again") from error

    def save(self, path: Path) -> None:
        """Write the key to ``path``."""
        write_private(path, self._private.private_bytes_raw().hex())

    @property
    def public(self) -> str:
        """The public key, hexadecimal."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._private.sign(message)


def is_signed_by(public: str, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` is that of the key with this public part."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except InvalidSignature:
        return False
    return True


CERTIFICATES_SUFFIX = ".certificates"
"""Suffix of the file with all certificates of a job, in the run directory."""


def save_packets(path: Path, packets: Iterable[bytes]) -> None:
    """Write packets, for :func:`load_packets`."""
    path.write_text("".join(f"{base64.b64encode(packet).decode()}\n" for packet in packets))


def load_packets(path: Path) -> list[bytes]:
    """The packets in a file that :func:`save_packets` wrote."""
    try:
        return [base64.b64decode(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise SecurityError(f"cannot read the job's certificates {path}: {error}") from error
