"""The progress of an experiment, as a bar or as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PRINT_STEP = 0.1

ProgressSink = Callable[[float, str], None]
"""Takes the completed fraction, 0 to 1, and the present activity."""


def no_progress(_fraction: float, _text: str) -> None:
    """A sink that shows nothing."""


class ProgressBar:
    """A sink that shows a bar; without a terminal, it prints a line for each tenth.

    Example::

        with ProgressBar(Console(stderr=True)) as progress:
            comparison = await compare(topology, progress=progress)
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self._bar.add_task("starting", total=1.0)
        self._printed = -_PRINT_STEP

    def __call__(self, fraction: float, text: str) -> None:
        self._bar.update(self._task, completed=fraction, description=text)
        if not self._console.is_terminal and fraction >= self._printed + _PRINT_STEP:
            self._console.print(
                f"{fraction:4.0%}  {text}", markup=False, highlight=False, soft_wrap=True
            )
            self._printed = fraction

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
