"""One JSON document per log record, on a line of its own.

::

    {"time": "2026-11-21T08:00:14.123456Z", "level": "info", "logger": "innet.events", "node": "s0",
     "run": "lab", "event": "rules_installed", "message": "7 rules of /j1/g0.inc on s0"}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_OF_RECORD = ("job", "operation", "event")
"""Taken from a record's ``extra`` where it has them."""


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
    return json.dumps(document, ensure_ascii=False, default=str)


class JsonLinesFormatter(logging.Formatter):
    """Formats records as :func:`json_line` does."""

    def __init__(self, context: Mapping[str, str]) -> None:
        """``context`` is in every record: ``node``, ``run`` …"""
        super().__init__()
        self._context = dict(context)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, without its end."""
        fields: dict[str, Any] = dict(self._context)
        fields.update({name: getattr(record, name, fields.get(name)) for name in _OF_RECORD})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        level = record.levelname.lower()
        return json_line(record.created, level, record.name, record.getMessage(), **fields)
