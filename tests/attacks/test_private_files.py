"""Secrets in files that another user has made, or can read."""

from __future__ import annotations

import datetime
import json
import os
import stat
from pathlib import Path

import pytest

from innet.errors import SecurityError
from innet.kv.adapters.identity import FileDigests, default_cache_folder, fingerprint
from innet.private_files import cache_folder, make_private_folder, read_private, write_private
from innet.security.trust.certificate import Validity
from innet.security.trust.key_operations import make_key
from innet.security.trust.key_store import KeyStore
from innet.telemetry.logs.output import FileOutput

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


@needs_root
def test_root_takes_no_folder_of_another_user(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir(mode=0o755)
    os.chown(folder, ANOTHER_USER, -1)
    with pytest.raises(PermissionError, match="belongs to user 65534, expected user 0"):
        make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@needs_root
def test_nothing_is_cached_in_a_folder_of_another_user(tmp_path: Path, monkeypatch) -> None:
    """He could choose the digests of models, by which engines take each other's blocks."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"weights")
    os.utime(model / "model.safetensors", (0, 0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("innet.kv.adapters.identity._SETTLED_NS", 0)
    true = fingerprint(model, FileDigests(None))
    assert fingerprint(model, FileDigests(default_cache_folder())) == true
    [entry] = (tmp_path / "innet" / "weights").iterdir()
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "sha256": "0" * 64}))
    assert fingerprint(model, FileDigests(default_cache_folder())) != true
    os.chown(tmp_path / "innet", ANOTHER_USER, -1)
    assert fingerprint(model, FileDigests(default_cache_folder())) == true
    assert cache_folder() is None


@needs_root
@pytest.mark.parametrize("below", ["", "pool"])
def test_root_follows_no_link_of_another_user(tmp_path: Path, below: str) -> None:
    target, link = tmp_path / "etc", tmp_path / "shared"
    target.mkdir(mode=0o755)
    link.symlink_to(target)
    os.lchown(link, ANOTHER_USER, -1)
    with pytest.raises(PermissionError, match="is a link that user 65534 has made"):
        make_private_folder(link / below)
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert list(target.iterdir()) == []


def test_an_own_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "disk", tmp_path / "pool"
    target.mkdir(mode=0o755)
    link.symlink_to(target)
    make_private_folder(link)
    make_private_folder(link / "a" / "b")
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert stat.S_IMODE((target / "a" / "b").stat().st_mode) == 0o700


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pool").write_text("")
    with pytest.raises(OSError, match=r"exists|directory"):
        make_private_folder(tmp_path / "pool")


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    (tmp_path / "h0.log").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        FileOutput(tmp_path)("h0", "a line")
    assert victim.read_text() == ""
