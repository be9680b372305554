"""Asks nodes for a sign of life, again and again: a hung process does not say that it hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from innet.control.client import ControlClient
from innet.control.messenger import ConnectToNode
from innet.errors import ControlError

_THREADS = 16
"""Nodes that are asked at once."""


class Heartbeats:
    """Watches some nodes from a thread of its own.

    Args:
        nodes: tells the names of those to ask now.
        connect: opens a connection to the control socket of one.
        interval_s: how often they are asked.
        timeout_s: how long they may take to answer.
        on_silent: called with a node that has stopped to answer.
        on_heard: called with a node that answers again.
    """

    def __init__(
        self,
        nodes: Callable[[], Sequence[str]],
        connect: ConnectToNode,
        interval_s: float,
        timeout_s: float,
        on_silent: Callable[[str], None],
        on_heard: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._connect = connect
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._on_silent = on_silent
        self._on_heard = on_heard
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
        with ThreadPoolExecutor(_THREADS, "heartbeat") as threads:
            while not self._stop.wait(self._interval_s):
                nodes = list(self._nodes())
                for node in set(nodes) - set(self._clients):
                    self._clients[node] = self._connect(node)
                answers = list(threads.map(self._answers, nodes))
                for node, answered in zip(nodes, answers, strict=True):
                    self._note(node, answered)

    def _answers(self, node: str) -> bool:
        try:
            self._clients[node].ask("ping", self._timeout_s, self._stop.is_set)
        except ControlError:
            return False
        return True

    def _note(self, node: str, answered: bool) -> None:
        if self._stop.is_set() or answered == (node not in self._silent):
            return
        if answered:
            self._silent.discard(node)
            self._on_heard(node)
        else:
            self._silent.add(node)
            self._on_silent(node)
