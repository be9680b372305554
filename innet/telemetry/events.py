"""Events of this process: :func:`report` logs them and passes them to the listeners.

The process's publisher is such a listener. :func:`report` never waits and never fails.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from innet.telemetry.logs import FIELDS
from innet.telemetry.messages import EventKind

_log = logging.getLogger("innet.events")


@dataclass(frozen=True, slots=True)
class Happening:
    """An event before it is numbered and stamped."""

    kind: EventKind
    message: str
    details: dict[str, JsonValue] = field(default_factory=dict)


Listener = Callable[[Happening], None]

_listeners: list[Listener] = []
# A forked child has no thread that publishes, and its events are not the node's.
os.register_at_fork(after_in_child=_listeners.clear)


def report(kind: EventKind, message: str, **details: JsonValue) -> None:
    """Report an event.

    Args:
        message: a sentence for people.
        details: values for programs. Those in :data:`innet.telemetry.logs.FIELDS` are fields of
            the log record, too.

    Example::

        report("rules_installed", "7 rules of /j1/g0.inc", group="/j1/g0.inc", rules=7)
    """
    fields = {name: value for name, value in details.items() if name in FIELDS}
    _log.info("%s", message, extra={"event": kind, **fields})
    happening = Happening(kind, message, details)
    for listener in tuple(_listeners):
        listener(happening)


def listen(listener: Listener) -> None:
    """Call ``listener`` with each event, on the thread that reports it: it must not wait."""
    _listeners.append(listener)


def ignore(listener: Listener) -> None:
    """Undo :func:`listen`."""
    if listener in _listeners:
        _listeners.remove(listener)
