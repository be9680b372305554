"""A worker's connection to the controller of its run, which may be away for a moment."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

from innet.errors import NoAnswer
from innet.node.control.controller_socket import ControllerClient

_ASK_AGAIN_S = 2.0
"""A controller that died does not say so: whoever waits asks its successor after this time."""

_log = logging.getLogger(__name__)


class ControllerConnection:
    """Asks until there is an answer; what a controller is asked may reach it twice."""

    def __init__(self, socket: Path, patience_s: float) -> None:
        """``patience_s``: how long to ask in vain, unless a call says otherwise."""
        self._client = ControllerClient(socket)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._is_away = False

    def ask(self, method: str, *, patience_s: float | None = None, **params: Any) -> Any:
        """The controller's answer to ``method``.

        Raises:
            NoAnswer: nobody has answered for ``patience_s``.
            ControlError: the answer is a refusal.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline_s = time.monotonic() + patience_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            try:
                answer = self._client.ask(method, timeout_s=min(_ASK_AGAIN_S, left_s), **params)
            except NoAnswer:
                if time.monotonic() >= deadline_s:
                    raise
                self._note_away(is_away=True)
            else:
                self._note_away(is_away=False)
                return answer

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _note_away(self, *, is_away: bool) -> None:
        with self._lock:
            changed, self._is_away = self._is_away != is_away, is_away
        if changed and is_away:
            _log.warning("the controller of this run does not answer; asking again until it does")
