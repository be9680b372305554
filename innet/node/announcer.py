"""Announces the prefixes that NDN programs serve at a node to the controller."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from innet._native import _core
from innet.errors import ControlError
from innet.node.messages import MAX_ANNOUNCED_PREFIXES, ServedPrefixes
from innet.node.node_config import NodeConfig

if TYPE_CHECKING:
    from innet.node.controller_client import ControllerClient

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
"""Between two announcements while a program registers and unregisters all the time."""
_ANSWER_TIMEOUT_S = 2.0
_MAX_CHARACTERS = 1 << 19
"""Of all prefixes together: the controller takes no longer announcement from another machine."""

_log = logging.getLogger(__name__)


def _within_bounds(prefixes: Sequence[str]) -> list[str]:
    """The first prefixes, as many as an announcement takes."""
    sizes = accumulate(len(prefix) for prefix in prefixes)
    return [prefix for prefix, size in zip(prefixes, sizes, strict=True) if size <= _MAX_CHARACTERS]


class Announcer:
    """Watches the registrations at a node of a run, on a thread of its own.

    The first change is announced at once. While changes go on, they are announced together after a
    pause that doubles each time. Nothing is announced before the first change: a node that no
    program uses costs nothing.
    """

    def __init__(self, node: _core.Node, config: NodeConfig, incarnation: int = 0) -> None:
        """``incarnation``: of a host's process, as the controller gave it.

        Raises:
            OSError: the process has too few descriptors left.
        """
        self._node = node
        self._config = config
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._registered = ServedPrefixes(version=0, prefixes=())
        self._unannounced: dict[str, str] = {}
        self._changed = os.eventfd(0, os.EFD_CLOEXEC)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        node.notify_registrations(self._changed)
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    @property
    def registered(self) -> ServedPrefixes:
        """The last announcement, which may be under way."""
        with self._lock:
            return self._registered

    @property
    def unannounced(self) -> dict[str, str]:
        """The prefixes that are not announced to other nodes, and why."""
        with self._lock:
            return dict(self._unannounced)

    def close(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._thread.is_alive():
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._changed)
            os.close(self._stop)

    def _run(self) -> None:
        if self._wait(None, self._changed):
            with self._connect() as controller, suppress(RuntimeError):  # the node was stopped
                self._tell_changes(controller)

    def _connect(self) -> ControllerClient:
        # Later than at the start: most switches of most runs never need it.
        from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient

        return ControllerClient(self._config.run_dir / CONTROLLER_SOCKET_NAME)

    def _tell_changes(self, controller: ControllerClient) -> None:
        pause_s = _FIRST_PAUSE_S
        while self._wait(None, self._changed):
            self._take()
            while not self._announce(controller):
                if not self._wait(_LONGEST_PAUSE_S):
                    return
            if not self._wait(pause_s):
                return
            goes_on = self._is_readable(self._changed)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if goes_on else _FIRST_PAUSE_S

    def _take(self) -> None:
        os.eventfd_read(self._changed)
        registered, number = self._node.take_registrations(MAX_ANNOUNCED_PREFIXES)
        prefixes = _within_bounds(registered)
        if number > len(prefixes):
            _log.warning(
                "programs serve %d prefixes at %s; only the first %d of them, by the order of "
                "names, are announced. Let them register shorter ones",
                number,
                self._config.node,
                len(prefixes),
            )
        with self._lock:
            version = self._registered.version + 1
            self._registered = ServedPrefixes(version=version, prefixes=tuple(prefixes))

    def _announce(self, controller: ControllerClient) -> bool:
        """Whether the controller has taken the announcement."""
        try:
            apart: dict[str, str] = controller.request(
                "announce",
                timeout_s=_ANSWER_TIMEOUT_S,
                give_up=lambda: self._is_readable(self._stop),
                node=self._config.node,
                incarnation=self._incarnation,
                **self.registered.model_dump(),
            )
        except ControlError as error:
            _log.info("the controller took no announcement of %s: %s", self._config.node, error)
            return False
        self._note_unannounced(apart)
        return True

    def _note_unannounced(self, apart: dict[str, str]) -> None:
        with self._lock:
            before, self._unannounced = self._unannounced, apart
        for prefix, why in apart.items():
            if prefix not in before:
                _log.warning("only %s knows that %s is served: %s", self._config.node, prefix, why)

    def _wait(self, timeout_s: float | None, event_fd: int | None = None) -> bool:
        """Wait for an event or a time; False when the announcer is to end."""
        awaited = [self._stop] if event_fd is None else [self._stop, event_fd]
        self._poll(awaited, timeout_s)
        return not self._is_readable(self._stop)

    def _is_readable(self, event_fd: int) -> bool:
        return bool(self._poll([event_fd], 0.0))

    @staticmethod
    def _poll(event_fds: list[int], timeout_s: float | None) -> list[Any]:
        poller = select.poll()  # needs no descriptor of its own
        for event_fd in event_fds:
            poller.register(event_fd, select.POLLIN)
        return poller.poll(None if timeout_s is None else 1000 * timeout_s)
