"""The identity of a launcher, which its next start takes over.

Its CURVE key pair, its port, the secrets of its machines, and the keys that these are bound to lie
in a private file beside the token file. A launcher that finds the file of its network uses it, so
token files stay valid. ``innet down`` and Ctrl-C end the network, and remove the file.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError

from innet.cluster.machines.agent_key import KeyPair
from innet.cluster.machines.token_file import (
    CurveKey,
    TokenFile,
    remove_token_file,
    save_private,
)
from innet.errors import SecurityError
from innet.private_files import read_private
from innet.topology.names import NodeName
from innet.validation_messages import StrictModel, first_message

_FORMAT: Final = 1
_MAX_BYTES: Final = 4 << 20
_SECRET_BYTES: Final = 16
_WHAT: Final = "the launcher's key"


class MachineCredential(StrictModel):
    """How a machine proves which one it is.

    Attributes:
        secret: of its token file.
        key: that the secret is bound to; ``None``: it has not joined yet.
        bound_from: address of the agent that first used the secret.
        is_name_given: that agent had no name of its own.
    """

    secret: Annotated[str, Field(min_length=16, max_length=64, repr=False)]
    key: CurveKey | None = None
    bound_from: str = ""
    is_name_given: bool = False

    @classmethod
    def made(cls) -> Self:
        """A new secret, bound to no key."""
        return cls(secret=secrets.token_urlsafe(_SECRET_BYTES))


class LauncherIdentity(StrictModel):
    """A launcher's keys and those of its machines; as JSON, the content of its file.

    Attributes:
        network: name of the run.
        port: at which it listens; 0: none yet.
        pair: its key pair.
        machines: by name.
    """

    format: Literal[1] = _FORMAT
    network: NodeName
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    pair: KeyPair
    machines: Annotated[Mapping[NodeName, MachineCredential], Field(repr=False)]

    @classmethod
    def made(cls, network: str, machines: Iterable[str]) -> Self:
        """A new identity, in which no machine has joined."""
        credentials = {name: MachineCredential.made() for name in machines}
        return cls(network=network, pair=KeyPair.made(), machines=credentials)

    @classmethod
    def kept(cls, token_file: Path, network: str, machines: Iterable[str]) -> Self:
        """The identity that an earlier launcher of the network has left; without one, a new one.

        Machines that its topology does not have any more are dropped, new ones have new secrets.

        Raises:
            SecurityError: there is a file that cannot be used.
        """
        path = identity_path(token_file)
        found = cls.load(path) if path.exists() else None
        if found is None or found.network != network:
            return cls.made(network, machines)
        known = found.machines
        credentials = {name: known.get(name) or MachineCredential.made() for name in machines}
        return found.model_copy(update={"machines": credentials})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file.

        Raises:
            SecurityError: it cannot be read, others have rights to it, or it is no such file.
        """
        remedy = (
            f"Remove {path}: the launcher then makes new keys, and each machine needs the new "
            "token file"
        )
        text = read_private(path, _WHAT, remedy, max_bytes=_MAX_BYTES)
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise SecurityError(
                f"{path} does not hold {_WHAT}: {first_message(error)}. {remedy}"
            ) from error

    def save(self, token_file: Path) -> None:
        """Write the file beside a token file.

        Raises:
            SecurityError: it cannot be written.
        """
        save_private(identity_path(token_file), _WHAT, self, is_durable=True)

    def token_file(self, addresses: Iterable[str]) -> TokenFile:
        """The token file for joining a launcher at these addresses."""
        return TokenFile(
            network=self.network,
            addresses=tuple(addresses),
            public_key=self.pair.public_key,
            machines={name: credential.secret for name, credential in self.machines.items()},
        )


def identity_path(token_file: Path) -> Path:
    """The path of the identity of the launcher that wrote a token file."""
    return token_file.with_name(f"{token_file.name}.launcher")


def forget_launcher(token_file: Path, network: str) -> None:
    """A network has ended for good: remove its token file and its launcher's identity."""
    path = identity_path(token_file)
    try:
        identity = LauncherIdentity.load(path)
    except SecurityError:
        return  # there is none, or it is not ours
    if identity.network == network:
        remove_token_file(token_file, identity.pair.public_key)
        path.unlink(missing_ok=True)
