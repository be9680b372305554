"""What a command that holds a network tells its user."""

from __future__ import annotations

from rich.console import Console

from innet.telemetry.logs.job_output import JsonLinesOutput
from innet.telemetry.logs.output import LAUNCHER_LABEL, ConsoleOutput


class Announcer:
    """Tells whoever launched the network: as text, or as records where its output has such."""

    def __init__(self, console: Console, output: ConsoleOutput) -> None:
        self._console = console
        self._output = output
        self._as_records = isinstance(output, JsonLinesOutput)

    @property
    def to_terminal(self) -> Console | None:
        """A terminal that shows text, if the output is one."""
        return self._console if self._console.is_terminal and not self._as_records else None

    def __call__(self, text: str) -> None:
        if self._as_records:
            for line in text.splitlines():
                self._output(LAUNCHER_LABEL, line.strip())
        else:
            self._console.print(text, markup=False, soft_wrap=True)
