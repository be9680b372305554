"""Handlers of prefixes, and the answers to Interests. Sans-IO except for awaiting a handler."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from innet.names import Name
from innet.ndn.wire import ReceivedInterest
from innet.tlv_numbers import NackReason


@dataclass(frozen=True)
class Refusal:
    """A handler's answer to an Interest that it will not serve: sent as a Nack."""

    reason: int = NackReason.NO_ROUTE


Answer = bytes | Refusal | None
"""A Data packet (see :func:`innet.ndn.wire.encode_data`), a refusal, or silence."""
Handler = Callable[[ReceivedInterest], Answer | Awaitable[Answer]]

_log = logging.getLogger(__name__)


class Producers:
    """Handlers by prefix; the longest one that fits an Interest serves it."""

    def __init__(self) -> None:
        self._handlers: dict[Name, Handler] = {}

    def add(self, prefix: Name, handler: Handler) -> None:
        """Let ``handler`` answer Interests below ``prefix``, in place of an earlier one."""
        self._handlers[prefix] = handler

    def remove(self, prefix: Name) -> None:
        """Stop answering Interests below ``prefix``."""
        self._handlers.pop(prefix, None)

    def get(self, prefix: Name) -> Handler | None:
        """The handler of exactly this prefix."""
        return self._handlers.get(prefix)

    def handler_of(self, name: Name) -> Handler | None:
        """The handler that serves ``name``."""
        for length in range(len(name), -1, -1):
            if handler := self._handlers.get(name.prefix(length)):
                return handler
        return None


def answer_of(handler: Handler, interest: ReceivedInterest) -> Answer | Awaitable[Answer]:
    """The answer of ``handler``, or an awaitable of it; ``None``, and a log line, if it fails."""
    try:
        answer = handler(interest)
    except Exception:
        _log.exception("the producer of %s failed", interest.name)
        return None
    return _awaited(answer, interest) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Awaitable[Answer], interest: ReceivedInterest) -> Answer:
    try:
        return await answer
    except Exception:
        _log.exception("the producer of %s failed", interest.name)
        return None
