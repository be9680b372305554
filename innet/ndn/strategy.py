"""Forwarding strategies written in Python, for the names below a prefix.

::

    class InTurn(Strategy):
        def __init__(self) -> None:
            self.turn = 0

        def after_receive_interest(self, interest: PendingInterest) -> Decision:
            self.turn += 1
            hops = interest.next_hops
            return [hops[self.turn % len(hops)].face] if hops else Refuse()

    StrategyRunner(node, "/video", InTurn()).start()

This is the slow path: an Interest waits for the decision, which is made in a thread of the
interpreter (docs/strategies.md has figures). The node never waits: other names go on, and
best-route decides in place of a strategy that is late, has too much to do, or raises an exception.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Sequence
from typing import NamedTuple

from innet._native import _core
from innet.errors import StrategyError
from innet.names import with_component
from innet.tlv_numbers import NackReason

DEFAULT_PATIENCE_S = 0.05
_NAMES = "/localhost/nfd/strategy/python"
_log = logging.getLogger(__name__)


class NextHop(NamedTuple):
    """A way towards a name.

    Attributes:
        face: number of the face.
        cost: of the route.
    """

    face: int
    cost: int


class PendingInterest(NamedTuple):
    """An Interest to forward.

    Attributes:
        name: URI of its name.
        face: the face that it arrived on.
        repeated: whether it was sent upstream before.
        next_hops: faces it may be sent to, the cheapest first.
    """

    name: str
    face: int
    repeated: bool
    next_hops: list[NextHop]


class Refuse(NamedTuple):
    """The decision to send a Nack downstream."""

    reason: int = NackReason.NO_ROUTE


Decision = Sequence[int] | Refuse
"""Faces to send the Interest to, in this order, or a refusal."""


class Strategy:
    """Callbacks of a strategy, in the order of the events, on one thread.

    The node forwards Data to the requesters by itself: the callbacks about answers are for the
    strategy's own measurements.
    """

    def after_receive_interest(self, interest: PendingInterest) -> Decision:
        """The faces to forward to. Best-route's choice, unless this is overridden."""
        return [hop.face for hop in interest.next_hops[:1]]

    def before_satisfy_interest(self, name: str, face: int, rtt_s: float | None) -> None:
        """``face`` has answered; the time is ``None`` if the Interest was sent more than once."""

    def after_receive_nack(self, name: str, face: int, reason: int) -> None:
        """``face`` has refused. When all have, ``after_receive_interest`` is called again."""

    def after_interest_timeout(self, name: str, face: int) -> None:
        """``face`` has not answered for the lifetime of the Interest."""


class _Event(NamedTuple):
    """A report of a node: an Interest that awaits a decision, or the outcome of one."""

    kind: int
    question: int
    name: str
    face: int
    repeated: bool
    next_hops: list[tuple[int, int]]
    rtt_s: float | None
    reason: int


class StrategyRunner:
    """Runs a strategy for the names below ``prefix``, in a thread.

    Args:
        node: running.
        patience_s: after which best-route decides.
        label: what management calls the strategy; its class by default.

    Attributes:
        failures: exceptions that the strategy has raised.
    """

    def __init__(
        self,
        node: _core.NodeHandle,
        prefix: str,
        strategy: Strategy,
        *,
        patience_s: float = DEFAULT_PATIENCE_S,
        label: str | None = None,
    ) -> None:
        self.failures = 0
        self._node = node
        self._prefix = prefix
        self._strategy = strategy
        self._patience_s = patience_s
        cls = type(strategy)
        self._label = label or f"{cls.__module__}:{cls.__qualname__}"
        self._events: _core.StrategyEvents | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Decide from now on.

        Raises:
            ValueError: the prefix is malformed.
            RuntimeError: the node does not run.
        """
        name = str(with_component(_NAMES, self._label.encode()))
        self._events = self._node.open_strategy(self._prefix, name, self._patience_s)
        self._thread = threading.Thread(
            target=self._run, args=(self._events,), name="innet-strategy", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let the node's own strategies decide again, if it runs."""
        if self._events is None or self._thread is None:
            return
        self._events.close()
        self._thread.join()
        try:
            self._node.unset_strategy(self._prefix)
        except RuntimeError:
            _log.debug("the node has ended before the strategy for %s", self._prefix)

    def _run(self, events: _core.StrategyEvents) -> None:
        while (taken := events.take()) is not None:
            for event in taken:
                self._on_event(_Event(*event))

    def _on_event(self, event: _Event) -> None:
        try:
            if event.kind == _core.STRATEGY_DATA:
                self._strategy.before_satisfy_interest(event.name, event.face, event.rtt_s)
            elif event.kind == _core.STRATEGY_NACK:
                self._strategy.after_receive_nack(event.name, event.face, event.reason)
            elif event.kind == _core.STRATEGY_TIMEOUT:
                self._strategy.after_interest_timeout(event.name, event.face)
            else:
                hops = [NextHop(*hop) for hop in event.next_hops]
                interest = PendingInterest(event.name, event.face, event.repeated, hops)
                self._decide(event.question, interest)
        except Exception:
            self.failures += 1
            _log.exception(
                "the strategy for %s (%s) failed at %s", self._prefix, self._label, event.name
            )
            if event.kind == _core.STRATEGY_INTEREST:
                self._node.fail_to_decide(event.question)

    def _decide(self, question: int, interest: PendingInterest) -> None:
        decision = self._strategy.after_receive_interest(interest)
        if isinstance(decision, Refuse):
            self._node.decide_to_refuse(question, decision.reason)
        else:
            self._node.decide_to_ask(question, list(decision))


def load_strategy(place: str) -> Strategy:
    """The strategy at ``module:Class``, made without arguments.

    Raises:
        StrategyError: it cannot be loaded; the message says why.
    """
    module_name, _, class_name = place.partition(":")
    try:
        made = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        raise StrategyError(
            f"no strategy at {place!r} ({type(error).__name__}: {error}); give module:Class of a "
            "module that can be imported from here, whose class takes no arguments"
        ) from error
    if not isinstance(made, Strategy):
        raise StrategyError(
            f"{place!r} is a {type(made).__name__}; a strategy is a subclass of "
            "innet.ndn.strategy.Strategy"
        )
    return made
