"""Fixtures of the command line's tests: a registry of runs of their own, and what is left in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def registry() -> Iterator[Path]:
    """An empty registry of runs, under a path short enough for sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="innet-test-") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory) / "innet"


@pytest.fixture
def cli() -> CliRunner:
    """Runs the command inside this process, on a terminal of 80 columns."""
    return CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"})


def processes_of(registry: Path) -> list[str]:
    """The command lines of all processes that were started with this registry."""
    marker = f"XDG_RUNTIME_DIR={registry.parent}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes().split(b"\0")
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if marker in environment and command and int(directory.name) != os.getpid():
            found.append(command)
    return found


@pytest.fixture
def nothing_is_left(registry: Path) -> Iterator[None]:
    """Fails a test that leaves a process or a file of a run behind."""
    yield
    assert processes_of(registry) == []
    assert list(registry.glob("*")) == []
