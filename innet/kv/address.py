"""Attaches this process to the network of a standing pool, by the pool's address, and again after
its launcher was started again."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from innet.cluster.attachment import attach, detach, reattach
from innet.cluster.emulation.runs import find_run, names_of_runs
from innet.cluster.machines.token_file import TokenFile
from innet.errors import EmulationError, HostTaken, KVError
from innet.kv.process_share import ProcessShare
from innet.quantities import rounded_duration
from innet.worker import Worker

_JOB_BYTES: Final = 16
_PAUSE_S: Final = 0.5
"""Between attempts to attach."""
_FIRST_REMINDER_S: Final = 60.0
_LAST_REMINDER_S: Final = 3600.0
"""Between log lines on attempts that fail for the same reason, which the interval doubles to."""

_log = logging.getLogger(__name__)


def network_at(address: str, token_file: Path | None = None) -> str:
    """The name of the network that has the pool.

    Args:
        address: that name, or ``HOST:PORT`` where the network's launcher listens.
        token_file: of the network; needed with ``HOST:PORT``.

    Raises:
        KVError: the address does not say which network it is.
        SecurityError: the token file cannot be used.
    """
    if token_file is None and ":" in address:
        raise KVError(
            f"the address {address} does not say which network it is: give token_file=, the file "
            "that this machine joined it with, or the network's name as address="
        )
    return address if token_file is None else TokenFile.load(token_file).network


def require_network(network: str, address: str, token_file: Path | None = None) -> None:
    """Check that this machine has a part in a network.

    Raises:
        PoolIsDown: it has none.
    """
    try:
        find_run(network)
    except EmulationError:
        joining = "ADDRESS:PORT --token-file FILE"
        if token_file is not None:
            joining = f"{address} --token-file {token_file}"
        raise PoolIsDown(
            f"this machine has no node of network {network} that user {os.geteuid()} runs; "
            f"networks here: {names_of_runs()}. Let it join as that user: innet node join "
            f"{joining}; on a machine of its own: innet kv serve FILE --name {network}"
        ) from None


class PoolIsDown(KVError):
    """A standing pool is not up; it may be later."""


class NetworkUser(Protocol):
    """A member of a pool of this process."""

    def on_network_lost(self) -> None:
        """The network has ended; it may come back."""

    def on_network_back(self) -> None:
        """This process has another worker, of the network that is up again.

        Raises:
            InnetError: the pool cannot be joined; it is tried again.
        """


class LastingAttachment:
    """The attachment of this process to a network, again as soon as that was started again.

    Attributes:
        is_attached: whether this process has or had a worker of the network.
    """

    def __init__(self, network: str, waits: bool = False) -> None:
        """
        Args:
            network: its name.
            waits: if the network is down, attach as soon as it is up.

        Raises:
            HostTaken: no worker is free, or this process is a worker of another network.
            EmulationError: there is no such network.
        """
        self._network = network
        self._lock = threading.Lock()
        self._users: list[NetworkUser] = []
        self._rejoining = threading.Lock()
        self._losses = 0
        self._has_left = threading.Event()
        self.is_attached = False
        try:
            self._attach()
            self.is_attached = True
        except HostTaken:
            raise
        except EmulationError as error:
            if not waits or _is_closed_to_others(network):
                raise
            _log.warning(
                "network %s is not up: %s This process starts without its pool, in which it finds "
                "no blocks, and joins it when it is up", network, _sentence(error),
            )  # fmt: skip
            _in_background(lambda: self._join_again(0))

    def watch(self, user: NetworkUser, *, has_joined: bool = True) -> None:
        """Let a user know when the network is lost, and when it is back.

        Args:
            user: a member of a pool.
            has_joined: else it joins its pool as soon as that is possible.
        """
        with self._lock:
            self._users.append(user)
            number, is_attached = self._losses, self.is_attached
        if not has_joined and is_attached:
            _in_background(lambda: self._bring_back(number, [user]))

    def unwatch(self, user: NetworkUser) -> None:
        """End :meth:`watch`."""
        with self._lock:
            self._users.remove(user)

    def close(self) -> None:
        """Give the worker back."""
        self._has_left.set()
        detach()

    def _attach(self) -> None:
        # Each process is a job of its own, also a rank of an engine.
        job = secrets.token_hex(_JOB_BYTES)
        attach(self._network, job=job, rank=0, size=1, on_lost=self._on_lost)

    def _on_lost(self) -> None:
        """Attach again when the network is up again; in a thread of its own."""
        if self._has_left.is_set():
            return
        with self._lock:
            self._losses += 1
            number, users = self._losses, list(self._users)
        for user in users:
            user.on_network_lost()
        _log.warning(
            "network %s has ended: its blocks are misses until it is up again, and this process "
            "has joined it again by itself",
            self._network,
        )
        self._join_again(number)

    def _join_again(self, number: int) -> None:
        """Attach as soon as the network is up, and let the users join their pools."""
        reminder = Reminder(f"cannot join network {self._network} yet")
        with self._rejoining:
            while not self._has_left.wait(_PAUSE_S):
                before: Worker | None = None
                try:
                    if not self.is_attached:
                        self._attach()
                    elif (before := reattach(self._network, self._on_lost)) is None:
                        return
                except Exception as error:  # files of a run are removed when it ends
                    reminder.failed(error)
                    continue
                with self._lock:
                    self.is_attached = True
                    waiting = list(self._users)
                self._bring_back(number, waiting)
                if before is not None:
                    before.close()
                elif self._has_left.is_set():
                    detach()
                return

    def _bring_back(self, number: int, waiting: list[NetworkUser]) -> None:
        """Let users join their pools, until the network is lost again."""
        reminder = Reminder(f"cannot join a pool of {self._network} yet")
        while waiting and not self._has_left.is_set() and self._losses == number:
            user = waiting.pop(0)
            try:
                user.on_network_back()
            except Exception as error:
                with self._lock:
                    if user not in self._users:
                        continue  # it has left its pool meanwhile
                reminder.failed(error)
                waiting.append(user)
                self._has_left.wait(_PAUSE_S)
        if not waiting:
            _log.warning("this process has joined network %s", self._network)


class Reminder:
    """Logs why something fails: each new reason at once, and the same one ever more rarely."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._reason = ""
        self._began_s = time.monotonic()
        self._next_s = 0.0
        self._interval_s = _FIRST_REMINDER_S

    def failed(self, error: Exception) -> None:
        """It has failed again."""
        now_s, reason = time.monotonic(), str(error) or repr(error)
        if reason != self._reason:
            self._reason, self._interval_s = reason, _FIRST_REMINDER_S
        elif now_s < self._next_s:
            return
        self._next_s = now_s + self._interval_s
        self._interval_s = min(2 * self._interval_s, _LAST_REMINDER_S)
        _log.warning(
            "%s, tried for %s: %s", self._what, rounded_duration(now_s - self._began_s), reason
        )


def _is_closed_to_others(network: str) -> bool:
    """Whether a network is up, and takes no processes that were started outside of it."""
    with contextlib.suppress(EmulationError):
        return find_run(network).mode == "netns"
    return False


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.')}."


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="innet-rejoining", daemon=True).start()


def _other_network(attached: str, wanted: str) -> HostTaken:
    return HostTaken(
        f"this process is attached to {attached}, and cannot be to {wanted} as well. Close its "
        "other pools first, or use another process"
    )


network_use: Final = ProcessShare[str, LastingAttachment](
    LastingAttachment, LastingAttachment.close, _other_network
)
"""The attachment of this process, which its members of pools share."""
os.register_at_fork(after_in_child=network_use.forget_after_fork)
