"""A worker: one rank's process, its node and its groups."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innet.backoff import Backoff
from innet.errors import (
    TIMEOUT_HINT,
    CollectiveError,
    ControlError,
    DeadlineExceeded,
    EmulationError,
    RankFailed,
)
from innet.node import open_node
from innet.node.agent import NodeAgent
from innet.node.announcer import Announcer
from innet.node.control.protocol import Failure
from innet.node.control.worker_reports import GroupReport, WorkerReport
from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig
from innet.node.node_telemetry import NodeTelemetry
from innet.node.rules import install_rules
from innet.plans import Plan
from innet.security.certificate_file import load_packets
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.security.credential_packets import CredentialOpener
from innet.security.keys import KEYS_VARIABLE, NodeKeys
from innet.settings import SETTINGS_VARIABLE, Settings
from innet.telemetry.events import report
from innet.telemetry.logs import LogContext, configure_logs
from innet.telemetry.trace.recorder import Recorder
from innet.worker.asked_objects import AskedObjects
from innet.worker.background import BackgroundThread
from innet.worker.collector import Collector
from innet.worker.controller_connection import ControllerConnection
from innet.worker.exit_hooks import before_close, no_more_before_close
from innet.worker.job_file import ALGORITHM_VARIABLE, JOB_VARIABLE, JobFile
from innet.worker.membership import Membership
from innet.worker.pools import WorkerPools

if TYPE_CHECKING:
    from innet.topology import Topology

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.01
_LEAVE_TIMEOUT_S = 20.0
_OWN_JOB_WEIGHT = 1
"""Of the node's job in its own tables: as much as of the names of no job."""
_SEED_STEP = 0x9E3779B97F4B
"""Odd, and so no two of the first 2**48 incarnations have a seed in common."""

Placement = tuple[Mapping[str, Plan], str | None]
"""A group's plans, and the keys that go with where they are placed."""

_log = logging.getLogger(__name__)


class Worker:
    """One rank's process: its node, its agent, and its connection to the controller.

    Attributes:
        rank: this process's place among the job's ranks.
        incarnation: counts the processes that have stood for this host, from 1.
        node: the native node.
        collector: delivers the ends of the node's operations, of all groups.
        object_key: what this rank's objects are signed with.
        settings: settings of the run.
        job: the job file.
        asked_objects: tells of the objects that the node is asked for.
        pools: the pools of blocks that it is a member of.
        pool_secret: of its job's own tenant of pools.
        trace: writes down what happens here; ``None`` when the job is not traced.
    """

    def __init__(
        self, config: NodeConfig, settings: Settings, keys: NodeKeys, job: JobFile
    ) -> None:
        keep_keys_out_of_core_dumps(settings.security)
        self.config = config
        self.settings = settings
        self.job = job
        self.rank = job.ranks.index(config.node)
        configure_logs(
            settings.log,
            LogContext(node=config.node, run=config.run_id, job=job.name, rank=self.rank),
            is_users_program=True,
        )
        self._controller = ControllerConnection(
            job.controller_socket, settings.recovery.controller_patience_s
        )
        self._failed: str | None = None
        self._credentials = _opener_of(config.node, keys)
        self._sealing_key = None if self._credentials is None else self._credentials.public
        self.incarnation: int = self._controller.ask(
            "attach", node=config.node, pid=os.getpid(), sealing_key=self._sealing_key
        )
        self.node = open_node(_of_incarnation(config, self.incarnation), settings, keys)
        self._install_own_job()
        self.node.serve_packets(load_packets(job.certificates))
        self.collector = Collector(self.node)
        self.asked_objects = AskedObjects(self.node)
        self.pools = WorkerPools(self._controller, config.node, self.incarnation)
        self.pool_secret = keys.pool_secret_bytes()
        self.object_key = keys.object_key()
        self.trace = Recorder.from_environment(self.node, self.rank, config.node)
        self._lock = threading.Lock()
        self._memberships: dict[str, Membership] = {}
        self._leaving: dict[tuple[str, int], Membership] = {}
        self._all_left = threading.Condition(self._lock)
        self._early_failures: dict[tuple[str, int], Failure] = {}
        self._early_placements: dict[tuple[str, int], Placement] = {}
        self._agent = NodeAgent(
            self.node,
            config,
            self,
            announcer=Announcer(self.node, config, self.incarnation)
            if settings.ndn.announce
            else None,
        )
        # After the agent listens, so that a change from now on is heard, and none before missed.
        self._agent.set_routes(self._controller.ask("routes", node=config.node))
        self._telemetry = NodeTelemetry(self.node, config, settings, keys, self._agent.status)
        self._closed = False

    @classmethod
    def from_environment(cls) -> Worker:
        """Open the worker that the launcher described.

        Raises:
            EmulationError: this process was not started by ``innet run``, or is one of several
                ranks on its host.
            HostTaken: another process of this host has its node.
        """
        names = (NODE_CONFIG_VARIABLE, SETTINGS_VARIABLE, KEYS_VARIABLE, JOB_VARIABLE)
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise EmulationError(
                f"this process is no worker of a run ({', '.join(missing)} not set). "
                "Start it with: innet run TOPOLOGY -- python " + (sys.argv[0] or "train.py")
            )
        if (ranks_here := os.environ.get("LOCAL_WORLD_SIZE", "1")) != "1":
            raise EmulationError(
                f"{ranks_here} ranks were started on one host, which has one node and so one rank. "
                "Leave torchrun's --nproc-per-node out, and take a topology with more hosts, such "
                f"as star:{ranks_here}"
            )
        paths = [Path(os.environ[name]) for name in names]
        return cls(
            NodeConfig.load(paths[0]),
            Settings.load(paths[1]),
            NodeKeys.load(paths[2]),
            JobFile.load(paths[3]),
        )

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet carries."""
        return self.job.segment_bytes

    @property
    def object_segment_bytes(self) -> int:
        """Bytes of a published object that one packet carries: NDN programs fetch objects, too."""
        return min(self.segment_bytes, self.block_segment_bytes)

    @property
    def block_segment_bytes(self) -> int:
        """Bytes of a pool's block that one packet carries."""
        return self.job.block_segment_bytes

    def before_close(self, hook: Callable[[], None]) -> None:
        """Run ``hook`` before the process's worker closes."""
        before_close(hook)

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """Take back what :meth:`before_close` was told: what the hook ends has ended."""
        no_more_before_close(hook)

    def topology(self) -> Topology:
        """The network this worker runs on."""
        from innet.topology import Topology  # for those alone who choose among algorithms

        return Topology.model_validate_json(self.job.topology)

    def default_algorithm(self) -> str:
        """What the launcher chose for programs that do not choose."""
        return os.environ.get(ALGORITHM_VARIABLE, "auto")

    def join_group(
        self, name: str, algorithm: str, nodes: Sequence[str] | None, timeout_s: float
    ) -> Membership:
        """Join the group ``name`` with the processes on ``nodes``, and wait until all have.

        Register the group's names then, and wait for the others once more (:meth:`await_ready`)
        before anything is asked of them.

        Args:
            name: of the group; groups without a common member may share one.
            algorithm: of its plans, as :func:`innet.init` takes it.
            nodes: the node of each rank of the group; every rank of the job by default.
            timeout_s: how long to wait for the others.

        Raises:
            CollectiveError: this rank is in a group of that name, or not among ``nodes``.
            DeadlineExceeded: some ranks did not come in time; the message names them.
            ControlError, PlanError: as ``Controller.join_group``.
        """
        ranks = self.job.ranks if nodes is None else tuple(nodes)
        rank = self._rank_among(ranks)
        if name in self._memberships:
            raise CollectiveError(
                f"{self.config.node} is in group {name!r} already. Close its communicator first, "
                "or give this group another name: innet.init(group=...)"
            )
        answer = self._meet(name, algorithm, ranks, timeout_s)
        return self._enter(name, ranks, rank, algorithm, answer)

    def shrink_group(self, failed: Membership, timeout_s: float) -> Membership:
        """Join the group of those who survived the failure of ``failed``, which has been left.

        As :meth:`join_group`, and to be followed by the same. When one more rank fails meanwhile,
        call it again.

        Raises:
            DeadlineExceeded: some survivors did not come in time; the message names them.
            ControlError, PlanError: as
                :meth:`innet.cluster.control.controller.Controller.shrink_group`.
        """
        answer: dict[str, Any] = {}
        survivors: list[str] = []

        def missing() -> list[int]:
            answer.update(self._ask_of(failed, "shrink_group"))
            survivors[:] = answer["ranks"]
            return list(answer["missing"])

        _poll(
            missing,
            survivors,
            timeout_s,
            f"survived the failure of group {failed.name!r}, and did not come to the next one",
            "does every rank call shrink() or recover()?",
        )
        ranks = tuple(survivors)
        rank = ranks.index(self.config.node)
        return self._enter(answer["name"], ranks, rank, failed.algorithm, answer)

    def require_failed(self, membership: Membership) -> None:
        """See to it that the group counts as failed, and that this process is known to go on.

        The controller is told what was heard here: who left said so to the other ranks first.

        Raises:
            ControlError: no rank of it has failed or left.
        """
        self._ask_of(membership, "shrink_group", heard=membership.heard)

    def failure_of(self, membership: Membership) -> Failure | None:
        """What has ended the group, which its own members may not have heard of yet."""
        if membership.failure is None:
            said = self._controller.ask(
                "group_failure", group=membership.name, number=membership.number
            )
            return None if said is None else (said["why"], said["rank"])
        return membership.failure

    def expel(self, node: str, why: str) -> None:
        """The process on ``node`` counts as failed from now on, and is ended."""
        self._controller.ask("expel", node=node, why=why)

    def _enter(
        self,
        name: str,
        nodes: tuple[str, ...],
        rank: int,
        algorithm: str,
        answer: Mapping[str, Any],
    ) -> Membership:
        plans = _plans_of(answer["plans"])
        made = _plans_of(answer["made"]) if answer["made"] is not None else plans
        membership = Membership(name, answer["number"], nodes, rank, plans, algorithm, made)
        for prefix in plans:
            self.node.remove_group(prefix)
        self._take_keys(answer["keys"])
        for prefix, plan in plans.items():
            self._install_rules(prefix, plan)
        with self._lock:
            self._memberships[name] = membership
            membership.failure = self._early_failures.pop((name, membership.number), None)
            placed = self._early_placements.pop((name, membership.number), None)
            _drop_of_group(self._early_failures, name)
            _drop_of_group(self._early_placements, name)
        if placed is not None:
            self._place(membership, *placed)
        what = f"{self.config.node} is rank {rank} of {len(nodes)} in group {name!r}"
        report("group_joined", what, group=name, rank=rank, size=len(nodes), job=membership.job)
        return membership

    def _take_keys(self, packet: str | None) -> None:
        if self._credentials is not None and packet is not None:
            self._credentials.open(bytes.fromhex(packet)).install(self.node)

    def await_ready(self, membership: Membership, timeout_s: float) -> None:
        """This process answers for all its names of the group; wait until every rank does.

        Raises:
            RankFailed: a rank of the group failed before all were ready.
            DeadlineExceeded: some ranks were not ready in time; the message names them.
            ControlError: a rank has ended or left instead.
        """

        def missing() -> list[int]:
            answer = self._ask_of(membership, "ready_group")
            membership.ready = True
            failure = answer["failure"]
            if failure is not None:
                raise RankFailed(
                    failure["why"],
                    operation=f"innet.init(group={membership.name!r})",
                    rank=failure["rank"],
                )
            return list(answer["missing"])

        _poll(
            missing,
            membership.nodes,
            timeout_s,
            f"joined group {membership.name!r} and did not get ready",
            "is its process stopped, or the machine overloaded?",
        )

    def leave_group(self, membership: Membership) -> None:
        """Say that this process needs nothing more of the group.

        What others may still need of it stays until all have left, and is released then: groups
        may be left in another order on every rank.
        """
        key = membership.name, membership.number
        with self._lock:
            self._memberships.pop(membership.name, None)
            self._leaving[key] = membership
        what = f"{self.config.node} has left group {membership.name!r}"
        report("group_left", what, group=membership.name, job=membership.job)
        if membership.failure is not None or not self._others_use(membership):
            self.on_group_over(*key)

    def pool_counters(self) -> list[dict[str, Any]]:
        """What the pools of this process have counted."""
        return self.pools.counters()

    def worker_report(self) -> WorkerReport:
        """Who this is, and what it is a member of: for a controller that has just begun."""
        with self._lock:
            places = [(m, False) for m in self._memberships.values()]
            places += [(m, True) for m in self._leaving.values()]
            return WorkerReport(
                node=self.config.node,
                pid=os.getpid(),
                incarnation=self.incarnation,
                failed=self._failed,
                sealing_key=self._sealing_key,
                groups=[_report_of(membership, left) for membership, left in places],
                pools=self.pools.reports(),
            )

    def on_group_over(self, group: str, number: int) -> None:
        """Free what is kept for a group that nobody needs any more."""
        with self._lock:
            membership = self._leaving.pop((group, number), None)
            self._all_left.notify_all()
        if membership is not None:
            self._forget_rules(membership)
            membership.release()

    def on_group_placed(
        self, group: str, number: int, plans: Mapping[str, Plan], keys: str | None
    ) -> None:
        """Ask for the sums of a group where they are made from now on."""
        with self._lock:
            membership = self._memberships.get(group)
            if membership is None or membership.number != number:
                self._early_placements[group, number] = plans, keys  # as with a failure, see there
                return
        self._place(membership, plans, keys)

    def _place(self, membership: Membership, plans: Mapping[str, Plan], keys: str | None) -> None:
        self._take_keys(keys)  # or nobody would be believed where sums are made from now on
        membership.plans = plans
        for prefix, plan in plans.items():
            self._install_rules(prefix, plan)
        membership.on_placed(plans)

    def on_group_failed(self, group: str, number: int, why: str, rank: int | None) -> None:
        """End what is under way in a group that has failed, as its ``rank`` has, if one did."""
        with self._lock:
            membership = self._memberships.get(group)
            if membership is None or membership.number != number:
                # Our own answer that all have come may still be on its way to `join_group`.
                self._early_failures[group, number] = (why, rank)
                membership = None
        if membership is not None:
            what = f"group {group!r} failed: {why}"
            report("peer_lost", what, group=group, rank=rank, job=membership.job)
            self._end_group(membership, why, rank)
        else:
            self.on_group_over(group, number)

    def present(self) -> tuple[str, ...]:
        """The job's hosts with a worker that has not failed, in the order of the job's ranks."""
        present = self._controller.ask("present")
        return tuple(node for node in self.job.ranks if node in present)

    def now_s(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def background(self, name: str) -> BackgroundThread:
        """A thread for what communicators do apart from the program."""
        return BackgroundThread(name)

    def ended(self) -> frozenset[str]:
        """The hosts whose process has ended as it should: nobody can ask it any more."""
        return frozenset(self._controller.ask("ended"))

    def stopped(self) -> frozenset[str]:
        """The hosts whose process neither answers the controller nor sends anything."""
        return frozenset(self._controller.ask("stopped"))

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End the group in this process, with an error that says ``why``, and leave it at once."""
        self._end_group(membership, why, None)
        self._others_use(membership)  # they need not wait for us, nor we for them
        self.leave_group(membership)

    def fail(self, why: str, *, of_another: bool = False) -> None:
        """This process can go on no longer: end its groups, and tell the others at once.

        Args:
            why: as the others read it.
            of_another: it ends because another rank did, which is the cause that others are told
                in the groups where that was heard.
        """
        with self._lock:
            memberships = [m for m in self._memberships.values() if m.failure is None]
        causes = []
        for membership in memberships:
            rank = membership.rank
            cause: Failure = (f"rank {rank} ({self.config.node}) {why}", rank)
            if of_another and (told := membership.heard or membership.blamed) is not None:
                cause = told
                causes.append((membership.name, membership.number, *cause))
            self._end_group(membership, *cause)
        self._failed = why
        self._report_failure(why, causes)

    def disown(self, why: str) -> None:
        """Take no part any more, and touch nothing: this is a copy of the worker, after a fork."""
        for membership in self._memberships.values():
            membership.failure = (why, None)
        # Its end would wait for its thread, which is in the other process: there is to be none.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.node))

    def _report_failure(self, why: str, causes: Sequence[tuple[str, int, str, int | None]]) -> None:
        try:
            self._controller.ask(
                "fail",
                patience_s=2.0,
                node=self.config.node,
                incarnation=self.incarnation,
                why=why,
                causes=causes,
            )
        except ControlError as error:
            _log.info("the controller could not be told that this rank %s: %s", why, error)

    def close(self) -> None:
        """Close the node and its sockets, once nobody needs it any more. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._wait_until_all_left()
        if self.trace is not None:
            self.trace.close()
        self._telemetry.close()
        self._agent.close()
        self.node.stop(f"rank {self.rank} closed its node")
        self.collector.close()
        try:
            self._controller.ask(
                "detach", patience_s=2.0, node=self.config.node, incarnation=self.incarnation
            )
        except ControlError as error:
            _log.info("the controller is gone before this rank: %s", error)
        self._controller.close()

    def _wait_until_all_left(self) -> None:
        with self._all_left:
            if not self._all_left.wait_for(lambda: not self._leaving, _LEAVE_TIMEOUT_S):
                names = ", ".join(sorted({name for name, _ in self._leaving}))
                _log.warning("others still use groups that this rank has left: %s", names)

    def _others_use(self, membership: Membership) -> bool:
        try:
            answer = self._ask_of(membership, "leave_group")
        except ControlError as error:
            _log.info("left group %s without the controller: %s", membership.name, error)
            return False
        return bool(answer["missing"])

    def _ask_of(self, membership: Membership, method: str, **more: Any) -> Any:
        """The controller's answer to a question about this process and a group."""
        return self._controller.ask(
            method,
            group=membership.name,
            number=membership.number,
            node=self.config.node,
            **more,
        )

    def _forget_rules(self, membership: Membership) -> None:
        for prefix in membership.plans:
            self.node.remove_group(prefix)

    def _install_own_job(self) -> None:
        """Let nobody but the holders of the job's keys put Data under its names into the node.

        NDN programs of this host may request them: so whoever has the job's anchor checks a job.
        """
        prefix = f"/{self.job.name}"
        self.node.install_job(prefix, _OWN_JOB_WEIGHT, None, [])  # the groups bring their keys
        self.node.let_programs_ask(prefix)

    def _install_rules(self, prefix: str, plan: Plan) -> None:
        install_rules(self.node, prefix, plan.rules_for(self.config.node))

    def _rank_among(self, nodes: tuple[str, ...]) -> int:
        strangers = [node for node in nodes if node not in self.job.ranks]
        if strangers or len(set(nodes)) != len(nodes):
            raise CollectiveError(
                f"a group's nodes must be different hosts of this job; got {', '.join(nodes)}, "
                f"the job has {', '.join(self.job.ranks)}"
            )
        if self.config.node not in nodes:
            raise CollectiveError(
                f"this process runs on {self.config.node}, which is not among the group's nodes "
                f"({', '.join(nodes) or 'none'}); only their processes call init() for it"
            )
        return nodes.index(self.config.node)

    def _meet(
        self, name: str, algorithm: str, nodes: tuple[str, ...], timeout_s: float
    ) -> dict[str, Any]:
        """The controller's answer once all ranks of the group have come."""
        answer: dict[str, Any] = {}

        def missing() -> list[int]:
            answer.update(
                self._controller.ask(
                    "join_group",
                    group=name,
                    algorithm=algorithm,
                    ranks=list(nodes),
                    node=self.config.node,
                )
            )
            return list(answer["missing"])

        _poll(
            missing,
            nodes,
            timeout_s,
            f"did not join group {name!r}",
            "does every rank call innet.init() with the same arguments?",
        )
        return answer

    def _end_group(self, membership: Membership, why: str, rank: int | None) -> None:
        membership.failure = (why, rank)
        for prefix in membership.plans:
            self.node.abort(prefix, why)


def _opener_of(node: str, keys: NodeKeys) -> CredentialOpener | None:
    return None if keys.authority is None else CredentialOpener(node, keys.authority)


def _plans_of(documents: Mapping[str, Any]) -> dict[str, Plan]:
    return {prefix: Plan.from_dict(plan) for prefix, plan in documents.items()}


def _report_of(membership: Membership, left: bool) -> GroupReport:
    return GroupReport(
        name=membership.name,
        number=membership.number,
        algorithm=membership.algorithm,
        ranks=membership.nodes,
        plans={prefix: plan.to_dict() for prefix, plan in membership.made.items()},
        ready=membership.ready,
        left=left,
        failure=membership.failure,
    )


def _drop_of_group(early: dict[tuple[str, int], Any], group: str) -> None:
    for stale in [key for key in early if key[0] == group]:
        del early[stale]


def _poll(
    missing: Callable[[], Sequence[int]],
    nodes: Sequence[str],
    timeout_s: float,
    did_what: str,
    question: str,
) -> None:
    """Ask which ranks are missing until none is.

    Raises:
        DeadlineExceeded: ``timeout_s`` passed; the message says who ``did_what``.
    """
    deadline_s = time.monotonic() + timeout_s
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, variation=0)
    while ranks := missing():
        if time.monotonic() > deadline_s:
            who = ", ".join(f"rank {rank} ({nodes[rank]})" for rank in ranks)
            raise DeadlineExceeded(
                f"{who} {did_what} within {timeout_s:g} s ({TIMEOUT_HINT}); {question}"
            )
        time.sleep(backoff.next_s())


def _of_incarnation(config: NodeConfig, incarnation: int) -> NodeConfig:
    """Other random numbers than the process before had: its nonces are known on the way."""
    seed = (config.seed + (incarnation - 1) * _SEED_STEP) % 2**48
    return config.model_copy(update={"seed": seed})
