"""One JSON document per log record, on a line of its own.

::

    {"time": "2026-11-21T08:00:14.123456Z", "level": "info", "logger": "innet.events", "node": "s0",
     "run": "lab", "job": "j1", "event": "rules_installed", "message": "7 rules of /j1/g0 on s0"}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from innet.printable import printable

FIELDS = ("job", "group", "operation", "seq", "event")
"""What a record concerns, from its ``extra`` where it has them."""
_OF_ERROR = ("operation", "seq")
"""From the exception of a record that does not say itself (see ``CollectiveError``)."""


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
