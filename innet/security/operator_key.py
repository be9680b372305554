"""Key that signs commands to the nodes of a run: that of the user who launched it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from innet.errors import SecurityError
from innet.private_files import write_private

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
        """Read what :meth:`save` wrote.

        Raises:
            SecurityError: the file cannot be read or holds something else.
        """
        try:
            return cls(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text())))
        except OSError as error:
            raise SecurityError(
                f"cannot read the operator's key {path}: {error.strerror}. Only the user who "
                "launched a run gives orders to its nodes."
            ) from error
        except ValueError as error:
            raise SecurityError(f"{path} is no operator's key; launch the run again") from error

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
