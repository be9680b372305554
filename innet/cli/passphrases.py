"""Passphrases, from a file or from the terminal: never from the command line, which others see."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from innet.errors import SecurityError

PassphraseFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Holds the passphrase; asked for at the terminal by default"),
]


def passphrase_for(what: str, file: Path | None, *, is_new: bool = False) -> str:
    """The passphrase for ``what``: the first line of ``file``, or what is typed.

    Raises:
        SecurityError: the file cannot be read, is empty, or there is nobody to ask.
    """
    if file is not None:
        return _from_file(file)
    if not sys.stdin.isatty():
        raise SecurityError(
            f"the passphrase for {what} is needed, and there is no terminal to ask at: "
            "--passphrase-file FILE"
        )
    typed: str = typer.prompt(
        f"Passphrase for {what}", hide_input=True, confirmation_prompt=is_new, err=True
    )
    return typed


def _from_file(path: Path) -> str:
    try:
        line = path.read_text().partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"cannot read the passphrase in {path}: {error}") from error
    if not line:
        raise SecurityError(f"the first line of {path} is empty; it is to be the passphrase")
    return line
