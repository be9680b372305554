"""Starts ``innet`` as a user's terminal does, and reads what it prints."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.cluster.emulation.termination import TerminationSignals

TIMEOUT_S = 240
INNET = [sys.executable, "-m", "innet"]


def innet(*arguments: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as ``user``, which root may say."""
    return subprocess.run(
        [*INNET, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        user=user,
    )


def invoked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end inside this process: starting one takes longer than most commands.

    Of commands that look at a network of another process, or run a job there.
    """
    with pytest.MonkeyPatch.context() as patch:  # of the program's end, which this is not
        patch.setattr(TerminationSignals, "is_program", False)
        done = CliRunner().invoke(app, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@contextmanager
def started(*arguments: str, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on; killed at the end of the block if it still does.

    It runs as ``user``, which root may say.
    """
    with subprocess.Popen(
        [*INNET, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
        # A test runner in the background of a shell hands down SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines that a process prints up to the one with ``text``."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"{text!r} was not printed: {lines}\n{process.communicate()[1]}")


def command_lines() -> str:
    """The command lines of all processes of this machine, as any user can read them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(found)


def of_ranks(text: str) -> list[str]:
    """The lines that ranks have printed, sorted, without those of the launcher."""
    return sorted(line for line in text.splitlines() if not line.startswith("[innet] "))
