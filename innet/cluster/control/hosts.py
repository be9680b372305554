"""The processes attached to hosts: their incarnations, their registrations, and their ends."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from innet.cluster.control.actions import Kill, Operation, Outbox, Unwatch, Watch
from innet.cluster.control.announcements import Announcements
from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.groups import GroupRegistry
from innet.cluster.control.pools import PoolRegistry
from innet.errors import ControlError, HostTaken, SecurityError
from innet.node.messages import PoolReport, ServedPrefixes, WorkerReport

_INCARNATIONS_PER_GENERATION = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Process:
    """The process attached to a host."""

    incarnation: int
    pid: int
    is_attached: bool


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries that a process of a host takes part in, and the controller's outbox."""

    groups: GroupRegistry
    pools: PoolRegistry
    announcements: Announcements
    keys: GroupKeys
    outbox: Outbox


class HostProcesses:
    """Keeps the process that is attached to each host of a job: at most one.

    Each process that attaches is a new *incarnation* of its host, with its own number. A second
    process is refused, because it would silently replace a live one.
    """

    def __init__(
        self,
        hosts: Collection[str],
        registries: Registries,
        generation: int = 0,
    ) -> None:
        """``generation`` counts how often the controller of ``hosts`` was restarted."""
        self._hosts = frozenset(hosts)
        self._groups = registries.groups
        self._pools = registries.pools
        self._announcements = registries.announcements
        self._keys = registries.keys
        self._outbox = registries.outbox
        self._processes: dict[str, _Process] = {}
        self._attached: Counter[str] = Counter()
        self._used: set[str] = set()
        self._first_incarnation = generation * _INCARNATIONS_PER_GENERATION

    def incarnations(self) -> dict[str, int]:
        """The hosts with an attached process, and its incarnation."""
        return {node: process.incarnation for node, process in self._processes.items()}

    def attach(
        self, node: str, pid: int, sealing_key: str | None = None, is_attached: bool = False
    ) -> Operation[int]:
        """Attach process ``pid`` to ``node``; returns its incarnation, from 1.

        The groups of an earlier process end, and the node may join groups again.

        Args:
            sealing_key: to which keys of groups are sealed.
            is_attached: another launcher started the process, and ends it.

        Raises:
            HostTaken: another process is attached to ``node``, and has not ended.
            ControlError: ``node`` is no host, or nothing can be sealed to the key.
        """
        if node not in self._hosts:
            raise ControlError(f"{node} is no host of this network, so no process attaches to it")
        present = self._processes.get(node)
        if present is not None and present.pid != pid:
            raise HostTaken(
                f"process {present.pid} has the node of {node}, and a host has one process of a "
                f"job: process {pid} is refused. Use innet in process {present.pid} alone, or end "
                "it first; see docs/kv-engines.md for the process of an engine that joins"
            )
        self._keys.learn(node, sealing_key)
        # A process that closed its worker has detached: this one runs another program (execve).
        self._groups.renew(node, "was started anew" if present is None else _replaced(pid))
        yield from self._pools.leave_all(node)
        self._announcements.begin(node)
        self._attached[node] += 1
        self._used.add(node)
        incarnation = self._first_incarnation + self._attached[node]
        self._watch(node, _Process(incarnation, pid, is_attached))
        return incarnation

    def used(self) -> list[str]:
        """The hosts to which a process of the present job has attached at any time."""
        return sorted(self._used)

    def end_job(self, hosts: Collection[str]) -> Operation[None]:
        """Forget what the processes of a job did on its hosts."""
        self._used -= set(hosts)
        for node in hosts:
            yield from self.forget(node)

    def restore(self, worker: WorkerReport) -> None:
        """Take over a process that attached to the controller before."""
        try:
            self._keys.learn(worker.node, worker.sealing_key)
        except SecurityError as error:
            _log.warning("the sealing key of %s is of no use: %s", worker.node, error)
        self._used.add(worker.node)
        self._watch(worker.node, _Process(worker.incarnation, worker.pid, worker.is_attached))

    def _watch(self, node: str, process: _Process) -> None:
        self._processes[node] = process
        self._outbox.put(Watch(node, process.incarnation, process.pid, process.is_attached))

    def is_current(self, node: str, incarnation: int) -> bool:
        """Whether that incarnation is attached to ``node`` now."""
        present = self._processes.get(node)
        return present is not None and present.incarnation == incarnation

    def detach(self, node: str, incarnation: int) -> Operation[None]:
        """Record that a process closed its worker and left its groups; the process may continue."""
        if self.is_current(node, incarnation):
            del self._processes[node]
            self._outbox.put(Unwatch(node))
            yield from self.forget(node)

    def on_ended(
        self, node: str, incarnation: int, is_supervised: bool, why: str
    ) -> Operation[None] | None:
        """The watched process of ``node`` has ended; of a supervised one, the launcher says how."""
        if not self.is_current(node, incarnation):
            return None
        pid = self._processes.pop(node).pid
        if is_supervised:
            return None
        return self.fail(node, f"{why or 'ended without closing its worker'} (process {pid})")

    def forget(self, node: str) -> Operation[None]:
        """Withdraw the announcements and pools of ``node``."""
        self._announcements.end(node)
        yield from self._pools.leave_all(node)

    def present(self) -> list[str]:
        """The nodes with a worker that has not failed."""
        failed = self._groups.failures()
        return [node for node in self._processes if node not in failed]

    def fail_incarnation(
        self,
        node: str,
        incarnation: int,
        why: str,
        causes: Sequence[tuple[str, int, str, int | None]] = (),
    ) -> Operation[None]:
        """The process attached to ``node`` reports that it has failed.

        ``causes`` are the groups in which it only follows another rank, by name and number, with
        that rank and why it ended: their members receive this.
        """
        if self.is_current(node, incarnation):
            for group, number, cause, rank in causes:
                self._groups.blame(group, number, node, cause, rank)
            yield from self.fail(node, why)

    def give_up(self, node: str, other: str, why: str) -> Operation[None]:
        """The process on ``node`` goes on without the one on ``other``, of its own job.

        Raises:
            ControlError: they are not in one job.
        """
        if other != node:
            self._groups.require_one_job(node, other)
        yield from self.expel(other, why)

    def expel(self, node: str, why: str) -> Operation[None]:
        """The process on ``node`` counts as failed, and is killed, because it might resume.

        One that another launcher started is left to it.
        """
        if node in self._processes:
            is_attached = self._processes[node].is_attached
            end = "it is left to the launcher that started it" if is_attached else "it is killed"
            what = f"the process of {node} {why}; {end}"
            self._outbox.report("worker_expelled", what, node=node)
            yield from self.fail(node, why)
            self._outbox.put(Kill(node))

    def fail(self, node: str, why: str) -> Operation[None]:
        """The process on ``node`` has failed: its groups end, and their members receive ``why``.

        Groups that it had not joined yet wait for another process on that node.
        """
        self._groups.fail(node, why)
        yield from self.forget(node)

    def lose(self, node: str, why: str) -> Operation[None]:
        """``node`` has failed, and no other process will take its place."""
        self._groups.lose(node, why)
        yield from self.forget(node)
        self._outbox.put(Kill(node))  # a child may have outlived the process that was started

    def end(self, node: str, how: str = "") -> Operation[None]:
        """The process of ``node`` has ended with status 0; see :meth:`GroupRegistry.end`."""
        self._groups.end(node, how)
        yield from self.forget(node)
        self._outbox.put(Kill(node))  # a child may have outlived the process that was started

    def replaced(self, node: str) -> Operation[None]:
        """The process attached to ``node`` runs another program, so its node is gone (execve)."""
        pid = self._processes.pop(node).pid
        self._outbox.put(Unwatch(node))
        yield from self.fail(node, _replaced(pid))

    def announce(self, node: str, incarnation: int, **told: Any) -> dict[str, str]:
        """That process of ``node`` serves prefixes (see :class:`ServedPrefixes`), and no others.

        All nodes get routes to them soon. The result has those that are for programs at ``node``
        alone, and why.
        """
        served = ServedPrefixes.model_validate(told)
        if node in self._hosts and not self.is_current(node, incarnation):
            return {}
        return self._announcements.announce(node, served)

    def open_pool(self, node: str, incarnation: int, **told: Any) -> Operation[None]:
        """That process joins a pool of blocks (see :class:`PoolReport`), or changes its part in it.

        All switches that answer carry the pool's names to and from the node then.
        """
        if not self.is_current(node, incarnation):
            raise ControlError(
                f"this process is no longer attached to {node}, so it cannot join a pool there; "
                "start it again with `innet run`"
            )
        yield from self._pools.open(node, PoolReport.model_validate(told), incarnation)

    def empty_pool_caches(self, node: str, incarnation: int, tenant: str) -> Operation[None]:
        """Empty the switches' caches of the blocks of a pool that this process is in."""
        if self.is_current(node, incarnation):
            yield from self._pools.drop_cached(node, tenant)

    def leave_pool(self, node: str, incarnation: int, tenant: str) -> Operation[None]:
        """Remove a process from the tenant's pool."""
        if self.is_current(node, incarnation):
            yield from self._pools.leave(node, tenant)


def _replaced(pid: int) -> str:
    return f"runs another program now, without closing its worker (process {pid})"
