"""Follows a tutorial word by word: saves its files, types its commands, waits for its outputs.

Figures in an output are exact, unless the paragraph before it states a tolerance: ``within 20 %``,
``within a factor of 5``. A ``…`` in an output stands for any text.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from tests.docs.command_lines import ROOT
from tests.docs.workspace import Workspace

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
WITH_VLLM = ("prefill-decode",)
"""Tutorials that ``make kv-adapters`` follows."""
TIMEOUT_S = 240.0
"""Of a command."""
_OUTPUT_TIMEOUT_S = 60
_FENCE = re.compile(r"```(\w*)$")
_SAVE_AS = re.compile(r"Save this as `([\w.]+)`")
_INSTALLATION = re.compile(r"make setup|source |pip install ")
"""Commands whose effect the environment of the tests has already."""
_FIGURE = re.compile(r"(?<![^\s(=])\d[\d,]*(?:\.\d+)?(?![\d.]*[\w:-])")
"""A number by itself. Digits in names and intervals (h0, 0-3) are no figures."""
_TOLERANCE = re.compile(r"within (?:(?P<percent>\d+) %|a factor of (?P<factor>\d+))")


@dataclass(frozen=True)
class Step:
    """One thing that a reader does.

    Attributes:
        line: of the page, from 1.
        kind: save a file, type a command, or see an output.
        text: contents, command, or output.
        name: of the file.
        factor: by which figures of an output may differ.
    """

    line: int
    kind: Literal["file", "command", "output"]
    text: str
    name: str = ""
    factor: float = 1.0


def steps_of(text: str) -> Iterator[Step]:
    """The steps of a page: its blocks of ``sh``, of ``text``, and of Python to be saved."""
    name, language, block, prose = "", None, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if not (fence := _FENCE.match(line)):
            block.append((number, line))
            if language is None and (found := _SAVE_AS.search(line)):
                name = found[1]
            continue
        if language is None:
            prose = "\n".join(text for _, text in block).strip().rpartition("\n\n")[2]
            language, block = fence[1], []
            continue
        contents = "\n".join(text for _, text in block) + "\n"
        if language == "sh":
            yield from (Step(number, "command", text) for number, text in block if text)
        elif language == "text":
            yield Step(block[0][0], "output", contents, factor=_factor_in(prose))
        elif name:
            yield Step(block[0][0], "file", contents, name)
        name, language, block = "", None, []


def _factor_in(prose: str) -> float:
    """The tolerance that a paragraph states for the output below it."""
    found = _TOLERANCE.search(" ".join(prose.split()))
    if found is None:
        return 1.0
    return float(found["factor"]) if found["factor"] else 1 + int(found["percent"]) / 100


class Reader:
    """A shell in a workspace, and what it has printed."""

    def __init__(self, workspace: Workspace, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._directory = workspace.directory
        self._log = self._directory / "shell.log"
        with self._log.open("w") as log:
            self._shell = subprocess.Popen(
                ["bash", "-o", "pipefail"],
                cwd=self._directory,
                env=workspace.environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._commands = 0
        self._seen_from = 0
        """The place where the output begins that the next output block may show."""
        self._last: Step | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, how)
            with suppress(subprocess.TimeoutExpired):
                self._shell.wait(10)
        assert self._shell.stdin is not None
        self._shell.stdin.close()

    def follow(self, step: Step) -> str:
        """Do one step; what went wrong, if anything did."""
        if step.kind == "file":
            (self._directory / step.name).write_text(step.text)
            return ""
        if step.kind == "output":
            return self._wait_for(step)
        if _INSTALLATION.match(step.text):
            return ""
        if self._last is None or self._last.line != step.line - 1:  # a new block
            self._seen_from = len(self._log.read_text())
        self._last = step
        return self._type(step.text)

    def _type(self, command: str) -> str:
        self._commands += 1
        status = self._directory / f"status.{self._commands}"
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; echo $? >{status}.new\n")
        self._shell.stdin.write(f"mv {status}.new {status}\n")
        self._shell.stdin.flush()
        if not _becomes_true(status.exists, self._timeout_s):
            return f"did not end within {self._timeout_s:g} s\n{self._shown()}"
        code = status.read_text().strip()
        return "" if code == "0" else f"exit code {code}\n{self._shown()}"

    def _wait_for(self, output: Step) -> str:
        """Commands in the background may print it later."""

        def missing() -> list[str]:
            return missing_lines(output.text, self._shown(), output.factor)

        if _becomes_true(lambda: not missing(), _OUTPUT_TIMEOUT_S):
            return ""
        return "\n".join(("does not print", *missing(), "but", self._shown()))

    def show_all(self) -> None:
        """Look for the outputs that follow in all that was printed from the beginning."""
        self._seen_from = 0

    def _shown(self) -> str:
        return self._log.read_text()[self._seen_from :]


def missing_lines(expected: str, shown: str, factor: float = 1.0) -> list[str]:
    """The lines of an output block that were not printed in this order.

    Args:
        expected: the block.
        shown: all that was printed.
        factor: by which figures may differ.
    """
    printed = iter([" ".join(line.split()) for line in shown.splitlines()])
    return [
        line
        for line in expected.splitlines()
        if not any(_shows(" ".join(line.split()), found, factor) for found in printed)
    ]


def _shows(expected: str, found: str, factor: float) -> bool:
    """Whether a printed line contains the expected one."""
    texts = [re.escape(text).replace("…", ".*") for text in _FIGURE.split(expected)]
    line = re.search(r"(?<![\d.])([\d,]+(?:\.\d+)?)".join(texts), found)
    if line is None:
        return False
    wanted = [_value(text) for text in _FIGURE.findall(expected)]
    printed = [_value(text) for text in line.groups()]
    return all(
        value == other
        or (min(value, other) > 0 and max(value, other) <= factor * min(value, other))
        for value, other in zip(wanted, printed, strict=True)
    )


def _value(figure: str) -> float:
    return float(figure.replace(",", ""))


def _becomes_true(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def follow(
    page: Path, workspace: Workspace, timeout_s: float = TIMEOUT_S, *, whole: bool = False
) -> Iterator[tuple[Step, str]]:
    """Do all steps of a page; each with what went wrong. A reader stops at the first error.

    Args:
        page: the tutorial.
        workspace: in which the reader works.
        timeout_s: of each command.
        whole: save all files, paste all commands at once, and look for the outputs at the end.
    """
    steps = list(steps_of(page.read_text()))
    if whole:
        steps.sort(key=lambda step: ("file", "command", "output").index(step.kind))
    with Reader(workspace, timeout_s) as reader:
        for step in steps:
            if whole and step.kind == "output":
                reader.show_all()
            why = reader.follow(step)
            yield step, why
            if why:
                return
