"""What a command writes for people to keep: to a file, or to the terminal."""

from __future__ import annotations

from pathlib import Path

import typer

from innet.errors import SecurityError


def write_text(text: str, output: Path | None) -> None:
    """Write ``text`` to ``output``; to the terminal when there is none.

    Raises:
        SecurityError: the file cannot be written.
    """
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise SecurityError(f"cannot write {output}: {error.strerror}") from error
