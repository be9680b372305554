"""Token files, with which machines join the network of a launcher.

A holder of the file can join as any machine in it that has not joined yet. The file is valid until
the network is taken down: see :mod:`innet.cluster.machines.launcher_identity`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from innet.cluster.machines.addresses import Address
from innet.errors import SecurityError
from innet.private_files import read_private, write_private
from innet.suggestions import did_you_mean
from innet.topology.names import NodeName
from innet.validation_messages import StrictModel, first_message

FORMAT: Final = 1
MAX_MACHINES: Final = 4096
_MAX_BYTES: Final = 1 << 20
_WHAT: Final = "the token file"
_REMEDY: Final = "`innet up --listen` writes one; copy it to this machine with mode 0600."

CurveKey = Annotated[str, Field(pattern=r"^[!-~]{40}$")]
"""A CURVE key in Z85, as ZeroMQ writes it."""


class TokenFile(StrictModel):
    """The content of a token file.

    Attributes:
        network: name of the run.
        addresses: where the launcher listens, as ``HOST:PORT``.
        public_key: the launcher's; it proves to the machine whom it has reached.
        machines: the one-time secret of each machine, by its name.
    """

    format: Literal[1] = FORMAT
    network: NodeName
    addresses: Annotated[tuple[str, ...], Field(min_length=1)]
    public_key: CurveKey
    machines: Annotated[
        Mapping[NodeName, Annotated[str, Field(min_length=16, max_length=64)]],
        Field(min_length=1, max_length=MAX_MACHINES, repr=False),
    ]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a token file.

        Raises:
            SecurityError: it cannot be read, others have rights to it, or it is no token file.
        """
        document = _json_object(read_private(path, _WHAT, _REMEDY, max_bytes=_MAX_BYTES), path)
        if (version := document.get("format")) != FORMAT and "format" in document:
            raise SecurityError(
                f"{path}: token file of format {version!r}, expected {FORMAT}: another version of "
                "innet wrote it. Install on this machine the version that the launcher has"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SecurityError(
                f"{path} is no token file: {first_message(error)}. {_REMEDY}"
            ) from error

    def save(self, path: Path) -> None:
        """Write the file so that only its owner can read it.

        Raises:
            SecurityError: it cannot be written.
        """
        save_private(path, _WHAT, self)

    def save_new(self, path: Path, live: Collection[str]) -> None:
        """Write the file where there is none, or one of a network that has ended.

        Args:
            live: networks that are up on this machine, whose token files stay.

        Raises:
            SecurityError: it cannot be written, or the file there is not to be replaced.
        """
        if path.exists():
            remedy = "Remove it, or name another place with --token-file"
            try:
                network = self.load(path).network
            except SecurityError as error:
                raise SecurityError(
                    f"{path} is there and is not replaced, because it may be no token file: "
                    f"{str(error).partition('. ')[0]}. {remedy}"
                ) from error
            if network in live:
                raise SecurityError(
                    f"{path} is the token file of network {network}, which is up. Name another "
                    "place with --token-file"
                )
        self.save(path)

    def remove(self, path: Path) -> None:
        """Remove the file, unless another launch has replaced it."""
        remove_token_file(path, self.public_key)

    @property
    def port(self) -> int:
        """The launcher's port, the same at all its addresses."""
        return Address.parsed(self.addresses[0]).port

    def only_for(self, machine: str) -> Self:
        """A token file with the secret of one machine alone."""
        return self.model_copy(update={"machines": {machine: self.secret_of(machine)}})

    def secret_of(self, machine: str) -> str:
        """The secret of one machine."""
        if machine not in self.machines:
            raise SecurityError(
                f"network {self.network} has no machine {machine!r}"
                f"{did_you_mean(machine, self.machines)}; its token file names "
                f"{_shown(self.machines)}. Give one of these with --name; a running network cannot "
                "grow: to add a machine, add a host to its topology file, and launch it again"
            )
        return self.machines[machine]


def save_private(path: Path, what: str, document: BaseModel, *, is_durable: bool = False) -> None:
    """Write a document so that only its owner can read it.

    Args:
        path: of the file.
        what: the document is, for messages.
        document: to write as JSON.
        is_durable: also after a power cut that follows.

    Raises:
        SecurityError: it cannot be written.
    """
    try:
        write_private(path, document.model_dump_json(indent=2) + "\n", is_durable=is_durable)
    except OSError as error:
        raise SecurityError(
            f"cannot write {what} {path}: {error.strerror}. Name another place with --token-file"
        ) from error


def remove_token_file(path: Path, public_key: str) -> None:
    """Remove the token file of the launch with this key, unless another one has replaced it."""
    with suppress(SecurityError):
        if TokenFile.load(path).public_key == public_key:
            path.unlink(missing_ok=True)


def _json_object(text: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SecurityError(f"{path} is no token file: it is not JSON. {_REMEDY}") from error
    if not isinstance(document, dict):
        raise SecurityError(f"{path} is no token file: expected an object in JSON. {_REMEDY}")
    return document


def _shown(names: Iterable[str], most: int = 8) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
