"""The worker of this process."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from innet.control.agent import NodeAgent
from innet.control.client import ControlClient, ipc_address
from innet.control.controller import rule_messages
from innet.emulation.node_config import NODE_CONFIG_VARIABLE, NodeConfig
from innet.errors import CollectiveError, ControlError, DeadlineExceeded, EmulationError
from innet.node import open_node
from innet.plans import Plan
from innet.security.keys import KEYS_VARIABLE, NodeKeys
from innet.settings import SETTINGS_VARIABLE, Settings
from innet.topology import Topology, parse_yaml
from innet.trace.recorder import Recorder
from innet.worker.collector import Collector
from innet.worker.job_file import ALGORITHM_VARIABLE, JOB_VARIABLE, JobFile
from innet.worker.membership import Failure, Membership

_POLL_S = 0.01
_LEAVE_TIMEOUT_S = 20.0

_log = logging.getLogger(__name__)


class Worker:
    """One rank's process: its node, its agent, and its connection to the controller.

    Attributes:
        rank: this process's place among the job's ranks.
        node: the native node.
        collector: delivers the ends of the node's operations, of all groups.
        object_key: what this rank's objects are signed with.
        settings: settings of the run.
        job: the job file.
        trace: writes down what happens here; ``None`` when the job is not traced.
    """

    def __init__(
        self, config: NodeConfig, settings: Settings, keys: NodeKeys, job: JobFile
    ) -> None:
        self.config = config
        self.settings = settings
        self.job = job
        self.rank = job.ranks.index(config.node)
        self.node = open_node(config, settings, keys)
        self.collector = Collector(self.node)
        self.object_key = keys.object_key()
        self.trace = Recorder.from_environment(self.node, self.rank, config.node)
        self._lock = threading.Lock()
        self._memberships: dict[str, Membership] = {}
        self._early_failures: dict[tuple[str, int], Failure] = {}
        self._controller = ControlClient(
            ipc_address(job.controller_socket), who="the controller of this run"
        )
        self._agent = NodeAgent(self.node, config, self._on_group_failure)
        self._closed = False

    @classmethod
    def from_environment(cls) -> Worker:
        """Open the worker that the launcher described.

        Raises:
            EmulationError: this process was not started by ``innet run``.
        """
        names = (NODE_CONFIG_VARIABLE, SETTINGS_VARIABLE, KEYS_VARIABLE, JOB_VARIABLE)
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise EmulationError(
                f"this process is no worker of a run ({', '.join(missing)} not set). "
                "Start it with: innet run TOPOLOGY -- python " + (sys.argv[0] or "train.py")
            )
        paths = [Path(os.environ[name]) for name in names]
        return cls(
            NodeConfig.load(paths[0]),
            Settings.load(paths[1]),
            NodeKeys.load(paths[2]),
            JobFile.load(paths[3]),
        )

    def topology(self) -> Topology:
        """The network this worker runs on."""
        return parse_yaml(self.job.topology)

    def default_algorithm(self) -> str:
        """What the launcher chose for programs that do not choose."""
        return os.environ.get(ALGORITHM_VARIABLE, "auto")

    def join_group(
        self, name: str, algorithm: str, nodes: Sequence[str] | None, timeout_s: float
    ) -> Membership:
        """Join the group ``name`` with the processes on ``nodes``, and wait until all have.

        Args:
            name: of the group; groups without a common member may share one.
            algorithm: of its plans, as :func:`innet.init` takes it.
            nodes: the node of each rank of the group; every rank of the job by default.
            timeout_s: how long to wait for the others.

        Raises:
            CollectiveError: this rank is in a group of that name, or not among ``nodes``.
            DeadlineExceeded: some ranks did not come in time; the message names them.
            ControlError, PlanError: as :meth:`innet.control.controller.Controller.join_group`.
        """
        ranks = self.job.ranks if nodes is None else tuple(nodes)
        rank = self._rank_among(ranks)
        if name in self._memberships:
            raise CollectiveError(
                f"{self.config.node} is in group {name!r} already. Close its communicator first, "
                "or give this group another name: innet.init(group=...)"
            )
        answer = self._meet(name, algorithm, ranks, timeout_s)
        plans = {prefix: Plan.from_dict(plan) for prefix, plan in answer["plans"].items()}
        membership = Membership(name, answer["number"], ranks, rank, plans)
        for prefix, plan in plans.items():
            self._install_own_rules(prefix, plan)
        with self._lock:
            self._memberships[name] = membership
            membership.failure = self._early_failures.pop((name, membership.number), None)
        return membership

    def leave_group(self, membership: Membership) -> None:
        """Stay until every rank of the group has what it needs from this one."""
        deadline_s = time.monotonic() + _LEAVE_TIMEOUT_S
        try:
            while membership.failure is None and time.monotonic() < deadline_s:
                answer = self._controller.ask(
                    "leave_group",
                    group=membership.name,
                    number=membership.number,
                    node=self.config.node,
                )
                if not answer["missing"]:
                    return
                time.sleep(_POLL_S)
        except ControlError as error:
            _log.info("left group %s without the controller: %s", membership.name, error)
        finally:
            with self._lock:
                self._memberships.pop(membership.name, None)

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End the group in this process, with an error that says ``why``, and leave it at once."""
        self._end_group(membership, why, None)
        with self._lock:
            self._memberships.pop(membership.name, None)

    def fail(self, why: str) -> None:
        """This process can go on no longer: end its groups, and tell the others at once."""
        with self._lock:
            memberships = [m for m in self._memberships.values() if m.failure is None]
        for membership in memberships:
            rank = membership.rank
            self._end_group(membership, f"rank {rank} ({self.config.node}) {why}", rank)
        self._report_failure(why)

    def _report_failure(self, why: str) -> None:
        try:
            self._controller.ask("fail", timeout_s=2.0, node=self.config.node, why=why)
        except ControlError as error:
            _log.info("the controller could not be told that this rank %s: %s", why, error)

    def close(self) -> None:
        """Close the node and its sockets. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self.trace is not None:
            self.trace.close()
        self._agent.close()
        self.collector.close()
        self.node.stop(f"rank {self.rank} closed its node")
        self._controller.close()

    def _install_own_rules(self, prefix: str, plan: Plan) -> None:
        self.node.remove_group(prefix)
        for rule in rule_messages(plan, self.config.node):
            operands = [(interval, f"/n/{node}") for interval, node in rule["operands"]]
            self.node.install_rule(prefix, rule["interval"], operands, rule["primary"])

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
        deadline_s = time.monotonic() + timeout_s
        while True:
            answer: dict[str, Any] = self._controller.ask(
                "join_group",
                group=name,
                algorithm=algorithm,
                ranks=list(nodes),
                node=self.config.node,
            )
            missing = answer["missing"]
            if not missing:
                return answer
            if time.monotonic() > deadline_s:
                who = ", ".join(f"rank {rank} ({nodes[rank]})" for rank in missing)
                raise DeadlineExceeded(
                    f"{who} did not join group {name!r} within {timeout_s:g} s; "
                    "does every rank call innet.init() with the same arguments?"
                )
            time.sleep(_POLL_S)

    def _on_group_failure(self, name: str, number: int, why: str, rank: int) -> None:
        with self._lock:
            membership = self._memberships.get(name)
            if membership is None or membership.number != number:
                # Our own answer that all have come may still be on its way to `join_group`.
                self._early_failures[name, number] = (why, rank)
                return
        self._end_group(membership, why, rank)

    def _end_group(self, membership: Membership, why: str, rank: int | None) -> None:
        membership.failure = (why, rank)
        for prefix in membership.plans:
            self.node.abort(prefix, why)


_lock = threading.Lock()
_worker: Worker | None = None
_exit_hooks: list[Callable[[], None]] = []


def current_worker() -> Worker:
    """The worker of this process, opened at the first call.

    Raises:
        EmulationError: this process was not started by ``innet run``.
    """
    global _worker
    with _lock:
        if _worker is None:
            _worker = Worker.from_environment()
            _report_uncaught_errors(_worker)
            atexit.register(close_worker)
        return _worker


def before_close(hook: Callable[[], None]) -> None:
    """Run ``hook`` before the process's worker closes (communicators leave their groups)."""
    _exit_hooks.append(hook)


def close_worker() -> None:
    """Close this process's worker, if it was opened."""
    global _worker
    with _lock:
        worker, _worker = _worker, None
        hooks = list(reversed(_exit_hooks))
        _exit_hooks.clear()
    if worker is not None:
        for hook in hooks:
            hook()
        worker.close()


def _report_uncaught_errors(worker: Worker) -> None:
    """Others hear at once of the exception that ends this rank, not only when they time out."""
    previous = sys.excepthook

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        worker.fail(f"failed with {kind.__name__}: {error}".rstrip(": "))
        previous(kind, error, trace)

    sys.excepthook = report
