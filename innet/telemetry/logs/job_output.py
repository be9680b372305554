"""What the processes of a run print, as JSON lines."""

from __future__ import annotations

import json
import time

from innet.telemetry.logs.json_lines import json_line
from innet.telemetry.logs.output import LAUNCHER_LABEL, ConsoleOutput

_LOGGER = "output"
_LAUNCHER = "launcher"


class JsonLinesOutput(ConsoleOutput):
    """Prints every line as a record: those that are one already as they are, others in one.

    Example::

        {"time": "...", "level": "info", "logger": "output", "node": "h3", "message": "loss 0.48"}
    """

    def _print(self, label: str, line: str) -> None:
        if not _is_record(line):
            node = _LAUNCHER if label == LAUNCHER_LABEL else label
            line = json_line(time.time(), "info", _LOGGER, line, node=node)
        self._console.file.write(f"{line}\n")
        self._console.file.flush()


def _is_record(line: str) -> bool:
    if not line.startswith('{"time": '):
        return False
    try:
        return "level" in json.loads(line)
    except ValueError:
        return False
