"""Help answers at once, shows examples, and fits the terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from innet.cli import commands
from innet.cli.command_table import COMMANDS as TABLE
from innet.cli.command_table import ROOT_OPTIONS, CommandEntry
from innet.cli.main import app
from innet.cli.options import seconds

COMMANDS = [
    ["demo"],
    ["run"],
    ["up"],
    ["status"],
    ["down"],
    ["settings"],
    ["doctor"],
    ["metrics"],
    ["watch"],
    ["tell"],
    ["capture"],
    ["dissect"],
    ["plan"],
    ["compare"],
    ["sim"],
    ["kv", "replay"],
    ["publish"],
    ["fetch"],
    ["peek"],
    ["ping"],
    ["keys", "new"],
    ["keys", "list"],
    ["keys", "issue"],
    ["keys", "revoke"],
    ["keys", "export"],
    ["keys", "import"],
    ["trust", "check"],
    ["trust", "explain"],
    ["topology", "list"],
    ["topology", "show"],
    ["topology", "validate"],
    ["topology", "export"],
    ["topology", "schema"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_each_command_shows_an_example_of_it(cli: CliRunner, command: list[str]) -> None:
    result = cli.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Examples" in result.output
    assert f"innet {' '.join(command)}" in result.output.split("Examples")[1]


@pytest.mark.parametrize("command", [[], ["topology"], *COMMANDS], ids=" ".join)
def test_help_fits_80_columns(cli: CliRunner, command: list[str]) -> None:
    result = cli.invoke(app, [*command, "--help"])
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_help_lists_every_command(cli: CliRunner) -> None:
    output = cli.invoke(app, ["--help"]).output
    for name in {command[0] for command in COMMANDS}:
        assert f" {name} " in output


def test_help_says_how_to_keep_a_broker_s_password_in_a_file(cli: CliRunner) -> None:
    assert "file:PATH" in cli.invoke(app, ["run", "--help"]).output


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from innet.cli.main import app\n"
        "app(['run', '--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'matplotlib', 'pyroute2', 'networkx', 'numpy', 'scapy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "innet", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("innet ")


def command_of(entry: CommandEntry) -> typer.core.TyperCommand:
    return typer.main.get_command(app).commands[entry.name]  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_the_list_of_commands_agrees_with_the_help_of_each_command(entry: CommandEntry) -> None:
    command = command_of(entry)
    assert command.help is not None
    assert entry.help == command.help.split("\n\n")[0].replace("\n", " ")
    assert entry.is_group == hasattr(command, "commands")


def test_every_command_is_listed() -> None:
    modules = {path.stem for path in Path(commands.__file__).parent.glob("*.py")} - {"__init__"}
    assert {entry.name for entry in TABLE} == modules


def test_the_list_of_options_is_complete() -> None:
    command = typer.main.get_command(app)
    options = command.get_params(typer.Context(command, help_option_names=["-h", "--help"]))
    shown = {(option.long, option.help, option.variable or None) for option in ROOT_OPTIONS}
    taken = {(max(o.opts, key=len), " ".join(o.help.split()), o.envvar) for o in options}  # type: ignore[attr-defined]
    assert shown == taken


@pytest.mark.parametrize("argument", ["--help", "-h", "--version"])
def test_the_fast_and_the_slow_path_print_the_same(cli: CliRunner, argument: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "innet", argument],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.stdout.rstrip() == cli.invoke(app, [argument]).stdout.rstrip()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("innet t", ["topology", "trust", "tell"]),
        ("innet topology s", ["show", "schema"]),
        ("innet run --al", ["--algorithm"]),
        ("innet plan star", ["star8"]),
        ("innet --version", ["--version"]),
    ],
)
def test_shells_complete_commands_options_and_names(words: str, expected: list[str]) -> None:
    asked = {"_INNET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "innet"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked},
    )
    assert set(expected) <= set(done.stdout.split())


def test_completing_commands_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from innet.cli.main import app\n"
        "try: app(prog_name='innet')\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('innet.cli.commands.')], file=sys.stderr)"
    )
    asked = {"_INNET_COMPLETE": "complete_bash", "COMP_WORDS": "innet t", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **asked},
    )
    assert (done.stderr.strip(), "tell" in done.stdout) == ("[]", True)


@pytest.mark.parametrize(
    ("command", "option", "default"),
    [
        ("fetch", "--patience", "8s"),
        ("publish", "--freshness", "10s"),
        ("peek", "--lifetime", "4s"),
        ("ping", "--interval", "1s"),
        ("ping", "--timeout", "4s"),
        ("forwarder", "--udp-idle", "10min"),
        ("capture", "--seconds", None),
    ],
)
def test_the_help_of_a_time_states_its_forms_and_its_default(
    command: str, option: str, default: str | None
) -> None:
    """The forms that it states are accepted, and the default is the one that is used."""
    group: Any = typer.main.get_command(app)
    found = group.get_command(None, command)
    (parameter,) = [each for each in found.params if option in each.opts]
    text: str = getattr(parameter, "help", "")
    forms = re.findall(r"\[cyan\](.*?)\[/\]", text)
    assert [seconds(0)(form) for form in forms] == [0.5, 2.0, 2.0, 60.0]
    if default is None:
        assert "Default" not in text
    else:
        assert text.endswith(f". Default: {default}")
        assert seconds(0)(default) == parameter.default
