"""Secrets in files that another user has made, or can read."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from innet.errors import SecurityError
from innet.private_files import read_private, write_private
from innet.security.trust.certificate import Validity
from innet.security.trust.key_operations import make_key
from innet.security.trust.key_store import KeyStore

ANOTHER_USER = 65534

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user"
)


def secret_in(path: Path) -> bytes:
    return read_private(path, "a tenant's secret", "Make one")


@needs_root
def test_a_secret_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private(path, "chosen by another")
    assert secret_in(path) == b"chosen by another"
    os.chown(path, ANOTHER_USER, -1)
    with pytest.raises(SecurityError, match="belongs to user 65534, expected user 0 or root"):
        secret_in(path)


@needs_root
def test_a_private_key_of_another_user_is_not_used(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = make_key(store, "/alice", Validity(now, now + datetime.timedelta(days=30)))
    [path] = tmp_path.rglob("private.pem")
    os.chown(path, ANOTHER_USER, -1)
    with pytest.raises(SecurityError, match="belongs to user 65534"):
        store.private_key(made.key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602])
def test_a_secret_file_accessible_to_others_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    write_private(path, "seen by others")
    path.chmod(mode)
    with pytest.raises(SecurityError, match="chmod 600"):
        secret_in(path)
