"""The controller of a run: SHArP's aggregation manager, as a state machine.

Events go in by ``on_`` methods, each with the time; actions come out of :meth:`Controller.take`. It
has no lock, clock, thread or socket: :mod:`.driver` runs it on asyncio, the simulator on virtual
time, and tests by hand. Its parts are the jobs (:mod:`.jobs`), the processes of hosts
(:mod:`.hosts`), groups (:mod:`.groups`), pools of blocks (:mod:`.pools`) and the network
(:mod:`.liveness`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from innet.cluster.control.actions import (
    Action,
    Deliver,
    Kill,
    MessageOutcome,
    Operation,
    OperationQueue,
    Outbox,
    Outcomes,
    Respond,
)
from innet.cluster.control.announcements import Announcements
from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.group_plans import GroupPlans
from innet.cluster.control.groups import GroupRegistry
from innet.cluster.control.hosts import HostProcesses, Registries
from innet.cluster.control.jobs import Job, JobRegistry, KnownJob, LaunchRecord, job_message
from innet.cluster.control.liveness import NetworkWatch, Pong
from innet.cluster.control.placements import LiveTopology, Placements
from innet.cluster.control.pools import PoolRegistry
from innet.cluster.control.sum_mover import SumMover
from innet.errors import ControlError
from innet.node.messages import ServedPrefixes, WorkerReport
from innet.node.requests import handler_of
from innet.plans import ProcessorCosts, choose_hosts
from innet.security.credential_packets import KeyAuthority
from innet.settings import Settings
from innet.topology import Topology
from innet.validation_messages import first_message

_REPORT_TIMEOUT_S = 1.0
"""Timeout of a worker's report to a restarted controller."""

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_log = logging.getLogger(__name__)


class Controller:
    """Keeps jobs, groups, pools and routes of a network, and handles failures of its nodes.

    A request is a method name with parameters; :attr:`methods` lists them. Requests and other
    events that change the state are *operations*: one runs at a time, also while it waits for
    nodes, and the others queue.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        settings: Settings | None = None,
        record: LaunchRecord | None = None,
        processor: ProcessorCosts | None = None,
    ) -> None:
        """A controller of ``topology``.

        Args:
            topology: of the network.
            settings: of the network.
            record: of a controller that this one replaces.
            processor: what the work of nodes costs; without it, links alone hold sums up.
        """
        record = record or LaunchRecord()
        settings = settings or Settings()
        live = LiveTopology(topology)
        self._now_s = 0.0
        self._topology = topology
        self._announces = settings.ndn.announce
        self._outbox = outbox = Outbox()
        self._operations = OperationQueue(outbox)
        self._jobs = JobRegistry(topology.hosts)
        self._keys = keys = GroupKeys(_authority_of(record), outbox)
        self._placements = placements = Placements(live, outbox)
        self._pools = pools = PoolRegistry(placements, keys.network)
        self._groups = groups = GroupRegistry(
            self._jobs, GroupPlans(topology, record.generation), placements, keys, outbox
        )
        self._announcements = announcements = Announcements(
            live, outbox, topology.switches, record.generation
        )
        registries = Registries(groups, pools, announcements, keys, outbox)
        self._hosts = hosts = HostProcesses(topology.hosts, registries, record.generation)
        self._network = network = NetworkWatch(
            topology, registries, placements, hosts, self._operations, settings.recovery
        )
        self._mover = mover = SumMover(
            topology,
            (self._jobs, groups, pools),
            placements,
            settings.placement,
            outbox,
            processor=processor,
        )
        groups.load_beside = mover.load_beside
        pools.share_of = mover.share_of
        self.methods: Mapping[str, Callable[..., Any]] = {
            "attach": hosts.attach,
            "detach": hosts.detach,
            "announce": hosts.announce,
            "present": hosts.present,
            "gone": groups.gone,
            "stopped": network.stopped,
            "join_group": groups.join,
            "ready_group": groups.ready,
            "group_failure": groups.failure_of,
            "shrink_group": groups.shrink,
            "leave_groups": groups.leave_groups,
            "expel": hosts.give_up,
            "fail": hosts.fail_incarnation,
            "open_pool": hosts.open_pool,
            "leave_pool": hosts.leave_pool,
            "empty_pool_caches": hosts.empty_pool_caches,
            "pool_members": pools.members,
            "pools": pools.describe,
            "groups": groups.describe,
            "plans": groups.describe_plans,
            "jobs": self._jobs.describe,
            "overview": lambda: {
                "jobs": self._jobs.describe(),
                "groups": groups.describe(),
                "pools": pools.describe(),
                "cut": placements.live.cut,
            },
            "routes": network.routes,
            "load": mover.describe,
            "ping": lambda: None,
            "admit_job": self._admit_job,
            "open_job": self._open_job,
            "close_job": self._close_job,
            "fail_node": hosts.fail,
            "lose_node": hosts.lose,
            "end_node": hosts.end,
            "failures": groups.failures,
            "used_hosts": hosts.used,
            "lose_switch": network.lose_switch,
            "restore_switch": network.restore_switch,
            "watch_nodes": lambda: network.watch(self._now_s),
        }
        """The requests of workers, nodes, the launcher and displays, by name."""
        if record.generation > 0:
            self._operations.add(lambda: self._resume(record))

    def on_request(
        self, request: Hashable, method: str, params: Mapping[str, Any], now_s: float
    ) -> None:
        """Somebody has sent a request; a :class:`Respond` with ``request`` will reply to it."""
        self._now_s = now_s

        def finish(result: Any, error: Exception | None) -> None:
            self._outbox.put(Respond(request, result, error))

        self._operations.add(lambda: handler_of(method, self.methods)(**params), finish)

    def on_sent(self, number: int, outcomes: Sequence[MessageOutcome], now_s: float) -> None:
        """A :class:`Send` is done, with an outcome for each message."""
        self._now_s = now_s
        self._outbox.sent(number, outcomes)
        self._operations.advance()

    def on_pong(self, pong: Pong, now_s: float) -> None:
        """A node has answered a :class:`Ping`, or has not in time."""
        self._now_s = now_s
        if pong.node in self._topology.links_of:
            pong = pong.about(self._topology.links_of[pong.node])
        if pong.reading is not None:
            self._mover.on_reading(pong.node, pong.reading)
        self._network.on_pong(pong, now_s)

    def on_process_ended(
        self, node: str, incarnation: int, now_s: float, *, is_supervised: bool, why: str = ""
    ) -> None:
        """A watched process has ended; of a supervised one, the launcher will say how.

        ``why``: if it is not an end of the process itself, such as the loss of its machine.
        """
        self._now_s = now_s
        self._operations.add(lambda: self._hosts.on_ended(node, incarnation, is_supervised, why))

    def on_timer(self, now_s: float) -> None:
        """Time has passed; call it at :attr:`next_timer_s`."""
        self._now_s = now_s
        self._announcements.on_timer(now_s)
        self._network.on_timer(now_s)
        if self._mover.begins_review(now_s):
            self._operations.add(self._mover.review)

    def on_computed(self, result: Any, now_s: float) -> None:
        """The function of a :class:`Compute` has returned ``result``; ``None``: it has failed."""
        self._now_s = now_s
        self._operations.add(lambda: self._mover.on_compared(result, now_s))

    @property
    def next_timer_s(self) -> float | None:
        """When to call :meth:`on_timer`; ``None``: at no time."""
        times = (self._announcements.next_round_s, self._network.next_round_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def take(self) -> list[Action]:
        """The actions since the last call, in order."""
        return self._outbox.take()

    def _admit_job(
        self,
        name: str | None,
        hosts: Sequence[str] | None = None,
        weight: int = 1,
        ranks: int | None = None,
    ) -> Job:
        """Give ``hosts`` to a new job, with a prefix that nothing else had on this network.

        Without ``hosts``, it gets free ones for ``ranks`` ranks.
        """
        if hosts is None:
            taken = {host for job in self._jobs.describe() for host in job["hosts"]}
            taken |= self._placements.live.out_of_reach
            load = self._mover.load_beside()
            hosts = choose_hosts(self._topology, ranks or 0, taken=taken, load=load).hosts
        job = self._jobs.admit(name, hosts, weight)
        self._announcements.keep_apart(self._jobs.prefixes())
        return job

    def _open_job(self, **told: Any) -> Operation[None]:
        """Have all switches serve an admitted job (see :class:`KnownJob`)."""
        known = KnownJob.model_validate(told)
        if known.keys is None:
            raise ControlError(f"job {known.job.name} has no keys, and cannot be served")
        message = job_message(known.job, known.keys, admits_others=self._announces)
        yield from self._placements.open_job(message)
        self._keys.open_job(known.job.name, known.groups)

    def _close_job(self, **told: Any) -> Operation[None]:
        """A job is over: nothing of it is left on the switches, and its hosts are free."""
        job = KnownJob.model_validate(told).job
        self._groups.forget(job)
        for host in job.hosts:
            self._outbox.put(Kill(host))  # what a worker started may have outlived it
        yield from self._hosts.end_job(job.hosts)
        yield from self._placements.close_job(job.prefix)
        self._keys.close_job(job.name)
        self._jobs.remove(job)
        self._announcements.keep_apart(self._jobs.prefixes())

    def _resume(self, record: LaunchRecord) -> Operation[None]:
        """Take over the records of the previous controller process, and update every node."""
        self._jobs.restore((known.job for known in record.jobs.values()), record.admitted)
        for known in record.jobs.values():
            if known.keys is not None:
                message = job_message(known.job, known.keys, admits_others=self._announces)
                self._placements.restore_job(message)
                self._keys.open_job(known.job.name, known.groups)
        answers = yield Deliver(
            {host: [("memberships", {})] for host in self._topology.hosts}, _REPORT_TIMEOUT_S
        )
        reports = _reports(answers, WorkerReport)
        workers = [report for node, report in reports.items() if report.node == node]
        for worker in workers:
            self._hosts.restore(worker)
        self._groups.restore(workers, record)
        self._mover.on_restored()
        self._pools.restore(workers)
        self._announcements.keep_apart(self._jobs.prefixes())
        nodes = (*self._topology.switches, *(worker.node for worker in workers))
        answers = yield Deliver({node: [("registered", {})] for node in nodes})
        self._announcements.restore(_reports(answers, ServedPrefixes))
        yield from self._network.adapt(LiveTopology(self._topology, record.lost))
        if record.watches:
            self._network.watch(self._now_s)


def _reports(outcomes: Outcomes, model: type[_ModelT]) -> dict[str, _ModelT]:
    """The valid report of each node. A malformed one is left out, and the others are used."""
    reports = {}
    for node, (outcome,) in outcomes.items():
        if outcome.result is not None:
            try:
                reports[node] = model.model_validate(outcome.result)
            except ValidationError as error:
                _log.warning("%s reports something else: %s", node, first_message(error))
    return reports


def _authority_of(record: LaunchRecord) -> KeyAuthority | None:
    if record.authority is None:
        return None
    return KeyAuthority.from_hex(record.authority, record.generation)
