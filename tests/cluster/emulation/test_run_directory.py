"""The directory of a run is locked against systemd-tmpfiles, and looks used to other cleaners."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.registry import runs_directory
from innet.topology import load_topology


async def test_a_cleaner_cannot_lock_the_directory_of_a_run(short_directory, monkeypatch) -> None:
    """It asks for an exclusive lock, and leaves the directory alone when it does not get one."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_directory))
    async with Network(load_topology("star:2")) as network, Network(load_topology("star:2")):
        for directory in (network.run_dir, network.run_dir.parent):
            descriptor = os.open(directory, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(descriptor)


def test_the_directory_of_runs_is_where_no_cleaner_reaches_if_there_is_such_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, roots = tmp_path / "runtime", tmp_path / "run"
    runtime.mkdir()
    roots.mkdir()
    monkeypatch.setattr("innet.cluster.emulation.registry._ROOTS_RUNTIME", str(roots))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert runs_directory() == runtime / "innet"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert runs_directory() == roots / "innet"
    monkeypatch.setattr("os.geteuid", lambda: 1234)
    assert runs_directory() == Path("/tmp/innet-1234")
