"""The worker of this process."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

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

_POLL_S = 0.01
_LEAVE_TIMEOUT_S = 20.0

FailureListener = Callable[[str, int | None], None]

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
        self.failure: tuple[str, int | None] | None = None
        self._listeners: list[FailureListener] = []
        self._group_numbers: dict[str, int] = {}
        self._controller = ControlClient(
            ipc_address(job.controller_socket), who="the controller of this run"
        )
        self._agent = NodeAgent(self.node, config, self._on_abort)
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

    def on_failure(self, listener: FailureListener) -> None:
        """Call ``listener`` (from another thread) when the job cannot go on."""
        self._listeners.append(listener)

    def join_group(self, name: str, algorithm: str, timeout_s: float) -> dict[str, Plan]:
        """Join the group ``name`` with every rank of the job; its plans by name prefix.

        Raises:
            CollectiveError: this rank is in a group of that name.
            DeadlineExceeded: some ranks did not come in time; the message names them.
            ControlError, PlanError: as :meth:`innet.control.controller.Controller.join_group`.
        """
        if name in self._group_numbers:
            raise CollectiveError(
                f"rank {self.rank} is in group {name!r} already. Close its communicator first, or "
                "give this group another name: innet.init(group=...)"
            )
        deadline_s = time.monotonic() + timeout_s
        while True:
            answer = self._controller.ask(
                "join_group",
                group=name,
                algorithm=algorithm,
                ranks=list(self.job.ranks),
                rank=self.rank,
            )
            if not answer["missing"]:
                break
            if time.monotonic() > deadline_s:
                raise DeadlineExceeded(
                    f"ranks {answer['missing']} did not join group {name!r} within {timeout_s:g} s;"
                    " does every rank call innet.init() with the same arguments?"
                )
            self._raise_failure()
            time.sleep(_POLL_S)
        self._group_numbers[name] = answer["number"]
        plans = {prefix: Plan.from_dict(plan) for prefix, plan in answer["plans"].items()}
        for prefix, plan in plans.items():
            self._install_own_rules(prefix, plan)
        return plans

    def leave_group(self, name: str) -> None:
        """Stay until every rank of the group has what it needs from this one."""
        number = self._group_numbers.pop(name)
        deadline_s = time.monotonic() + _LEAVE_TIMEOUT_S
        while self.failure is None and time.monotonic() < deadline_s:
            try:
                answer = self._controller.ask(
                    "leave_group", group=name, number=number, rank=self.rank
                )
            except ControlError as error:
                _log.info("left group %s without the controller: %s", name, error)
                return
            if not answer["missing"]:
                return
            time.sleep(_POLL_S)

    def report_failure(self, why: str) -> None:
        """Tell everybody that this rank cannot go on."""
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

    def _on_abort(self, why: str, rank: int | None) -> None:
        self.failure = (why, rank)
        for listener in self._listeners:
            listener(why, rank)
        self.node.abort_all(why)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise CollectiveError(self.failure[0])


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
        if worker.failure is None:
            why = f"failed with {kind.__name__}: {error}".rstrip(": ")
            worker.failure = (f"rank {worker.rank} ({worker.config.node}) {why}", worker.rank)
            worker.report_failure(why)
        previous(kind, error, trace)

    sys.excepthook = report
