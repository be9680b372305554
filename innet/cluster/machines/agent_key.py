"""The CURVE key pair of a machine, kept beside its token file.

A restarted agent has the same key, and is the same machine for the launcher. The file is written
before the agent requests to join, because the launcher then binds the machine to the key. A lock on
the file lets one agent at a time be that machine.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import zmq
from pydantic import ValidationError

from innet.cluster.machines.token_file import CurveKey
from innet.errors import SecurityError
from innet.private_files import read_private
from innet.topology.names import NodeName
from innet.validation_messages import StrictModel, first_message

_WHAT = "the key of a machine"
_OTHER_FOLDER = "Copy the token file to a folder of yours that can be written"
_UNNAMED = "joining-"

_log = logging.getLogger(__name__)


class KeyPair(StrictModel):
    """A CURVE key pair in Z85."""

    public_key: CurveKey
    secret_key: CurveKey

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"

    @classmethod
    def made(cls) -> KeyPair:
        """A new key pair."""
        public, secret = zmq.curve_keypair()
        return KeyPair(public_key=public.decode(), secret_key=secret.decode())


class _KeyFile(KeyPair):
    """A key file: which machine has the key, and on which host the file was written.

    ``machine`` is ``None`` until the launcher has named the machine.
    """

    machine: NodeName | None
    host: str

    @property
    def pair(self) -> KeyPair:
        """The keys alone."""
        return KeyPair(public_key=self.public_key, secret_key=self.secret_key)


class AgentKey:
    """A machine's key, and the lock on its file; a context manager.

    Attributes:
        pair: the key pair.
        machine: whose key it is; ``None`` until the launcher has named the machine.
    """

    def __init__(self, path: Path, lock: int, pair: KeyPair, machine: str | None) -> None:
        self._path = path
        self._lock = lock
        self._is_new = False
        self.pair = pair
        self.machine = machine

    @classmethod
    def opened(cls, token_file: Path, machine: str | None) -> AgentKey:
        """The key of a machine; a new one when it has none.

        Args:
            token_file: the key file lies beside it, as ``FILE.MACHINE.key``.
            machine: ``None``: the one that this host has been before, if it has.

        Raises:
            SecurityError: another agent on this host has the key, or its file cannot be used.
        """
        if machine is None:
            return cls._of_this_host(token_file) or cls._made(token_file, None)
        path = key_path(token_file, machine)
        if not path.exists():
            return cls._made(token_file, machine)
        key, lock = _read(path), _locked(path)
        if lock is None:
            raise _in_use(machine, path)
        return cls(path, lock, key.pair, machine)

    @classmethod
    def _made(cls, token_file: Path, machine: str | None) -> AgentKey:
        """A new key, in a file."""
        path = key_path(token_file, machine or f"{_UNNAMED}{secrets.token_hex(4)}")
        made = cls(path, -1, KeyPair.made(), machine)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            made._lock = os.open(path, flags, 0o600)
        except OSError as error:
            raise SecurityError(
                f"cannot keep {_WHAT} in {path}: {error.strerror}. {_OTHER_FOLDER}"
            ) from error
        made._is_new = True
        _lock(made._lock)
        made._write()
        return made

    @classmethod
    def _of_this_host(cls, token_file: Path) -> AgentKey | None:
        host = socket.gethostname()
        for path in sorted(token_file.parent.glob(f"{_escaped(token_file.name)}.*.key")):
            try:
                key = _read(path)
            except SecurityError as error:  # of another host perhaps, which is writing it now
                _log.info("%s", error)
                continue
            is_own = key.machine is None or key_path(token_file, key.machine) == path
            if key.host == host and is_own and (lock := _locked(path)) is not None:
                return cls(path, lock, key.pair, key.machine)
        return None

    def keep_for(self, machine: str) -> None:
        """The launcher has bound ``machine`` to this key: give its file that name.

        Raises:
            SecurityError: the file cannot be written, or another agent has one of that name.
        """
        self._is_new = False
        if self.machine == machine:
            return
        path = self._path.with_name(
            f"{self._path.name.removesuffix('.key').rpartition('.')[0]}.{machine}.key"
        )
        if path.exists():
            lock = _locked(path)
            if lock is None:
                raise _in_use(machine, path)
            os.close(lock)
        self.machine = machine
        try:
            self._write()
            os.replace(self._path, path)
        except OSError as error:
            raise SecurityError(
                f"cannot write {_WHAT} {path}: {error.strerror}. {_OTHER_FOLDER}"
            ) from error
        self._path = path

    def forget(self) -> None:
        """The launcher refuses the machine: remove the file, if the key has never been used."""
        if self._is_new:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        content = _KeyFile(
            public_key=self.pair.public_key,
            secret_key=self.pair.secret_key,
            machine=self.machine,
            host=socket.gethostname(),
        )
        text = content.model_dump_json(indent=2).encode() + b"\n"
        os.pwrite(self._lock, text, 0)
        os.ftruncate(self._lock, len(text))

    def close(self) -> None:
        """Release the lock; the file stays."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def new_key_file(machine: str) -> str:
    """The content of a key file for an agent that is started as ``machine``, on whatever host."""
    pair = KeyPair.made()
    key = _KeyFile(public_key=pair.public_key, secret_key=pair.secret_key, machine=machine, host="")
    return key.model_dump_json()


def key_path(token_file: Path, machine: str) -> Path:
    """The path of a machine's key."""
    return token_file.with_name(f"{token_file.name}.{machine}.key")


def _read(path: Path) -> _KeyFile:
    remedy = f"Remove {path}, and the machine joins with a new key, if it has not joined before."
    text = read_private(path, _WHAT, remedy)
    try:
        return _KeyFile.model_validate_json(text)
    except ValidationError as error:
        raise SecurityError(f"{path} holds no key: {first_message(error)}. {remedy}") from error


def _locked(path: Path) -> int | None:
    """A descriptor with the lock; ``None``: another process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SecurityError(f"cannot lock {_WHAT} {path}: {error.strerror}") from error
    if _lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> bool:
    """Lock a file; file systems without locks leave that to the launcher."""
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _in_use(machine: str, path: Path) -> SecurityError:
    return SecurityError(
        f"another agent on this host is machine {machine}: it holds {path}. End it first, or join "
        "with another --name"
    )


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
