"""A directory in which the commands of one page run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Self

from tests.docs.command_lines import ROOT

_TIMEOUT_S = 240
_SERVES_S = 8.0
"""A command that serves until Ctrl-C has shown by then that it does."""
_SERVING = re.compile(r"^innet (watch|metrics (?!.*--once)|capture (?!.*--seconds))")
_BACKGROUND = re.compile(r"^innet (forwarder|publish)\b")
_LAB = re.compile(r"\blab\b")
_NEEDS_LAB = re.compile(r"^innet (run --on|status|watch|doctor|metrics|tell|capture|settings --on)")
_TRAIN = """
import innet, numpy
comm = innet.init()
for _ in range(3):
    comm.allreduce(numpy.ones(1000, numpy.float32))
"""
_STRATEGY = """
from innet.ndn.strategy import Refuse, Strategy

class InTurn(Strategy):
    def after_receive_interest(self, interest):
        return Refuse()
"""


FOLDERS = ("apps", "workloads", "topologies", "benchmarks", "tests")
"""Of the repository, in which readers type commands."""


class Workspace:
    """A new user's home and the repository's folders, and processes that end with it.

    Attributes:
        directory: in which commands run.
        environment: of commands: nothing of the process that runs the tests but where programs are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._background: list[subprocess.Popen[str]] = []
        self._lab_is_up = False
        self._forwarder_runs = False
        bin_directory = Path(sys.executable).parent
        self.environment = {
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "HOME": str(directory / "home"),
            "XDG_RUNTIME_DIR": str(directory / "run"),
            "LANG": "C.UTF-8",
        }

    def __enter__(self) -> Self:
        (self.directory / "run").mkdir(mode=0o700)
        (self.directory / "home").mkdir(mode=0o700)
        for folder in FOLDERS:
            (self.directory / folder).symlink_to(ROOT / folder)
        return self

    def add_readers_files(self) -> None:
        """Write the files that pages name as the reader's own. A tutorial has its reader make all
        of its files."""
        for name, text in (
            ("train.py", _TRAIN),
            ("where.py", _TRAIN),
            ("my_strategies.py", _STRATEGY),
            ("photo.jpg", "photo"),
            ("model.bin", "model"),
        ):
            (self.directory / name).write_text(text)
        policy = ROOT / "innet" / "security" / "trust" / "policies" / "store.lvs"
        (self.directory / "lab.lvs").write_text(policy.read_text())
        with (ROOT / "workloads/traces/conversation.jsonl").open() as trace:
            (self.directory / "trace.jsonl").write_text("".join(islice(trace, 20)))

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._background):
            _interrupt(process)
        self._shell("innet down --all")

    def run(self, command: str) -> str:
        """Run a command to its end; what went wrong, if anything did."""
        if command.startswith("innet up"):
            self._lab_is_up = True
        elif _NEEDS_LAB.match(command) and _LAB.search(command) and not self._lab_is_up:
            self._shell("innet up star:3 --name lab --detach")
            self._lab_is_up = True
        elif command.startswith("innet down"):
            self._lab_is_up = False
        if command.startswith("innet forwarder"):
            # Where the adapted command listens, in place of the default address.
            self.environment["INNET_NDN"] = f"unix://{self.directory}/ndn.sock"
            if self._forwarder_runs:
                other = command.replace("ndn.sock", "another.sock")
                return self._serve(other, until_end=False)
            self._forwarder_runs = True
        if _BACKGROUND.match(command):
            return self._serve(command, until_end=True)
        if _SERVING.match(command):
            return self._serve(command, until_end=False)
        return self._shell(command)

    def _shell(self, command: str) -> str:
        try:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {_TIMEOUT_S} s"
        if done.returncode == 0:
            return ""
        return f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _serve(self, command: str, *, until_end: bool) -> str:
        """Start what goes on until Ctrl-C; it must not have ended by itself with an error."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A pipeline is interrupted as a whole, as by Ctrl-C.
            start_new_session=True,
            # A test runner in the background of a shell hands down SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            process.wait(_SERVES_S)
        except subprocess.TimeoutExpired:
            if until_end:
                self._background.append(process)
                return ""
            _interrupt(process)
        assert process.stdout is not None
        return "" if process.returncode in (0, 130) else f"{process.stdout.read()[-2000:]}"


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Interrupt a command with all programs of its pipeline; kill them if they do not end."""
    for how, patience_s in ((signal.SIGINT, 30), (signal.SIGKILL, 5)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        return
