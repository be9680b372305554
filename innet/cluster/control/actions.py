"""The controller's actions, and its operations, which wait for nodes.

The controller itself opens no socket and reads no clock. Its driver
(:mod:`innet.cluster.control.driver`, the simulator, a test) takes these actions from it and carries
them out.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias, TypeVar

from pydantic import JsonValue

from innet.errors import ControlError
from innet.node.requests import EXPECTED_ERRORS
from innet.telemetry.messages import EventKind

_log = logging.getLogger(__name__)

Message: TypeAlias = tuple[str, Mapping[str, Any]]
"""A method of a node, and its parameters."""

SEND_TIMEOUT_S = 2.0
"""Timeout of messages whose loss is harmless: a node that missed one is updated when it returns."""
REQUEST_TIMEOUT_S = 10.0
"""Timeout of messages whose loss fails their request."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """A node's result of one message, or its error."""

    result: Any = None
    error: ControlError | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Send messages to a node, in order and after all earlier messages.

    The node may take ``timeout_s`` for all of them; :meth:`Controller.on_sent` takes the outcomes
    under ``number``.
    """

    node: str
    messages: Sequence[Message]
    timeout_s: float
    number: int


@dataclass(frozen=True, slots=True)
class PingNode:
    """Ping a node, independently of its messages; see :meth:`Controller.on_pong`."""

    node: str
    incarnation: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Respond:
    """Reply to a request, with a result or with an error."""

    request: Hashable
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch process ``pid`` of a node instead of an earlier one; see
    :meth:`Controller.on_process_ended`.

    Attributes:
        is_attached: another launcher started it, such as torchrun or Ray, and ends it.
    """

    node: str
    incarnation: int
    pid: int
    is_attached: bool = False


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Stop watching the process of a node."""

    node: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the watched process of a node, if there is one and this launcher's job started it."""

    node: str


@dataclass(frozen=True, slots=True)
class ReportEvent:
    """Report an event of the run, and log it."""

    kind: EventKind
    text: str
    fields: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Compute:
    """Call a function that may take seconds; :meth:`Controller.on_computed` takes its result.

    One function runs at a time. It changes no state, so it may run on a thread.
    """

    function: Callable[[], Any]


Action: TypeAlias = Send | PingNode | Respond | Watch | Unwatch | Kill | ReportEvent | Compute


@dataclass(frozen=True, slots=True)
class Deliver:
    """Wait until nodes have received messages, or have timed out."""

    messages: Mapping[str, Sequence[Message]]
    timeout_s: float = SEND_TIMEOUT_S


Outcomes: TypeAlias = Mapping[str, Sequence[MessageOutcome]]
"""The outcomes of messages, by node."""

_Result = TypeVar("_Result")
Operation: TypeAlias = Generator[Deliver, Outcomes, _Result]
"""A change of the controller's state that waits for nodes in between; no two overlap."""


def first_error(outcomes: Sequence[MessageOutcome]) -> ControlError | None:
    """Why one of a node's messages failed; ``None`` when none did."""
    return next((outcome.error for outcome in outcomes if outcome.error is not None), None)


class Outbox:
    """Collects the actions of one controller, in order."""

    def __init__(self) -> None:
        self._actions: deque[Action] = deque()
        self._numbers = count(1)
        self._on_sent: dict[int, Callable[[Sequence[MessageOutcome]], None]] = {}

    def put(self, action: Action) -> None:
        """Add an action."""
        self._actions.append(action)

    def tell(self, nodes: Iterable[str], method: str, **params: Any) -> None:
        """Send one message to each of ``nodes``, and ignore its outcome."""
        for node in nodes:
            self.send(node, [(method, params)])

    def send(
        self,
        node: str,
        messages: Sequence[Message],
        timeout_s: float = SEND_TIMEOUT_S,
        on_sent: Callable[[Sequence[MessageOutcome]], None] = lambda _outcomes: None,
    ) -> None:
        """Send messages to a node; ``on_sent`` takes their outcomes."""
        number = next(self._numbers)
        self._on_sent[number] = on_sent
        self._actions.append(Send(node, messages, timeout_s, number))

    def sent(self, number: int, outcomes: Sequence[MessageOutcome]) -> None:
        """Hand over the outcomes of a :class:`Send`."""
        self._on_sent.pop(number)(outcomes)

    def report(self, kind: EventKind, text: str, **fields: JsonValue) -> None:
        """Report an event of the run."""
        self._actions.append(ReportEvent(kind, text, fields))

    def take(self) -> list[Action]:
        """All actions since the last call."""
        actions = list(self._actions)
        self._actions.clear()
        return actions


Finish = Callable[[Any, Exception | None], None]
"""Takes the result of an operation, or the error that ended it."""


@dataclass(slots=True)
class _Running:
    """An operation, and the nodes that it still waits for."""

    operation: Operation[Any]
    finish: Finish
    awaited: set[str] = field(default_factory=set)
    outcomes: dict[str, Sequence[MessageOutcome]] = field(default_factory=dict)


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

            def on_sent(found: Sequence[MessageOutcome], node: str = node) -> None:
                running.outcomes[node] = found
                running.awaited.discard(node)

            self._outbox.send(node, messages, deliver.timeout_s, on_sent)


def _operation(call: Callable[[], Any]) -> Operation[Any]:
    """``call`` as an operation, whether it is one or returns at once."""
    result = call()
    if inspect.isgenerator(result):
        result = yield from result
    return result
