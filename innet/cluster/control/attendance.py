"""Which process stands for each host of a job, and when it ends.

A host's process may be started anew (by ``innet run --max-restarts``, by ``torchrun``, by hand):
each process that attaches is another *incarnation* of its host, with a number of its own. One
process at a time stands for a host: a second one that took its place would cut it off silently.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from innet.errors import ControlError, HostTaken

OnEnd = Callable[[str, int, int], None]
"""Told of a process that ended while it was attached: its node, incarnation and process id."""


_INCARNATIONS_PER_GENERATION = 1 << 16


@dataclass(frozen=True, slots=True)
class _Incarnation:
    node: str
    number: int
    pid: int
    pidfd: int


class Attendance:
    """The processes that are attached, watched by a thread of its own."""

    def __init__(self, on_end: OnEnd, generation: int = 0) -> None:
        """``generation``: how often whoever counted incarnations before has been replaced."""
        self._on_end = on_end
        self._first = generation * _INCARNATIONS_PER_GENERATION
        self._lock = threading.Lock()
        self._made: Counter[str] = Counter()
        self._present: dict[str, _Incarnation] = {}
        self._poll = select.epoll()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll.register(self._stop, select.EPOLLIN)
        self._thread = threading.Thread(target=self._watch, name="attendance", daemon=True)
        self._thread.start()

    def attach(self, node: str, pid: int) -> int:
        """Process ``pid`` stands for ``node`` from now on; its incarnation, from 1.

        No two processes of a node have the same, whoever counts.

        Raises:
            ControlError: there is no such process.
        """
        self._made[node] += 1
        number = self._first + self._made[node]
        self.restore(node, pid, number)
        return number

    def require_free(self, node: str, pid: int) -> None:
        """Process ``pid`` can stand for ``node``: it does already, or no process that lives does.

        Raises:
            HostTaken: another process does.
        """
        with self._lock:
            present = self._present.get(node)
            if present is None or present.pid == pid or _has_ended(present.pidfd):
                return
            raise HostTaken(
                f"process {present.pid} has the node of {node}, and a host has one process of a "
                f"job: process {pid} is refused. Use innet in process {present.pid} alone, or end "
                "it first; docs/kv-engines.md tells which process of an engine joins"
            )

    def restore(self, node: str, pid: int, number: int) -> None:
        """Process ``pid`` stands for ``node`` as its incarnation ``number``.

        Raises:
            ControlError: there is no such process.
        """
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            raise ControlError(
                f"{node} names process {pid}, which cannot be watched: {error.strerror}. Does it "
                "run on this machine?"
            ) from error
        with self._lock:
            self._drop(node)
            self._present[node] = _Incarnation(node, number, pid, pidfd)
            self._poll.register(pidfd, select.EPOLLIN)

    def detach(self, node: str, number: int) -> None:
        """Incarnation ``number`` of ``node`` has closed its worker; it may go on without."""
        with self._lock:
            if self.is_current(node, number):
                self._drop(node)

    def is_current(self, node: str, number: int) -> bool:
        """Whether that incarnation is the one that stands for ``node``."""
        present = self._present.get(node)
        return present is not None and present.number == number

    def present(self) -> dict[str, int]:
        """The nodes with an attached process, and the number of its incarnation."""
        with self._lock:
            return {node: attached.number for node, attached in self._present.items()}

    def kill(self, node: str) -> None:
        """End the process that stands for ``node``, if there is one."""
        with self._lock:
            present = self._present.get(node)
            if present is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(present.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Stop watching."""
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        with self._lock:
            for node in list(self._present):
                self._drop(node)
        self._poll.close()
        os.close(self._stop)

    def _drop(self, node: str) -> None:
        present = self._present.pop(node, None)
        if present is not None:
            self._poll.unregister(present.pidfd)
            os.close(present.pidfd)

    def _watch(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._stop:
                    return
                ended = self._take_ended(fd)
                if ended is not None:
                    self._on_end(ended.node, ended.number, ended.pid)

    def _take_ended(self, pidfd: int) -> _Incarnation | None:
        with self._lock:
            # Another one may have taken its place, and even its descriptor's number, meanwhile.
            for incarnation in self._present.values():
                if incarnation.pidfd == pidfd and _has_ended(pidfd):
                    self._drop(incarnation.node)
                    return incarnation
        return None


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
