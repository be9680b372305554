"""Structured logs of the processes of a run.

``output`` has the sinks of what processes print. A JSON record is one document on one line::

    {"time": "2026-11-21T08:00:14.123456Z", "level": "info", "logger": "innet.events", "node": "s0",
     "run": "lab", "job": "j1", "event": "rules_installed", "message": "7 rules of /j1/g0 on s0"}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from innet.printable import printable
from innet.settings import LogSettings

FIELDS = ("job", "group", "operation", "seq", "event")
"""Fields that a record takes from its ``extra``."""
_OF_ERROR = ("operation", "seq")
"""Fields that a record takes from its exception otherwise (see ``CollectiveError``)."""


def timestamp(time_s: float) -> str:
    """A Unix time as RFC 3339 writes it, in UTC, with microseconds.

    >>> timestamp(0.5)
    '1970-01-01T00:00:00.500000Z'
    """
    text = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def json_line(time_s: float, level: str, logger: str, message: str, **fields: object) -> str:
    """One record; fields without a value are left out, and no character breaks the line."""
    document = {
        "time": timestamp(time_s),
        "level": level,
        "logger": logger,
        **{name: value for name, value in fields.items() if value not in (None, "")},
        "message": message,
    }
    return printable(json.dumps(document, ensure_ascii=False, default=str))


class JsonLinesFormatter(logging.Formatter):
    """Formats records as :func:`json_line` does."""

    def __init__(self, context: Mapping[str, object]) -> None:
        """``context`` is in every record: ``node``, ``run`` …"""
        super().__init__()
        self._context = dict(context)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, without its end."""
        fields: dict[str, Any] = dict(self._context)
        if record.exc_info:
            error = record.exc_info[1]
            fields.update({name: getattr(error, name, None) for name in _OF_ERROR})
            fields["exception"] = self.formatException(record.exc_info)
        fields.update({name: getattr(record, name, fields.get(name)) for name in FIELDS})
        level = record.levelname.lower()
        return json_line(record.created, level, record.name, record.getMessage(), **fields)


_LOGGER = "innet"
_TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class LogContext:
    """The process of the records; empty fields are omitted."""

    node: str
    run: str = ""
    job: str = ""
    rank: int | None = None


class _TextFormatter(logging.Formatter):
    """A record as text, with control characters escaped: it may quote remote peers."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        return printable(super().format(record))


def configure_logs(
    settings: LogSettings, context: LogContext, *, is_users_program: bool = False
) -> None:
    """Send innet's records to stderr, as the settings say; a second call replaces the first.

    Args:
        settings: format and lowest level.
        context: of every record.
        is_users_program: a worker, which may configure logging itself: text records then go to its
            handlers only, as those of any library. JSON records still go to stderr.
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
