"""One version everywhere: metadata, package, compiled module and command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
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
    assert result.output.splitlines()[0] == f"innet {innet.__version__}"


def test_the_version_as_json_says_how_it_was_built() -> None:
    facts = json.loads(innet_command("--version", "--json"))
    assert facts["version"] == innet.__version__
    assert re.fullmatch(r"[0-9a-f]{12}(\+changes)?|unknown", facts["commit"])
    assert facts["compiler"].startswith(("GCC", "Clang"))
    assert facts["kernels"] in {"x86-64-v4", "x86-64-v3", "baseline"}
    assert facts["openssl"].startswith("OpenSSL 3")
    assert facts["gmac"].startswith(("ipsec-mb", "OpenSSL"))
    assert facts["sha256"].startswith(("ipsec-mb", "OpenSSL"))
    assert facts["ed25519"].startswith(("libsodium", "OpenSSL"))
    shown = innet_command("--version")
    assert all(fact in shown for fact in facts.values())


def innet_command(*arguments: str) -> str:
    """What ``innet`` prints."""
    command = [sys.executable, "-m", "innet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
