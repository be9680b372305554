"""Asks nodes for a sign of life, again and again: a hung process does not say that it hangs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from innet.errors import ControlError
from innet.node.control.client import ControlClient
from innet.node.control.messenger import ConnectToNode

_MAX_THREADS = 512
"""Nodes that are asked at once. Threads come only as needed; a silent node holds one for long, and
with fewer threads than silent nodes the others would not be asked meanwhile."""

_log = logging.getLogger(__name__)

_Asked = tuple[int, Future[dict[str, Any] | None]]
"""An incarnation of a node, and what it will have answered; ``None`` when nothing."""


class Heartbeats:
    """Watches some nodes from a thread of its own.

    An error in what is called is logged, and the watch goes on: the same is told again next time.

    Args:
        nodes: tells the names of those to ask now, and which incarnation of each that is: one that
            is gone has nothing to answer, and says nothing of the next.
        connect: opens a connection to the control socket of one.
        interval_s: how often they are asked.
        timeout_s: how long they may take to answer.
        on_silent: called with a node that has stopped to answer; again when it takes as long once
            more, if the result is true.
        on_heard: called with a node that answers again.
        on_answer: called with each node that has answered, and what it said.
        on_round: called when all have answered, or ``interval_s`` later, with who has not yet.
    """

    def __init__(
        self,
        nodes: Callable[[], Mapping[str, int]],
        connect: ConnectToNode,
        interval_s: float,
        timeout_s: float,
        on_silent: Callable[[str], object],
        on_heard: Callable[[str], None],
        on_answer: Callable[[str, dict[str, Any]], None],
        on_round: Callable[[Collection[str]], None],
    ) -> None:
        self._nodes = nodes
        self._connect = connect
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._on_silent = on_silent
        self._on_heard = on_heard
        self._on_answer = on_answer
        self._on_round = on_round
        self._clients: dict[str, ControlClient] = {}
        self._silent: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeats", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        for client in self._clients.values():
            client.close()

    def _watch(self) -> None:
        asked: dict[str, _Asked] = {}
        with ThreadPoolExecutor(_MAX_THREADS, "heartbeat") as threads:
            while not self._stop.wait(self._interval_s):
                with _logged("a round of asking nodes for signs of life"):
                    self._round(asked, threads)

    def _round(self, asked: dict[str, _Asked], threads: ThreadPoolExecutor) -> None:
        for node, incarnation in self._nodes().items():
            if node in asked:
                continue
            if node not in self._clients:
                self._clients[node] = self._connect(node)
            asked[node] = incarnation, threads.submit(self._answer, node, incarnation)
        wait([answer for _, answer in asked.values()], timeout=self._interval_s)
        if self._stop.is_set():
            return
        for node in [node for node, (_, answer) in asked.items() if answer.done()]:
            with _logged(f"what {node} answered, or did not,"):
                incarnation, answer = asked.pop(node)
                if not self._is_gone(node, incarnation):
                    self._note(node, answer.result())
        self._on_round(set(asked))

    def _answer(self, node: str, incarnation: int) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = self._clients[node].ask(
                "ping",
                self._timeout_s,
                lambda: self._stop.is_set() or self._is_gone(node, incarnation),
            )
        except ControlError:
            return None
        return answer

    def _is_gone(self, node: str, incarnation: int) -> bool:
        return self._nodes().get(node) != incarnation

    def _note(self, node: str, answer: dict[str, Any] | None) -> None:
        if answer is None:
            if node not in self._silent and not self._on_silent(node):
                self._silent.add(node)
            return
        if node in self._silent:
            self._on_heard(node)
            self._silent.discard(node)
        self._on_answer(node, answer)


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Errors end nothing but ``what``: else nothing would be watched from then on."""
    try:
        yield
    except Exception:
        _log.exception("%s met with an error; the controller asks on", what)
