"""Decides which workers that do not answer the controller are stopped, and which are busy."""

from __future__ import annotations

import logging
from collections.abc import Callable

from innet.settings import RecoverySettings
from innet.telemetry.events import report

_log = logging.getLogger(__name__)


class SilentWorkers:
    """Ends workers whose process is dead or stopped, and leaves busy ones alone.

    A worker answers with Python, and so not while a call into a library holds the interpreter. Its
    node is a native thread, which says hello to its neighbours all the same: who is heard lives.
    """

    def __init__(
        self,
        settings: RecoverySettings,
        is_heard: Callable[[str], bool],
        expel: Callable[[str, str], None],
    ) -> None:
        """
        Args:
            settings: how long silence may last.
            is_heard: tells whether a neighbour hears a worker's node.
            expel: ends a node's process, given why.
        """
        self._settings = settings
        self._is_heard = is_heard
        self._expel = expel
        self._silent_s: dict[str, float] = {}
        self._busy: set[str] = set()

    @property
    def patience_s(self) -> float:
        """How long an answer may take before :meth:`on_silent` is called."""
        return min(self._settings.worker_timeout_s, self._settings.interpreter_timeout_s)

    def on_silent(self, node: str) -> bool:
        """``node`` has not answered for :attr:`patience_s` more; whether to call again if so."""
        settings = self._settings
        self._silent_s[node] = silent_s = self._silent_s.get(node, 0.0) + self.patience_s
        if not self._is_heard(node):
            if silent_s >= settings.worker_timeout_s:
                self._expel(
                    node,
                    f"has not answered for {settings.worker_timeout_s:g} s "
                    "(recovery.worker_timeout_s): its process is stopped, or cut off",
                )
        elif silent_s >= settings.interpreter_timeout_s:
            self._expel(
                node,
                f"has not answered for {settings.interpreter_timeout_s:g} s "
                "(recovery.interpreter_timeout_s): a call holds Python's interpreter",
            )
        elif node not in self._busy and silent_s > settings.link_timeout_s:
            self._tell_busy(node, silent_s)
        return True

    def on_answer(self, node: str) -> None:
        """``node`` has answered."""
        self._silent_s.pop(node, None)
        self._busy.discard(node)

    def _tell_busy(self, node: str, silent_s: float) -> None:
        self._busy.add(node)
        what = (
            f"{node} has not answered for {silent_s:g} s, but its node is alive: a call holds "
            "Python's interpreter. It is left alone, unless recovery.interpreter_timeout_s is set"
        )
        _log.warning(what)
        report("worker_busy", what, node=node)
