"""What the controller says to nodes: asked on their control sockets, or told in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from innet.errors import ControlError, NoAnswer
from innet.node.control.client import ControlClient

ConnectToNode = Callable[[str], ControlClient]
"""Opens a connection to the control socket of a node, by its name."""

Message = tuple[str, Mapping[str, Any]]
"""A method and its parameters."""

_TELL_TIMEOUT_S = 2.0
_THREADS = 8
"""Nodes that are told something at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Letter:
    """Messages for a node that are said together."""

    messages: Sequence[Message]
    given_up_s: float
    """When nobody tries any more to say them to a node that does not answer."""
    heard: Future[bool] = field(default_factory=Future)


class Messenger:
    """Asks nodes and waits for the answer, or tells them in the background.

    What one node is told in the background, it hears in the order in which it was told.
    """

    def __init__(self, connect: ConnectToNode) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(_THREADS, "controller-messenger")
        self._lock = threading.Lock()
        self._letters: dict[str, deque[_Letter]] = {}
        """Of the nodes that a thread is telling something, what they are to hear next."""

    def ask(self, node: str, method: str, **parameters: Any) -> Any:
        """The node's answer.

        Raises:
            ControlError: it does not answer, or refuses.
        """
        with self._connect(node) as client:
            return client.ask(method, **parameters)

    def ask_all(self, messages: Mapping[str, Sequence[Message]]) -> None:
        """Say to each node what is meant for it, in order, and wait until all have heard.

        One that does not answer soon is left to what becomes of it.
        """
        wait([self.post(node, said) for node, said in messages.items()])

    def ask_each(self, nodes: Iterable[str], method: str) -> dict[str, Any]:
        """The answers of those of ``nodes`` that answer soon."""
        asked = {node: self._threads.submit(self._answer, node, method) for node in nodes}
        answers = {node: answer.result() for node, answer in asked.items()}
        return {node: answer for node, answer in answers.items() if answer is not None}

    def tell(self, nodes: Iterable[str], method: str, **parameters: Any) -> None:
        """Say something to each of ``nodes``: nobody waits for one that is busy or gone."""
        for node in nodes:
            self.post(node, [(method, parameters)])

    def post(self, node: str, messages: Sequence[Message]) -> Future[bool]:
        """Say something to a node in the background; whether it has heard all of it."""
        letter = _Letter(messages, time.monotonic() + _TELL_TIMEOUT_S)
        with self._lock:
            waiting = self._letters.get(node)
            if waiting is not None:
                waiting.append(letter)
                return letter.heard
            self._letters[node] = deque([letter])
        self._threads.submit(self._deliver, node)
        return letter.heard

    def wait(self) -> None:
        """Until everything told so far has been heard, or given up."""
        with self._lock:
            last = [letters[-1].heard for letters in self._letters.values()]
        wait(last)

    def close(self) -> None:
        """Wait for what is under way, and end the threads."""
        self._threads.shutdown()

    def _answer(self, node: str, method: str) -> Any:
        with self._connect(node) as client:
            try:
                return client.ask(method, timeout_s=_TELL_TIMEOUT_S)
            except ControlError as error:
                _log.info("%s answers no %s: %s", node, method, error)
                return None

    def _deliver(self, node: str) -> None:
        """Say what is waiting for ``node``, until nothing is."""
        answers = True
        while True:
            with self._lock:
                letter = self._letters[node][0]
            heard = False
            try:
                if answers or time.monotonic() < letter.given_up_s:
                    errors = self._say(node, letter.messages)
                    answers = not isinstance(errors[-1], NoAnswer)
                    heard = not any(errors)
            except Exception:  # what comes next is to be said all the same
                _log.exception("%s could not be told something", node)
            letter.heard.set_result(heard)
            with self._lock:
                letters = self._letters[node]
                letters.popleft()
                if not letters:
                    del self._letters[node]
                    return

    def _say(self, node: str, messages: Sequence[Message]) -> list[ControlError | None]:
        """What came of each message."""
        errors: list[ControlError | None] = []
        with self._connect(node) as client:
            for method, parameters in messages:
                try:
                    client.ask(method, timeout_s=_TELL_TIMEOUT_S, **parameters)
                    errors.append(None)
                except ControlError as error:
                    _log.info("%s heard no %s: %s", node, method, error)
                    errors.append(error)
        return errors
