"""Help answers at once, shows examples, and fits the terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from innet.cli.main import app

COMMANDS = [
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
