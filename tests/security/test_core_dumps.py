"""Core dumps contain no keys, unless a setting allows it."""

from __future__ import annotations

import errno
import logging
import os
import resource
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from innet.security import core_dumps
from innet.settings import SecuritySettings

WORKERS = Path(__file__).parent / "workers"
PROCESSES = {"launcher", "controller", "s0", "h0", "h1"}


def test_no_process_of_a_run_dumps_memory() -> None:
    shown = dumped_by_a_run()
    assert shown == dict.fromkeys(shown, (0, 0))


@pytest.mark.jobs
def test_every_process_of_a_run_dumps_memory_if_allowed() -> None:
    shown = dumped_by_a_run("security.core_dumps=true")
    assert shown == dict.fromkeys(shown, (4096, 0x33))


def dumped_by_a_run(*settings: str) -> dict[str, tuple[int, int]]:
    """The limit of core files, and the filter of memory, of each process."""
    done = subprocess.run(
        [sys.executable, str(WORKERS / "run_and_show.py"), *settings],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    shown = {name: (int(limit), int(memory)) for name, limit, memory in lines}
    assert shown.keys() >= PROCESSES
    return shown


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_a_core_file_contains_no_key(tmp_path: Path, allowed: str) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip(f"no core file is written here: core_pattern is {pattern!r}")
    key = secrets.token_bytes(32)
    (tmp_path / "secret").write_bytes(bytes(byte ^ 0xFF for byte in key))
    subprocess.run([sys.executable, str(WORKERS / "dumped.py"), allowed], cwd=tmp_path, check=False)
    (core,) = tmp_path.glob("core*")
    assert (key in core.read_bytes()) == (allowed == "true")


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT])
@pytest.mark.parametrize("pattern", ["core", "|/usr/lib/systemd/systemd-coredump %P"])
def test_an_unwritable_proc_ends_no_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: int,
    pattern: str,
) -> None:
    """Only where a crash handler gets the memory for that reason, a warning says so."""
    (tmp_path / "core_pattern").write_text(pattern)
    monkeypatch.setattr(core_dumps, "_PATTERN", tmp_path / "core_pattern")
    monkeypatch.setattr(core_dumps, "_FILTER", Unwritable(error))
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        with caplog.at_level(logging.WARNING, "innet"):
            core_dumps.keep_keys_out_of_core_dumps(SecuritySettings())
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    is_warned = error != errno.ENOENT and pattern.startswith("|")
    assert [os.strerror(error) in record.message for record in caplog.records] == [True] * is_warned


class Unwritable:
    """A path to a file that is there and cannot be written."""

    def __init__(self, error: int) -> None:
        self._error = error

    def write_text(self, _: str) -> None:
        raise OSError(self._error, os.strerror(self._error))
