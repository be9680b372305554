"""The ``innet`` program: prints its version and the list of commands without loading typer."""

from __future__ import annotations

import gc
import os
import sys

from innet.cli.interrupts import EXIT_INTERRUPTED, exit_at_interrupt


def main() -> None:
    """Run ``innet`` with the arguments of this process."""
    # Imports create some 100,000 objects and no garbage; the usual 700 cost a fifth of the start.
    gc.set_threshold(50_000)
    exit_at_interrupt()
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _run(arguments: list[str]) -> None:
    match arguments:
        case ["--version"] if not _is_completing():
            from innet.cli.build_information import version_text

            print(version_text())
        case ["--version", "--json"] | ["--json", "--version"] if not _is_completing():
            from innet.cli.build_information import version_json

            print(version_json())
        case ["-h" | "--help"] if not _is_completing():
            from innet.cli.root_help import print_root_help

            print_root_help()
        case _:
            from innet.cli.main import app

            app(prog_name="innet")


def _is_completing() -> bool:
    """Whether a shell asks for completion; it puts the typed words into other variables."""
    return "_INNET_COMPLETE" in os.environ
