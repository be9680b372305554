"""The keys of a node, and those it trusts: a file that only its owner can read.

:mod:`.key_dealer` makes them. Keys of groups are in no file (:mod:`.group_keys`).
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet._native import _core
from innet.errors import SecurityError
from innet.private_files import write_private
from innet.security.key import (
    Key,
)

KEYS_VARIABLE = "INNET_KEYS"
"""Environment variable with the path of the node's key file."""


class NodeKeys(BaseModel):
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

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

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
        """The secret of the job's tenant of pools.

        Raises:
            SecurityError: the node has none.
        """
        if self.pool_secret is None:
            raise SecurityError("these keys are of no job's host, and so have no pool's secret")
        return bytes.fromhex(self.pool_secret)

    def save(self, path: Path) -> None:
        """Write the keys to ``path``, readable by the owner alone."""
        write_private(path, self.model_dump_json())

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


class JobTrust(BaseModel):
    """What a switch needs of a job's keys before any of its groups is made.

    Attributes:
        signing: for the job's sums; ``None``: the switch's own key signs them.
        trusted: whose signatures are taken for the job's names, and for no others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    signing: Key | None
    trusted: tuple[Key, ...]

    def signing_key(self) -> _core.SigningKey | None:
        """The signing key with a fresh salt, if the job has one."""
        return None if self.signing is None else self.signing.native(secrets.token_bytes(6))

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]
