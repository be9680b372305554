"""How a training begins as one of several ranks, or is refused."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

_EXIT_USAGE = 2


def ranks_of_job(program: str, other_launchers: str = "") -> int:
    """How many ranks the launcher has started; ends the process where there is no launcher.

    Args:
        program: in ``apps/``, for the message.
        other_launchers: what starts it besides ``innet run``, for the message.
    """
    if "RANK" not in os.environ:
        _end(
            program,
            f"there are no ranks. Start it with innet run star8 -- python apps/{program}"
            f"{other_launchers}",
        )
    return int(os.environ["WORLD_SIZE"])


def refuse(program: str, why: str) -> NoReturn:
    """End this rank because of its command line, which all ranks have."""
    # All ranks find the same; one says it, and is the one that the launcher reports.
    if os.environ.get("RANK", "0") != "0":
        sys.exit()
    _end(program, why)


def unusable_output(path: Path | None) -> str | None:
    """Why no record can be saved there, to be said before the training instead of after it."""
    if path is None:
        return None
    if path.is_dir():
        return f"--output {path} is a directory: give a file, such as {path / 'training.json'}"
    if path.suffix != ".json":
        return f"--output {path}: end it in .json; the plot is saved beside it as .png"
    return None


def options_of(arguments: argparse.Namespace) -> dict[str, str | int | float | None]:
    """The command line as it stands in a record in JSON."""
    return {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(arguments).items()
    }


def _end(program: str, why: str) -> NoReturn:
    print(f"{program}: {why}", file=sys.stderr)
    sys.exit(_EXIT_USAGE)
