"""One version everywhere: metadata, package, compiled module and command line."""

from __future__ import annotations

from importlib.metadata import version

from typer.testing import CliRunner

import innet
from innet._native import _core
from innet.cli.main import app


def test_compiled_module_belongs_to_the_installed_package() -> None:
    assert _core.__version__ == innet.__version__ == version("innet")


def test_command_line_prints_the_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"innet {innet.__version__}"
