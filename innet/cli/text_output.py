"""Output of commands to terminals and files, with control characters of peers escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from innet.errors import FileError
from innet.output_files import write_output
from innet.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, nl: bool = True, err: bool = False, bold: bool = False) -> None:
    """Print ``text``, which may quote remote peers."""
    shown = printable(text)
    typer.echo(typer.style(shown, bold=True) if bold else shown, nl=nl, err=err)


def open_console(
    *, stderr: bool = False, highlight: bool = True, file_width: int | None = None
) -> Console:
    """A console of rich's that escapes control characters in whatever it prints.

    Args:
        highlight: colours numbers and the like.
        file_width: columns where the output is no terminal and COLUMNS is not set; 80 by default.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PrintableConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            return _printable_segments(super().render(renderable, options))

    def _printable_segments(segments: Iterable[Segment]) -> Iterator[Segment]:
        for segment in segments:
            if segment.control:
                yield segment  # rich's own
            else:
                yield Segment(printable(segment.text), segment.style)

    console = PrintableConsole(stderr=stderr, highlight=highlight)
    if file_width is not None and not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = file_width
    return console


def write_text(text: str, output: Path | None) -> None:
    """Write ``text`` to ``output``; to the terminal when there is none."""
    if output is None:
        say(text, nl=False)
        return
    try:
        write_output(output, text)
    except OSError as error:
        raise FileError(f"cannot be written: {error.strerror}", path=output) from error
