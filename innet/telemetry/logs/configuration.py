"""Where the log records of innet go in a process."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

from innet.printable import printable
from innet.settings import LogSettings
from innet.telemetry.logs.json_lines import JsonLinesFormatter

_LOGGER = "innet"
_TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class LogContext:
    """Whose records these are; what is empty is left out."""

    node: str
    run: str = ""
    job: str = ""
    rank: int | None = None


class _TextFormatter(logging.Formatter):
    """A record as text; what it quotes of peers cannot control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        return printable(super().format(record))


def configure_logs(
    settings: LogSettings, context: LogContext, *, is_users_program: bool = False
) -> None:
    """Send innet's records to stderr, as the settings say; called again, it replaces the last call.

    Args:
        settings: format and lowest level.
        context: of every record.
        is_users_program: a worker, which may have logging of its own: records of text then go there
            alone, as from any library. JSON lines are what the run's owner asked for, and stay.
    """
    handler = logging.StreamHandler()
    handler.setLevel(settings.level.upper())
    logger = logging.getLogger(_LOGGER)
    for previous in [known for known in logger.handlers if known.get_name() == _LOGGER]:
        logger.removeHandler(previous)
    handler.set_name(_LOGGER)
    if settings.format == "json":
        handler.setFormatter(JsonLinesFormatter(asdict(context)))
    else:
        handler.setFormatter(_TextFormatter(_TEXT_FORMAT))
        if is_users_program:
            handler.addFilter(lambda _record: not logging.getLogger().handlers)
    logger.addHandler(handler)
    logger.setLevel(settings.level.upper())
    logger.propagate = settings.format == "text" and is_users_program
