"""Operations of the controller: one runs at a time, also while it waits for nodes."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from innet.cluster.control.actions import Deliver, Operation, Outbox, Outcome, Outcomes
from innet.errors import ControlError
from innet.node.requests import EXPECTED_ERRORS

Finish = Callable[[Any, Exception | None], None]
"""Takes the result of an operation, or the error that ended it."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """An operation, and what it still waits for."""

    operation: Operation[Any]
    finish: Finish
    awaited: set[str] = field(default_factory=set)
    outcomes: dict[str, Sequence[Outcome]] = field(default_factory=dict)


def _log_error(_result: Any, error: Exception | None) -> None:
    if error is not None:
        _log.warning("the controller could not follow an event: %s", error)


class OperationQueue:
    """Runs operations one after the other, in the order of :meth:`add`."""

    def __init__(self, outbox: Outbox) -> None:
        """``outbox`` takes the messages that operations wait for."""
        self._outbox = outbox
        self._waiting: deque[_Running] = deque()
        self._running: _Running | None = None

    def add(self, call: Callable[[], Any], finish: Finish = _log_error) -> None:
        """Run ``call``, which returns a value or is an operation, once its turn has come."""
        self._waiting.append(_Running(_operation(call), finish))
        self.advance()

    def advance(self) -> None:
        """Run operations until one waits for nodes; call it after :meth:`Outbox.sent`."""
        while self._running is not None or self._waiting:
            if self._running is None:
                self._running = self._waiting.popleft()
                outcomes: Outcomes | None = None
            elif self._running.awaited:
                return
            else:
                outcomes, self._running.outcomes = self._running.outcomes, {}
            self._step(self._running, outcomes)

    def _step(self, running: _Running, outcomes: Outcomes | None) -> None:
        result, error = None, None
        try:
            deliver = (
                next(running.operation) if outcomes is None else running.operation.send(outcomes)
            )
        except StopIteration as end:
            result = end.value
        except EXPECTED_ERRORS as refusal:
            error = refusal
        except Exception as defect:
            _log.exception("the controller met with a defect, and goes on")
            error = ControlError(f"{type(defect).__name__}: {defect}")
        else:
            self._deliver(running, deliver)
            return
        self._running = None
        running.finish(result, error)

    def _deliver(self, running: _Running, deliver: Deliver) -> None:
        running.awaited = set(deliver.messages)
        for node, messages in deliver.messages.items():

            def on_sent(found: Sequence[Outcome], node: str = node) -> None:
                running.outcomes[node] = found
                running.awaited.discard(node)

            self._outbox.send(node, messages, deliver.timeout_s, on_sent)


def _operation(call: Callable[[], Any]) -> Operation[Any]:
    """``call`` as an operation, whether it is one or returns at once."""
    result = call()
    if inspect.isgenerator(result):
        result = yield from result
    return result
