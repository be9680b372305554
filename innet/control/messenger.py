"""What the controller says to nodes: asked on their control sockets, or told in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from innet.control.client import ControlClient
from innet.errors import ControlError

ConnectToNode = Callable[[str], ControlClient]
"""Opens a connection to the control socket of a node, by its name."""

Message = tuple[str, Mapping[str, Any]]
"""A method and its parameters."""

_TELL_TIMEOUT_S = 2.0
_THREADS = 8
"""Nodes that are told something at once."""

_log = logging.getLogger(__name__)


class Messenger:
    """Asks nodes and waits for the answer, or tells them in the background."""

    def __init__(self, connect: ConnectToNode) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(_THREADS, "controller-messenger")
        self._under_way: set[Future[None]] = set()

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
        wait([self._threads.submit(self._say, node, said) for node, said in messages.items()])

    def ask_each(self, nodes: Iterable[str], method: str) -> dict[str, Any]:
        """The answers of those of ``nodes`` that answer soon."""
        asked = {node: self._threads.submit(self._answer, node, method) for node in nodes}
        answers = {node: answer.result() for node, answer in asked.items()}
        return {node: answer for node, answer in answers.items() if answer is not None}

    def tell(self, nodes: Iterable[str], method: str, **parameters: Any) -> None:
        """Say something to each of ``nodes``: nobody waits for one that is busy or gone."""
        for node in nodes:
            sent = self._threads.submit(self._say, node, [(method, parameters)])
            self._under_way.add(sent)
            sent.add_done_callback(self._under_way.discard)

    def wait(self) -> None:
        """Until everything told so far has been heard, or given up."""
        wait(set(self._under_way))

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

    def _say(self, node: str, messages: Sequence[Message]) -> None:
        with self._connect(node) as client:
            for method, parameters in messages:
                try:
                    client.ask(method, timeout_s=_TELL_TIMEOUT_S, **parameters)
                except ControlError as error:
                    _log.info("%s heard no %s: %s", node, method, error)
