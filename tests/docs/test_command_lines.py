"""Every command in README.md, CONTRIBUTING.md, docs/ and the help texts is one that there is.

Whether they do what the page says is what ``make docs-commands`` tries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from innet.cli.main import app
from tests.docs.command_lines import ROOT, CommandLine, commands_of, pages

INNET = typer.main.get_command(app)
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
COMMANDS = [command for page in pages() for command in commands_of(page)]
_FILE = re.compile(r"FILE|\w+\.(jpg|bin|txt)")
_LEFT_OUT = ("MissingParameter", "BadOptionUsage", "NoArgsIsHelpError")
"""Errors of arguments that a sentence may leave out."""
_PLACEHOLDERS = {"N": "1", "S": "1", "PORT": "6363"}
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def parse(words: list[str]) -> None:
    """Parse a command line of innet to the end, and run nothing.

    Raises:
        Exception: typer's, for whatever is wrong with it.
    """
    command: Any = INNET
    for file in filter(_FILE.fullmatch, words):
        Path(file).touch()  # typer looks for some
    arguments, context, name = words[1:], None, "innet"
    while True:
        try:
            context = command.make_context(name, list(arguments), parent=context)
        except typer.Exit:  # it asks for help
            return
        if not hasattr(command, "resolve_command"):
            return
        left = [*context._protected_args, *context.args]
        assert left, f"{' '.join(words)}: no command"
        name, command, arguments = command.resolve_command(context, left)


@pytest.mark.parametrize("line", COMMANDS, ids=str)
def test_every_command_of_a_page_exists(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in line.simple_commands():
        if words[0] == "innet":
            try:
                parse([_PLACEHOLDERS.get(word, word) for word in words])
            except UsageError as error:
                if line.in_block or type(error).__name__ not in _LEFT_OUT:
                    raise
        elif words[0] == "make":
            named = {word for word in words[1:] if "=" not in word}
            assert named <= TARGETS, f"no target {named - TARGETS}"
        for word in words:
            if re.fullmatch(r"(apps|benchmarks|workloads|topologies|scripts)/\S+\.\w+", word):
                assert (ROOT / word).exists(), f"there is no {word}"


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    assert len([line for line in COMMANDS if line.in_block]) > 80
    assert len([line for line in COMMANDS if not line.in_block]) > 20


@pytest.mark.parametrize(
    "text",
    [
        "innet runn star8 -- python x.py",
        "innet plan star8 --sise 1MiB",
        "innet kv replai trace.jsonl",
        "innet up star8 --mode nowhere",
        "innet topology",
    ],
)
def test_a_wrong_command_is_detected(text: str) -> None:
    (words,) = CommandLine("page", 1, text, in_block=True).simple_commands()
    with pytest.raises(UsageError):
        parse(words)


def test_a_line_is_split_as_by_a_shell() -> None:
    text = "A=1 innet run star:2 -- sh -c 'x | y' | jq '.a' && innet down 2> log  # and so on"
    line = CommandLine("page", 1, text, in_block=True)
    assert line.simple_commands() == [
        ["innet", "run", "star:2", "--", "sh", "-c", "x | y"],
        ["jq", ".a"],
        ["innet", "down"],
    ]


def examples(command: Any) -> Iterator[str]:
    """The command lines in the help of a command and of all below it."""
    for line in (command.epilog or "").splitlines():
        if line.startswith("[dim]$[/] "):
            yield line.removeprefix("[dim]$[/] ")
    for name in getattr(command, "commands", {}):
        yield from examples(command.commands[name])


def commands_below(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    """The commands below one that can be called, as a reader types them."""
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(words)
    for name in below:
        if not below[name].hidden:
            yield from commands_below(below[name], (*words, name))


@pytest.mark.parametrize("name", list(commands_below(INNET, ("innet",))))
def test_the_reference_names_every_command(name: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert name in page or (name.startswith("innet tell ") and name.split()[-1] in page)


@pytest.mark.parametrize("text", sorted(set(examples(INNET))))
def test_an_example_in_a_help_text_can_be_parsed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = CommandLine("help", 0, text, in_block=True)
    for words in line.simple_commands():
        if words[0] == "innet":
            parse(words)
