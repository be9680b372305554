"""Attaches this process to the network of a standing pool, by the pool's address, and again after
its launcher was started again."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from pathlib import Path
from typing import Final, Protocol

from innet.cluster.attachment import attach, detach, reattach
from innet.cluster.emulation.runs import find_run, names_of_runs
from innet.cluster.machines.token_file import TokenFile
from innet.errors import EmulationError, HostTaken, InnetError, KVError
from innet.kv.process_share import ProcessShare

_JOB_BYTES: Final = 16
_PAUSE_S: Final = 0.5
"""Between attempts to attach again."""

_log = logging.getLogger(__name__)


def network_at(address: str, token_file: Path | None = None) -> str:
    """The name of the network that has the pool.

    Args:
        address: that name, or ``HOST:PORT`` where the network's launcher listens.
        token_file: of the network; needed with ``HOST:PORT``.

    Raises:
        KVError: this machine has no part in such a network.
        SecurityError: the token file cannot be used.
    """
    if token_file is None and ":" in address:
        raise KVError(
            f"the address {address} does not say which network it is: give token_file=, the file "
            "that this machine joined it with, or the network's name as address="
        )
    network = address if token_file is None else TokenFile.load(token_file).network
    try:
        find_run(network)
    except EmulationError:
        joining = "ADDRESS:PORT --token-file FILE"
        if token_file is not None:
            joining = f"{address} --token-file {token_file}"
        raise KVError(
            f"this machine has no node of network {network} that user {os.geteuid()} runs; "
            f"networks here: {names_of_runs()}. Let it join as that user: innet node join "
            f"{joining}; on a machine of its own: innet kv serve FILE --name {network}"
        ) from None
    return network


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
    """The attachment of this process to a network, again as soon as that was started again."""

    def __init__(self, network: str) -> None:
        """
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
        # Each process is a job of its own, also a rank of an engine.
        job = secrets.token_hex(_JOB_BYTES)
        attach(network, job=job, rank=0, size=1, on_lost=self._on_lost)

    def watch(self, user: NetworkUser) -> None:
        """Let a user know when the network is lost, and when it is back."""
        with self._lock:
            self._users.append(user)

    def unwatch(self, user: NetworkUser) -> None:
        """End :meth:`watch`."""
        with self._lock:
            self._users.remove(user)

    def close(self) -> None:
        """Give the worker back."""
        self._has_left.set()
        detach()

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
        logged = ""
        with self._rejoining:
            while not self._has_left.wait(_PAUSE_S):
                try:
                    before = reattach(self._network, self._on_lost)
                except InnetError as error:
                    _log.debug("cannot join %s again yet: %s", self._network, error)
                    continue
                except Exception as error:  # files of a run are removed when it ends
                    if logged != (logged := repr(error)):
                        _log.warning("cannot join %s again yet", self._network, exc_info=True)
                    continue
                if before is not None:
                    self._bring_back(number)
                    before.close()
                return

    def _bring_back(self, number: int) -> None:
        """Let the users join their pools again, until the network is lost again."""
        with self._lock:
            waiting = list(self._users)
        told = ""
        while waiting and not self._has_left.is_set() and self._losses == number:
            user = waiting.pop(0)
            try:
                user.on_network_back()
            except Exception as error:
                with self._lock:
                    if user not in self._users:
                        continue  # it has left its pool meanwhile
                if told != (told := str(error)):
                    _log.warning("cannot join a pool of %s again yet: %s", self._network, error)
                waiting.append(user)
                self._has_left.wait(_PAUSE_S)
        if not waiting:
            _log.warning("this process has joined network %s again", self._network)


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
