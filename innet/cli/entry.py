"""The ``innet`` program: prints its version and the list of commands without loading typer."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run ``innet`` with the arguments of this process."""
    match sys.argv[1:]:
        case ["--version"] if not _is_completing():
            import innet

            print(f"innet {innet.__version__}")
        case ["-h" | "--help"] if not _is_completing():
            from innet.cli.root_help import print_root_help

            print_root_help()
        case _:
            from innet.cli.main import app

            app(prog_name="innet")


def _is_completing() -> bool:
    """Whether a shell asks for completion; it puts the typed words into other variables."""
    return "_INNET_COMPLETE" in os.environ
