"""Finds the commands in pages, and takes them apart as a shell does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("innet", "make", "python")
_FENCE = re.compile(r"\s*```(\w*)")
_SHELL_FENCES = ("", "sh", "bash", "console")
_CODE_SPAN = re.compile(r"`((?:innet|make) [^`]+)`")
_LABELS = ("innet group key ", "innet mask seed", "innet masked sum of ", "innet command v1")
"""Bytes of protocols, which are no commands."""
_CONTINUED = "\\"
_ASSIGNMENT = re.compile(r"[A-Za-z_]+=.*")
_LEFT_OUT = re.compile(r"\.\.\.|…|<|\[")


@dataclass(frozen=True)
class CommandLine:
    """A line of a page that a reader may type.

    Attributes:
        page: relative to the root.
        line: its number, from 1.
        text: as it stands there, without prompt and comment.
        in_block: whether it stands in a block; else in the midst of a sentence.
    """

    page: str
    line: int
    text: str
    in_block: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    def simple_commands(self) -> list[list[str]]:
        """The programs that it starts, with their arguments; without variables and redirections."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        commands: list[list[str]] = [[]]
        for token in lexer:
            if set(token) <= set("|&;"):
                commands.append([])
            else:
                commands[-1].append(token)
        return [words for command in commands if (words := _words(command))]


def pages() -> list[Path]:
    """The pages whose commands are checked. Decisions tell of the past."""
    docs = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "decisions.md"]
    others = [ROOT / "benchmarks" / "README.md", ROOT / "topologies" / "README.md"]
    tests = sorted((ROOT / "tests").glob("*/README.md"))
    programs = ROOT / "apps" / "README.md"
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", programs, *docs, *others, *tests]


def commands_of(page: Path) -> Iterator[CommandLine]:
    """The commands that a page shows, in order."""
    name = str(page.relative_to(ROOT))
    for number, text, in_block in _candidates(page.read_text()):
        if not in_block:
            for span in _CODE_SPAN.finditer(text):
                if not (span[1] in _LABELS or _LEFT_OUT.search(span[1])):
                    yield CommandLine(name, number, span[1], in_block=False)
        elif _starts_a_program(text):
            yield CommandLine(name, number, text, in_block=True)


def _candidates(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines of shell blocks, with those that they continue in; and lines of sentences."""
    fence: str | None = None
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if found := _FENCE.match(line):
            fence = found[1] if fence is None else None
        elif fence is None and not line.startswith("    "):
            yield number, line, False
        elif fence is None or fence in _SHELL_FENCES:
            while line.endswith("\\") or (_starts_a_program(line) and _has_open_quote(line)):
                line = f"{line.removesuffix(_CONTINUED)} {next(lines)[1].strip()}"
            yield number, line.strip().removeprefix("$ "), True


def _has_open_quote(line: str) -> bool:
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return True
    return False


def _starts_a_program(line: str) -> bool:
    words = line.split()
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    return bool(words) and words[0] in PROGRAMS


def _words(command: list[str]) -> list[str]:
    words = list(command)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    for place, word in enumerate(words):
        if set(word) <= set("<>"):
            is_of_stderr = place > 0 and words[place - 1] == "2"
            return words[: place - 1 if is_of_stderr else place]
    return words
