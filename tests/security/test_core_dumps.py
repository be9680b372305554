"""Keys do not get into core dumps, unless that is asked for."""

from __future__ import annotations

import os
import resource
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).parent / "workers"
PROCESSES = {"launcher", "controller", "s0", "h0", "h1"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("allowed", "expected"), [("false", (0, 0)), ("true", (4096, 0x33))])
def test_no_process_of_a_run_dumps_memory(allowed: str, expected: tuple[int, int]) -> None:
    done = subprocess.run(
        [sys.executable, str(WORKERS / "run_and_show.py"), allowed],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    shown = {name: (int(limit), int(memory)) for name, limit, memory in lines}
    assert shown.keys() >= PROCESSES
    assert shown == dict.fromkeys(shown, expected)


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_a_core_file_has_no_key(tmp_path: Path, allowed: str) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip(f"no core file is written here: core_pattern is {pattern!r}")
    key = secrets.token_bytes(32)
    (tmp_path / "secret").write_bytes(bytes(byte ^ 0xFF for byte in key))
    subprocess.run([sys.executable, str(WORKERS / "dumped.py"), allowed], cwd=tmp_path, check=False)
    (core,) = tmp_path.glob("core*")
    assert (key in core.read_bytes()) == (allowed == "true")
