"""The controller of a run: SHArP's aggregation manager.

It answers workers and the launcher; the groups are kept in :mod:`.groups`, pools of blocks in
:mod:`.pools`, plans made in :mod:`.group_plans`, rules installed in :mod:`.placements`, nodes
spoken to in :mod:`.messenger`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from innet.cluster.control.announcements import Announcements
from innet.cluster.control.attendance import Attendance
from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.group_plans import GroupPlans
from innet.cluster.control.groups import Group, GroupRegistry
from innet.cluster.control.heartbeats import Heartbeats
from innet.cluster.control.outages import Change, Outages
from innet.cluster.control.placements import Placements
from innet.cluster.control.pools import PoolRegistry
from innet.cluster.control.roll_call import call_roll
from innet.cluster.control.silent_workers import SilentWorkers
from innet.errors import ControlError
from innet.node.control.controller_socket import ControllerServer
from innet.node.control.jobs import Job, JobRegistry
from innet.node.control.messenger import ConnectToNode, Messenger
from innet.node.control.protocol import Failure, Registrations, job_message
from innet.node.control.resumption import KnownJob, LaunchRecord
from innet.node.control.survivors import Loss, Survivors
from innet.node.control.worker_reports import PoolReport, WorkerReport
from innet.plans import Plan
from innet.security.credential_packets import KeyAuthority
from innet.security.group_keys import GroupKeySource
from innet.security.keys import JobTrust
from innet.settings import RecoverySettings
from innet.telemetry.events import report
from innet.topology import Topology

_log = logging.getLogger(__name__)


class Controller:
    """Answers the workers of all jobs on a control socket, and its launcher by method calls.

    Methods for workers: ``attach``, ``detach``, ``present``, ``join_group``, ``ready_group``,
    ``group_failure``, ``shrink_group``, ``leave_group``, ``open_pool``, ``leave_pool``,
    ``pool_members``, ``fail``, ``expel``, ``ended``, ``stopped``, ``routes``; for all
    nodes: ``announce``; for displays: ``groups``, ``jobs``, ``pools``.
    """

    def __init__(
        self,
        topology: Topology,
        socket_path: Path,
        connect: ConnectToNode,
        is_supervised: Callable[[int], bool] = lambda _pid: False,
        *,
        recovery: RecoverySettings | None = None,
        record: LaunchRecord | None = None,
        announces: bool = True,
    ) -> None:
        """It answers when this returns.

        Args:
            topology: the network.
            socket_path: what to answer on.
            connect: opens a connection to a node.
            is_supervised: tells whose end somebody else reports: the launcher's own children.
            recovery: the settings of the run.
            record: of a controller that this one takes the place of.
            announces: whether names of no job use the links of jobs' hosts.
        """
        record = record or LaunchRecord()
        self._recovery = recovery or RecoverySettings()
        self._is_supervised = is_supervised
        self._supervised: dict[str, int] = {}
        self._lock = threading.RLock()
        self._connect = connect
        self._topology = topology
        self._heartbeats: list[Heartbeats] = []
        self._messenger = Messenger(connect)
        self._placements = Placements(Survivors(topology), self._messenger)
        self._outages = Outages(self._lock, self._change, self._recovery)
        self._jobs = JobRegistry(topology.hosts)
        self._keys = GroupKeys(_authority_of(record), self._messenger)
        self._groups = GroupRegistry(
            self._jobs,
            GroupPlans(topology, record.generation),
            self._placements,
            self._keys,
            self._messenger,
        )
        self._pools = PoolRegistry(self._placements)
        self._announces = announces
        self._announcements = Announcements(
            self._placements.survivors, self._messenger, topology.switches, record.generation
        )
        self._attendance = Attendance(self._process_ended, record.generation)
        if record.generation > 0:
            self._resume(record, topology.hosts)
        self._server = ControllerServer(
            socket_path,
            {
                "attach": self.attach,
                "detach": self.detach,
                "announce": self.announce,
                "present": self.present,
                "ended": self.ended,
                "stopped": self.stopped,
                "join_group": self.join_group,
                "ready_group": self.ready_group,
                "group_failure": self.group_failure,
                "shrink_group": self.shrink_group,
                "expel": self.expel,
                "leave_group": self.leave_group,
                "open_pool": self.open_pool,
                "leave_pool": self.leave_pool,
                "pool_members": self.pool_members,
                "pools": self.pools,
                "fail": self.fail_incarnation,
                "groups": self.groups,
                "plans": self.plans,
                "jobs": self.jobs,
                "routes": self.routes,
                "ping": lambda: None,
                "admit_job": self.admit_job,
                "open_job": self._open_told_job,
                "close_job": self._close_told_job,
                "fail_node": self.fail,
                "lose_node": self.lose,
                "end_node": self.end,
                "failures": self.failures,
                "lose_switch": self.lose_switch,
                "restore_switch": self.restore_switch,
                "watch_nodes": self.watch_nodes,
            },
            who="the controller",
        )

    def admit_job(self, name: str | None, hosts: Sequence[str], weight: int = 1) -> Job:
        """Give ``hosts`` to a new job, whose prefix nothing else has had on this network.

        Raises:
            ControlError: as :meth:`innet.node.control.jobs.JobRegistry.admit`.
        """
        with self._lock:
            job = self._jobs.admit(name, hosts, weight)
            self._announcements.keep_apart(self._jobs.prefixes())
            return job

    def open_job(self, job: Job, keys: JobTrust, groups: GroupKeySource | None = None) -> None:
        """Have all switches serve an admitted job, which has ``keys``.

        ``groups`` is what its groups get keys of their own from.

        Raises:
            ControlError: a switch refuses or does not answer.
        """
        with self._lock:
            self._placements.open_job(job_message(job, keys, admits_others=self._announces))
            self._keys.open_job(job.name, groups)

    def close_job(self, job: Job) -> None:
        """A job is over: nothing of it is left on the switches, and its hosts are free."""
        with self._lock:
            self._groups.forget(job)
        for host in job.hosts:
            self._attendance.kill(host)  # what a worker started may have outlived it
        self._messenger.wait()
        with self._lock:
            for host in job.hosts:
                self._forget_process(host)
            self._placements.close_job(job.prefix)
            self._keys.close_job(job.name)
            self._jobs.remove(job)
            self._announcements.keep_apart(self._jobs.prefixes())

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that run, for status displays."""
        with self._lock:
            return self._jobs.describe()

    def _open_told_job(self, **told: Any) -> None:
        known = KnownJob.model_validate(told)
        if known.keys is not None:
            self.open_job(known.job, known.keys, known.groups)

    def _close_told_job(self, **told: Any) -> None:
        self.close_job(KnownJob.model_validate(told).job)

    def attach(self, node: str, pid: int, sealing_key: str | None = None) -> int:
        """Process ``pid`` stands for ``node`` from now on; its incarnation.

        Keys of its groups are sealed to ``sealing_key``.

        What an earlier process of the node was in ends, and the node may join groups again.

        Raises:
            HostTaken: another process stands for ``node``, and it has not ended.
        """
        with self._lock:
            self._attendance.require_free(node, pid)
            self._groups.renew(node)
            self._pools.leave_all(node)
            self._announcements.begin(node)
            self._note_supervised(node, pid)
            self._keys.meet(node, sealing_key)
            return self._attendance.attach(node, pid)

    def _note_supervised(self, node: str, pid: int) -> None:
        # Now, and not when it ends: nothing can be asked about it then.
        self._supervised.pop(node, None)
        if self._is_supervised(pid):
            self._supervised[node] = pid

    def detach(self, node: str, incarnation: int) -> None:
        """That process has closed its worker, and has left its groups."""
        with self._lock:
            if self._attendance.is_current(node, incarnation):
                self._forget_process(node)
            self._attendance.detach(node, incarnation)

    def _forget_process(self, node: str) -> None:
        """What it offered and served is there no more."""
        self._pools.leave_all(node)
        self._announcements.end(node)

    def announce(self, node: str, incarnation: int, **told: Any) -> dict[str, str]:
        """That process of ``node`` serves prefixes (see :class:`Registrations`), and no others.

        All nodes know the way there some moments later. The answer has those that are for
        programs at ``node`` alone, and why.
        """
        served = Registrations.model_validate(told)
        with self._lock:
            is_host = node in self._topology.hosts
            if is_host and not self._attendance.is_current(node, incarnation):
                return {}
            return self._announcements.announce(node, served)

    def present(self) -> list[str]:
        """The nodes with a worker that has not failed."""
        with self._lock:
            failed = self._groups.failures()
            return [node for node in self._attendance.present() if node not in failed]

    def stopped(self) -> list[str]:
        """The nodes whose process neither answers nor is heard by its neighbours."""
        silent = self._outages.silent(self._attendance.present())
        return [node for node in silent if not self._is_heard(node)]

    def ended(self) -> list[str]:
        """The nodes whose process has ended as it should, and has no successor."""
        with self._lock:
            return self._groups.ended()

    def join_group(
        self, group: str, algorithm: str, ranks: Sequence[str], node: str
    ) -> dict[str, Any]:
        """The process on ``node`` is there; the first to come has the plan made and installed.

        The answer tells which ranks are ``missing``; a rank asks again until none is, registers
        its names, and says so by :meth:`ready_group`. ``plans`` are as they are placed now, and
        ``made`` as they were made for the whole network, where that differs. ``number`` tells the
        group from others of the same name: before it, after it, or of other nodes at the same time.
        ``keys`` are the group's credentials, sealed to the process (:mod:`innet.security`).

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            ControlError: ranks disagree about the group, a switch does not answer, or a node that
                the group needs is gone.
        """
        with self._lock:
            return self._described(self._groups.join(group, algorithm, tuple(ranks), node), node)

    def ready_group(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` answers for all its names of the group; others that do not are ``missing``.

        A rank asks again until none is: an Interest that came to a host before its names are
        registered would be refused there. ``failure`` is what :meth:`fail` told the members, if
        one failed before all were ready, and else ``None``. Who asks when it has failed since
        hears that nobody is missing: what it does next in the group says what has ended it, as
        with those that asked a moment before.

        Raises:
            ControlError: a node that is missing is gone or has left, or all have left the group.
        """
        with self._lock:
            failure = self._groups.failure_to_begin(group, number)
            missing = [] if failure else self._groups.ready(group, number, node)
            return {"missing": missing, "failure": failure}

    def group_failure(self, group: str, number: int) -> dict[str, Any] | None:
        """``why`` a group has failed, and of which ``rank``; ``None`` when it has not."""
        with self._lock:
            return self._groups.failure_of(group, number)

    def shrink_group(
        self, group: str, number: int, node: str, heard: Failure | None = None
    ) -> dict[str, Any]:
        """``node`` goes on with those who survived the failure of a group; as :meth:`join_group`.

        The answer also tells the new group's ``name`` and ``ranks``, which may change until nobody
        is missing: another may have failed. ``heard`` is why ``node`` asks, and the rank that left:
        other ranks may hear of it before the controller.

        Raises:
            PlanError: the group's algorithm does not fit the survivors.
            ControlError: no rank of the group has failed, or ``node`` counts as failed itself.
        """
        with self._lock:
            made = self._groups.shrink(group, number, node, heard)
            return {**self._described(made, node), "name": made.name, "ranks": list(made.ranks)}

    def leave_group(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` needs nothing more of the group; others that are not ``missing`` either.

        When none is, the group is over, and all its members hear so. Ranks whose node is gone are
        not waited for.
        """
        with self._lock:
            return {"missing": self._groups.leave(group, number, node)}

    def open_pool(self, node: str, incarnation: int, **told: Any) -> None:
        """That process joins a pool of blocks (see :class:`PoolReport`), or changes its part in it.

        All switches that answer carry the pool's names to and from the node when this returns.

        Raises:
            ControlError: another process stands for ``node``, or as
                :meth:`innet.cluster.control.pools.PoolRegistry.open`.
        """
        with self._lock:
            if not self._attendance.is_current(node, incarnation):
                raise ControlError(
                    f"this process stands for {node} no longer, and can join no pool there; start "
                    "it again with `innet run`"
                )
            self._pools.open(node, PoolReport.model_validate(told))

    def leave_pool(self, node: str, incarnation: int, tenant: str) -> None:
        """That process is a member of the tenant's pool no longer."""
        with self._lock:
            if self._attendance.is_current(node, incarnation):
                self._pools.leave(node, tenant)

    def pool_members(self, tenant: str) -> dict[str, int]:
        """The nodes that offer memory to a tenant's pool, and bytes of each."""
        with self._lock:
            return self._pools.members(tenant)

    def pools(self) -> list[dict[str, Any]]:
        """The pools of blocks, for status displays."""
        with self._lock:
            return self._pools.describe()

    def fail_incarnation(
        self,
        node: str,
        incarnation: int,
        why: str,
        causes: Sequence[tuple[str, int, str, int | None]] = (),
    ) -> None:
        """The process that stands for ``node`` can go on no longer, and says so itself.

        ``causes`` are the groups in which it only follows another rank, by name and number, with
        what that rank's end was and which rank it is: their members hear that.
        """
        with self._lock:
            if self._attendance.is_current(node, incarnation):
                for group, number, cause, rank in causes:
                    self._groups.blame(group, number, node, cause, rank)
                self.fail(node, why)

    def expel(self, node: str, why: str) -> None:
        """The process on ``node`` counts as failed, and is ended: it may yet come to itself."""
        with self._lock:
            if node in self._attendance.present():
                _log.warning("%s %s; its process is ended", node, why)
                report("worker_expelled", f"the process of {node} {why}", node=node)
                self.fail(node, why)
                self._attendance.kill(node)

    def fail(self, node: str, why: str) -> None:
        """The process on ``node`` has failed: its groups end, and their members hear ``why``.

        Groups that it had not joined yet wait for another process on that node.
        """
        with self._lock:
            self._groups.fail(node, why)
            self._forget_process(node)

    def lose(self, node: str, why: str) -> None:
        """``node`` has failed, and no other process will come for it."""
        with self._lock:
            self._groups.lose(node, why)
            self._forget_process(node)
            self._attendance.kill(node)  # whose parent is gone

    def end(self, node: str) -> None:
        """The process of ``node`` has ended as it should; nobody waits for it any more."""
        with self._lock:
            self._groups.end(node)
            self._forget_process(node)

    def failures(self) -> list[str]:
        """The nodes that failed in their jobs, the first to fail at the beginning."""
        with self._lock:
            return self._groups.failures()

    def lose_switch(self, switch: str, why: str, *, returns: bool) -> None:
        """``switch`` is gone: its sums are made elsewhere, and the others go round it.

        Groups whose ranks have no other path to each other end, unless it ``returns``: somebody
        sees to that, and calls :meth:`restore_switch` then.

        Args:
            switch: its name.
            why: ``spine0 (pid 77) was killed by signal 9 (SIGKILL)``.
            returns: whether to wait for it.

        Raises:
            ControlError: there is no such switch.
        """
        self._require_switch(switch)
        with self._lock:
            self._outages.forget(switch)
            self._announcements.begin(switch)
            self._adapt(self._placements.survivors.without(switch, Loss(why, returns)))

    def restore_switch(self, switch: str) -> None:
        """``switch`` answers again, with nothing of what it knew: sums and routes return to it.

        Raises:
            ControlError: there is no such switch.
        """
        self._require_switch(switch)
        with self._lock:
            self._outages.forget(switch)
            self._adapt(self._placements.survivors.with_again(switch))

    def _require_switch(self, name: str) -> None:
        if name not in self._topology.switches:
            raise ControlError(
                f"no switch of this network is called {name!r}; there are "
                f"{', '.join(self._topology.switches)}"
            )

    def watch_nodes(self) -> None:
        """Look after processes that may hang, and links that may carry nothing.

        Switches that stop to answer are lost, and restored when they answer again, and so are links
        (:mod:`.outages`); workers that stop are given up, and ended.
        """
        if self._heartbeats:
            return
        self._watch(
            lambda: dict.fromkeys(self._topology.switches, 0),
            self._recovery.heartbeat_timeout_s,
            self._outages.on_silent,
            self._outages.on_heard,
        )
        workers = SilentWorkers(self._recovery, self._is_heard, self.expel)
        self._watch(
            self._attendance.present,
            workers.patience_s,
            workers.on_silent,
            lambda _node: None,
            workers.on_answer,
        )

    def _is_heard(self, host: str) -> bool:
        """Whether the node of a worker lives, though its Python may not answer."""
        return self._outages.hears_any(host, _neighbours(self._topology, host))

    def _watch(
        self,
        nodes: Callable[[], Mapping[str, int]],
        timeout_s: float,
        on_silent: Callable[[str], object],
        on_heard: Callable[[str], None],
        on_answer: Callable[[str], None] = lambda _node: None,
    ) -> None:
        def answered(node: str, said: dict[str, Any]) -> None:
            on_answer(node)
            self._outages.on_answer(node, said["unheard"])

        interval_s = self._recovery.heartbeat_interval_s
        self._heartbeats.append(
            Heartbeats(
                nodes,
                self._connect,
                interval_s,
                timeout_s,
                on_silent,
                on_heard,
                on_answer=answered,
                on_round=lambda slow: self._outages.on_round(
                    (*self._topology.switches, *self._attendance.present()), slow
                ),
            )
        )

    def routes(self, node: str) -> dict[str, int]:
        """The face towards every node that ``node`` can reach now."""
        return dict(self._placements.survivors.next_hops[node])

    def groups(self) -> list[dict[str, Any]]:
        """The groups there are, for status displays."""
        with self._lock:
            return self._groups.describe()

    def plans(self) -> list[dict[str, Any]]:
        """The groups' plans, for who checks what their nodes sign.

        Of each group its ``ranks``, and ``plans``: by name prefix, as it was made and as its sums
        are placed now.
        """
        with self._lock:
            return self._groups.describe_plans()

    def close(self) -> None:
        """Stop answering."""
        for heartbeats in self._heartbeats:
            heartbeats.close()
        self._server.close()
        self._announcements.close()
        self._attendance.close()
        self._messenger.close()

    def _described(self, group: Group, node: str) -> dict[str, Any]:
        return {
            "keys": self._keys.for_member(group, node),
            "number": group.number,
            "missing": group.ranks_but(group.joined),
            "plans": _documents(group.placed),
            "made": _documents(group.plans) if group.placed != group.plans else None,
        }

    def _resume(self, record: LaunchRecord, hosts: Sequence[str]) -> None:
        """Learn what the controller before knew, and bring every node to one state."""
        self._jobs.restore((known.job for known in record.jobs.values()), record.admitted)
        for known in record.jobs.values():
            if known.keys is not None:
                message = job_message(known.job, known.keys, admits_others=self._announces)
                self._placements.restore_job(message)
                self._keys.open_job(known.job.name, known.groups)
        reports = call_roll(hosts, self._connect)
        for worker in reports:
            self._note_supervised(worker.node, worker.pid)
            self._keys.meet(worker.node, worker.sealing_key)
            self._attendance.restore(worker.node, worker.pid, worker.incarnation)
        with self._lock:
            self._groups.restore(reports, record)
            self._pools.restore(reports)
            self._announcements.keep_apart(self._jobs.prefixes())
            self._announcements.restore(self._ask_for_registrations(reports))
            self._adapt(Survivors(self._topology, record.lost))
        if record.watches:
            self.watch_nodes()

    def _ask_for_registrations(self, workers: Sequence[WorkerReport]) -> dict[str, Registrations]:
        nodes = (*self._topology.switches, *(worker.node for worker in workers))
        answers = self._messenger.ask_each(nodes, "registered")
        return {node: Registrations.model_validate(said) for node, said in answers.items()}

    def _adapt(self, survivors: Survivors) -> None:
        self._placements.survivors = survivors
        self._groups.adapt()
        self._announcements.adapt(survivors)
        for node in self._attendance.present():
            self._messenger.tell([node], "set_routes", routes=self.routes(node))

    def _change(self, change: Change) -> None:
        before = self._placements.survivors
        if (survivors := change(before)) is not before:
            self._adapt(survivors)

    def _process_ended(self, node: str, _incarnation: int, pid: int) -> None:
        if self._supervised.get(node) == pid:
            return
        with self._lock:
            # The watch is a thread of its own: a successor may have attached before it says so.
            if node not in self._attendance.present():
                self.fail(node, f"ended without closing its worker (process {pid})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _authority_of(record: LaunchRecord) -> KeyAuthority | None:
    if record.authority is None:
        return None
    return KeyAuthority.from_hex(record.authority, record.generation)


def _neighbours(topology: Topology, node: str) -> set[str]:
    ends = ({link.a.node, link.b.node} for link in topology.links)
    return {end for pair in ends if node in pair for end in pair} - {node}


def _documents(plans: Mapping[str, Plan]) -> dict[str, dict[str, Any]]:
    return {prefix: plan.to_dict() for prefix, plan in plans.items()}
