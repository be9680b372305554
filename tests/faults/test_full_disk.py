"""On a full disk, a run goes on, and a command that cannot begin says why."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.netns]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Short enough for the paths of sockets, whatever directory pytest uses."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        yield Path(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which takes root")
def test_a_run_continues_with_a_full_disk_and_reports_it(short_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-m", "tests.faults.workers.full_disk", short_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
    )
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert said.count("full: No space left on device") == 2
    assert "cannot be written (No space left on device): other terminals see an old one" in said
    assert f"another job: cannot write into {short_path}" in said
    assert "a job with space: ()" in said
    assert "failure: none" in said
    assert "digests: 1" in said
    assert f"another network: cannot write into {short_path}" in said
    assert said.splitlines()[-1] in ("left: ['rubbish']", "left: ['innet', 'rubbish']")
