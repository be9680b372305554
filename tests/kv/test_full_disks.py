"""Disks that are full, read-only or gone: a member goes on, says why, and keeps what it has."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from innet.errors import KVError
from innet.kv.pool import block_database
from innet.kv.pool.disk_space import DiskSpace
from tests.kv.fake_network import run
from tests.kv.test_disk_tier import block, filled, opened

ROOT = Path(__file__).parents[2]
_MOUNTS = "mount -t tmpfs -o size=4m,nr_inodes=64 tmpfs {0} && exec {1}"
_AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]


def on_a_small_disk(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a file system of 4 MiB at ``folder``, which nobody else sees."""
    shell = _MOUNTS.format(shlex.quote(str(folder)), shlex.join(command))
    return subprocess.run(
        ["unshare", "--mount", *_AS_ROOT, "sh", "-c", shell],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "scenario",
    [
        "full_at_the_start",
        "killed_and_full",
        "full_at_each_moment",
        "no_inodes",
        "killed_and_read_only",
        "deleted",
    ],
)
def test_a_disk_that_takes_no_blocks_costs_no_more_than_those(
    scenario: str, tmp_path: Path
) -> None:
    """``tests/kv/workers/full_disks.py`` has the scenarios."""
    if (tried := on_a_small_disk(tmp_path, ["true"])).returncode:
        pytest.skip(f"file systems cannot be mounted here: {tried.stderr.strip()}")
    command = [sys.executable, "-m", "tests.kv.workers.full_disks", scenario, str(tmp_path)]
    done = on_a_small_disk(tmp_path, command)
    assert done.returncode == 0, done.stderr


def failing(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "error",
    [
        failing(sqlite3.SQLITE_IOERR_READ),
        failing(sqlite3.SQLITE_FULL),
        OSError(errno.EIO, os.strerror(errno.EIO)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EROFS, os.strerror(errno.EROFS)),
    ],
    ids=str,
)
def test_a_disk_that_fails_at_the_start_is_tried_again(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its blocks are read."""
    monkeypatch.setattr(block_database, "RETRY_S", 0.0)

    def fail(_folder: Path) -> None:
        raise error

    async def work() -> None:
        await filled(tmp_path, 4)
        with monkeypatch.context() as broken:
            broken.setattr(block_database, "make_private_folder", fail)
            tier = await opened(tmp_path)
            assert str(error.args[-1]) in tier.statistics().fault
            assert [await tier.get(str(n)) is not None for n in range(4)] == [True] * 4
            tier.put("4", block(4), 0)
            await tier.flush()
            assert ("4" in tier, tier.statistics().failed) == (False, 1)
        tier.put("5", block(5), 0)
        await tier.flush()
        tier.put("6", block(6), 0)
        await tier.flush()
        assert "6" in tier
        assert tier.statistics().fault == ""
        await tier.close()

    run(work())


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
        NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)),
    ],
    ids=str,
)
def test_a_wrong_folder_is_no_fault_of_a_disk(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: Path) -> None:
        raise error

    monkeypatch.setattr(block_database, "make_private_folder", fail)
    with pytest.raises(KVError, match=f"{error.strerror}. Name a folder"):
        run(opened(tmp_path))


def test_a_new_folder_on_a_read_only_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(block_database, "make_private_folder", fail)
    with pytest.raises(KVError, match=r"Read-only file system\. Name a folder"):
        run(opened(tmp_path / "new"))


def test_the_room_of_a_path_that_does_not_exist_is_that_of_its_parent(tmp_path: Path) -> None:
    space = DiskSpace.of(tmp_path / "a" / "b" / "c")
    assert space is not None
    assert space.folder == tmp_path
