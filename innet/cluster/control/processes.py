"""Processes that the controller watches: those of its own machine.

A process names itself when it attaches. It is killed only if the launcher started it, or an
ancestor of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from innet.cluster.emulation.runs import parent_of

_log = logging.getLogger(__name__)

OnEnded = Callable[[str], object]
"""Called when a process has ended, with the reason if it is not an end of the process itself."""


class WatchedProcess(Protocol):
    """A process that is held by its watcher, so that its pid cannot be reused."""

    @property
    def is_supervised(self) -> bool:
        """Whether the launcher reports how it ends, as it does of processes that it started."""

    def watch(self, on_ended: OnEnded) -> None:
        """Call ``on_ended`` from the event loop, once, when the process has ended."""

    def has_ended(self) -> bool:
        """Whether the process is known to have ended, perhaps before ``on_ended`` is called."""

    def kill(self) -> None:
        """Kill the process, unless it has ended, or was not started by the launcher."""

    def close(self) -> None:
        """Let go of the process, and call nothing any more."""


class Processes(Protocol):
    """The processes of one machine."""

    async def open(self, pid: int) -> WatchedProcess:
        """Take hold of process ``pid``.

        Raises:
            ProcessLookupError: there is no such process any more.
            OSError: the process cannot be watched now, for example without a free descriptor.
            ControlError: the machine does not answer.
        """

    async def wait(self) -> None:
        """Wait until the requests to the owners of other processes have ended."""


class LocalProcesses:
    """The processes of this machine."""

    def __init__(self, is_started: Callable[[int], bool]) -> None:
        """``is_started``: whether the launcher has started a process."""
        self._is_started = is_started

    async def open(self, pid: int) -> LocalProcess:
        """Take hold of a process, without waiting (see :class:`Processes`)."""
        return LocalProcess(pid, self._is_started)

    async def wait(self) -> None:
        """Return: the kernel has done everything at once."""


class LocalProcess:
    """A process of this machine, held by a pidfd.

    Attributes:
        is_descendant: it was started by the launcher (or agent), or an ancestor of it was.
    """

    def __init__(self, pid: int, is_started: Callable[[int], bool]) -> None:
        """
        Raises:
            OSError: as :meth:`Processes.open`.
        """
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._is_watched = False
        try:
            self.is_supervised = is_started(pid)
            self.is_descendant = _descends(pid, is_started)
        except OSError:
            self.close()
            raise

    def watch(self, on_ended: OnEnded) -> None:
        """See :class:`WatchedProcess`."""

        def ended() -> None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            on_ended("")

        asyncio.get_running_loop().add_reader(self._pidfd, ended)
        self._is_watched = True

    def has_ended(self) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def kill(self) -> None:
        if not self.is_descendant:
            _log.warning("process %d is not killed: the launcher did not start it", self._pid)
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)


def _descends(pid: int, is_started: Callable[[int], bool]) -> bool:
    """Whether a process or one of its ancestors is started, as ``is_started`` says."""
    ancestor: int | None = pid
    while ancestor:
        if is_started(ancestor):
            return True
        ancestor = parent_of(ancestor)
    return False
