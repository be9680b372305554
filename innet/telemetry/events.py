"""What happens in this process, for whoever publishes it.

Whoever notices something calls :func:`report`: it logs, and hands the event to the process's
publisher if there is one. It never waits and never fails.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from innet.telemetry.logs.json_lines import FIELDS
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
# A forked child has none of the threads that publish, and its end is none of the node's.
os.register_at_fork(after_in_child=_listeners.clear)


def report(kind: EventKind, message: str, **details: JsonValue) -> None:
    """Tell of something that happened.

    Args:
        kind: which kind of thing.
        message: a sentence for people.
        details: what programs may want to know of it. What says whom it concerns (see
            :data:`innet.telemetry.logs.json_lines.FIELDS`) goes into the log record, too.

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
