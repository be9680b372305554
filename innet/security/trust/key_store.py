"""The key store: a directory with keys, their certificates, and revocations.

Each key has a directory, named after the digest of its name:

    <store>/<digest>/name              the key's name
    <store>/<digest>/private.pem       PKCS#8, encrypted or not; readable by the owner alone
    <store>/<digest>/certificates/     its certificates
    <store>/revocations/               records that were made or imported here

Keys without ``private.pem`` are others': their certificates are known here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from innet._native import _core
from innet.errors import SecurityError
from innet.names import Name
from innet.private_files import make_private_folder, require_private
from innet.security.trust.certificate import Certificate
from innet.security.trust.keys import PrivateKey
from innet.security.trust.names import (
    identity_of,
    is_certificate_name,
    is_key_name,
    key_of,
    name_of,
)
from innet.security.trust.revocation import Revocation
from innet.tlv_numbers import TlvType

STORE_VARIABLE = "INNET_KEY_STORE"
"""Environment variable with the directory of the key store."""

_DIGEST_CHARACTERS = 32
_NAME, _PRIVATE, _CERTIFICATES, _REVOCATIONS = "name", "private.pem", "certificates", "revocations"


def default_store() -> Path:
    """The user's key store: ``$INNET_KEY_STORE``, or ``innet/keys`` where the user's data are."""
    if chosen := os.environ.get(STORE_VARIABLE):
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "innet" / "keys"


@dataclass(frozen=True)
class StoredKey:
    """A key in a store.

    Attributes:
        name: ``/<identity>/KEY/<id>``.
        has_private: whether the key itself is there; otherwise only certificates of it are.
        is_encrypted: whether it needs a passphrase.
        certificates: the newest first.
    """

    name: Name
    has_private: bool
    is_encrypted: bool
    certificates: tuple[Certificate, ...]


class KeyStore:
    """Keys on disk. Everything it makes is readable by its owner alone.

    Example:
        >>> store = KeyStore(Path("keys"))                                 # doctest: +SKIP
        >>> store.add(name_of("/alice/KEY/1"), PrivateKey.generate())      # doctest: +SKIP
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def keys(self) -> list[StoredKey]:
        """All keys, by name.

        Raises:
            SecurityError: something in the store is damaged.
        """
        if not self.directory.is_dir():
            return []
        found = [self._stored(path.parent) for path in self.directory.glob(f"*/{_NAME}")]
        return sorted(found, key=lambda key: str(key.name))

    def find(self, name: str) -> StoredKey:
        """The key that ``name`` means: name of a key, a certificate, or an identity with one key.

        Raises:
            SecurityError: there is none, or several; the message names the existing keys.
        """
        wanted = name_of(name)
        if is_certificate_name(wanted):
            wanted = key_of(wanted)
        keys = self.keys()
        matches = [k for k in keys if wanted in (k.name, identity_of(k.name))]
        if len(matches) > 1:  # other people's keys come second
            matches = [key for key in matches if key.has_private] or matches
        if len(matches) == 1:
            return matches[0]
        known = ", ".join(str(key.name) for key in (matches or keys)) or "none"
        what = "has several keys; say which" if matches else "is not there; it has"
        raise SecurityError(f"in the key store {self.directory}, {name} {what}: {known}")

    def find_certificate(self, name: str) -> Certificate:
        """The certificate of that name, or the best one of that key or identity.

        The best is the newest that another key has issued; without one, the newest.

        Raises:
            SecurityError: there is none.
        """
        key = self.find(name)
        if is_certificate_name(wanted := name_of(name)):
            for certificate in key.certificates:
                if certificate.name == wanted:
                    return certificate
            raise SecurityError(f"the key store {self.directory} has no certificate {name}")
        if not key.certificates:
            raise SecurityError(f"{key.name} has no certificate; import or issue one")
        issued = [c for c in key.certificates if not c.is_self_signed]
        return (issued or list(key.certificates))[0]

    def private_key(self, name: Name, passphrase: str | None = None) -> PrivateKey:
        """A private key.

        Raises:
            WrongPassphrase: it is encrypted, and with another passphrase.
            SecurityError: it is not here, it is not private, or it is damaged.
        """
        path = self._path(name) / _PRIVATE
        try:
            with path.open("rb") as file:
                require_private(path, os.fstat(file.fileno()), "a private key")
                data = file.read()
        except FileNotFoundError:
            raise SecurityError(
                f"the private key {name} is not in the key store {self.directory}; only "
                "its certificates can be here"
            ) from None
        except OSError as error:
            raise SecurityError(f"cannot read the key {path}: {error.strerror}") from error
        return PrivateKey.from_pkcs8(data, passphrase)

    def add(self, name: Name, key: PrivateKey, passphrase: str | None = None) -> None:
        """Keep a private key, encrypted if there is a passphrase.

        Raises:
            SecurityError: there is one of that name, or the store cannot be written.
        """
        if not is_key_name(name):
            raise SecurityError(f"{name} is not a name of a key: /<identity>/KEY/<id> is")
        path = self._make(name) / _PRIVATE
        if path.exists():
            raise SecurityError(f"there is a key {name} already; take another id")
        _write(path, key.to_pem(passphrase))

    def add_certificate(self, certificate: Certificate) -> None:
        """Keep a certificate. Nothing is judged here."""
        directory = self._make(certificate.key) / _CERTIFICATES
        directory.mkdir(mode=0o700, exist_ok=True)
        _write(directory / f"{_digest(certificate.name)}.cert", certificate.wire)

    def add_revocation(self, revocation: Revocation) -> None:
        """Keep a record of a revocation. Nothing is judged here."""
        directory = self._directory(_REVOCATIONS)
        _write(directory / f"{_digest(revocation.data.name)}.data", revocation.data.wire)

    def revocations(self) -> list[Revocation]:
        """All records here.

        Raises:
            SecurityError: one is damaged.
        """
        paths = sorted((self.directory / _REVOCATIONS).glob("*.data"))
        return [Revocation.parse(_read(path)) for path in paths]

    def certificates(self) -> Iterator[Certificate]:
        """All certificates of all keys."""
        for key in self.keys():
            yield from key.certificates

    def _stored(self, directory: Path) -> StoredKey:
        name = name_of(_read(directory / _NAME).decode().strip())
        private = directory / _PRIVATE
        found = [Certificate.parse(_read(p)) for p in (directory / _CERTIFICATES).glob("*.cert")]
        found.sort(key=_version_order, reverse=True)
        return StoredKey(
            name,
            has_private=private.exists(),
            is_encrypted=private.exists() and b"ENCRYPTED" in private.open("rb").read(40),
            certificates=tuple(found),
        )

    def _path(self, key: Name) -> Path:
        return self.directory / _digest(key)

    def _make(self, key: Name) -> Path:
        path = self._directory(_digest(key))
        if not (path / _NAME).exists():
            _write(path / _NAME, str(key).encode())
        return path

    def _directory(self, name: str) -> Path:
        try:
            # One after the other: the mode is not that of parents that are made on the way.
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            make_private_folder(self.directory)
            path = self.directory / name
            make_private_folder(path)
        except OSError as error:
            raise SecurityError(
                f"cannot make the key store {self.directory}: {error.strerror}"
            ) from error
        return path


def new_key_id() -> str:
    """The id of a new key: what ndn-cxx makes as well, 8 random bytes."""
    return secrets.token_hex(8)


def _digest(name: Name) -> str:
    element = _core.encode_element(TlvType.NAME, name.value())
    return hashlib.sha256(element).hexdigest()[:_DIGEST_CHARACTERS]


def _version_order(certificate: Certificate) -> tuple[int, int, bytes]:
    """NDN's canonical order of the last components of names."""
    kind, value = certificate.name[-1]
    return kind, len(value), value


def _write(path: Path, data: bytes) -> None:
    """Write a whole file or none, readable by the owner alone."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SecurityError(f"cannot write {path}: {error.strerror}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"cannot read {path}: {error.strerror}") from error
