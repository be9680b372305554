"""A worker: one rank's process, with its node and its connection to the controller."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innet.errors import ControlError, EmulationError
from innet.node import open_node
from innet.node.agent import NodeAgent
from innet.node.announcer import Announcer
from innet.node.messages import WorkerReport
from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig
from innet.node.node_telemetry import publish_node
from innet.node.runtime import network_threads
from innet.plans import Plan, SegmentRoom
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.security.credential_packets import CredentialOpener
from innet.security.keys import KEYS_VARIABLE, NodeKeys, load_packets
from innet.settings import SETTINGS_VARIABLE, Settings
from innet.telemetry.logs import LogContext, configure_logs
from innet.telemetry.trace.recorder import Recorder
from innet.worker.background import BackgroundThread
from innet.worker.collector import AskedObjects, Collector
from innet.worker.controller_connection import ControllerConnection, WorkerPools
from innet.worker.job_file import (
    ALGORITHM_VARIABLE,
    ATTACHED_VARIABLE,
    JOB_VARIABLE,
    LOCAL_RANKS_VARIABLE,
    JobFile,
)
from innet.worker.membership import Membership, Memberships
from innet.worker.process_end import before_close, no_more_before_close

if TYPE_CHECKING:
    from innet.topology import Topology

_OWN_JOB_WEIGHT = 1
"""Weight of the job in its own node's tables: that of names of no job."""
_SEED_STEP = 0x9E3779B97F4B
"""Odd, so that the first 2**48 incarnations have different seeds."""

_log = logging.getLogger(__name__)


class Worker:
    """One rank's process: its node, its agent, and its connection to the controller.

    Attributes:
        rank: this process's place among the job's ranks.
        incarnation: number of this process among those of this host, from 1.
        collector: delivers the ends of the node's operations, of all groups.
        object_key: signs this rank's objects.
        groups: the groups of ranks that it is in.
        asked_objects: reports the objects that other nodes request here.
        pools: the pools of blocks that it is a member of.
        pool_secret: of its job's own tenant of pools.
        network_key: public key of the controller's authority, hexadecimal; empty if there is none.
        trace: records the operations; ``None`` when the job is not traced.
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
        credentials = _opener_of(config.node, keys)
        self._sealing_key = None if credentials is None else credentials.public
        self.incarnation: int = self._controller.ask(
            "attach",
            node=config.node,
            pid=os.getpid(),
            sealing_key=self._sealing_key,
            is_attached=_is_attached(),
        )
        self.node = open_node(_of_incarnation(config, self.incarnation), settings, keys)
        self._install_own_job()
        self.node.serve_packets(load_packets(job.certificates))
        self.collector = Collector(self.node)
        self.asked_objects = AskedObjects(self.node)
        self.pools = WorkerPools(self._controller, config.node, self.incarnation)
        self.pool_secret = keys.pool_secret_bytes()
        self.network_key = keys.authority or ""
        self.object_key = keys.object_key()
        self.trace = Recorder.from_environment(self.node, self.rank, config.node)
        self.groups = Memberships(self.node, config.node, job.ranks, self._controller, credentials)
        self._agent = NodeAgent(
            self.node,
            config,
            self,
            announcer=Announcer(self.node, config, self.incarnation)
            if settings.ndn.announce
            else None,
        )
        # Once the agent listens: it receives every change after this answer.
        self._agent.set_routes(self._controller.ask("routes", node=config.node))
        self._stop_publishing = publish_node(self.node, config, settings, keys, self._agent.status)
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
                f"this process is not a worker of a run ({', '.join(missing)} not set). "
                f"Start it with: innet run TOPOLOGY -- python {sys.argv[0] or 'train.py'}; or set "
                "INNET_NETWORK to the name of a network that is up"
            )
        if os.environ.get(ATTACHED_VARIABLE) != str(os.getpid()):
            _require_a_node_each(os.environ)
        paths = [Path(os.environ[name]) for name in names]
        config = NodeConfig.load(paths[0])
        with network_threads(config.processors):
            return cls(
                config,
                Settings.load(paths[1]),
                NodeKeys.load(paths[2]),
                JobFile.load(paths[3]),
            )

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet carries."""
        return self.job.segment_bytes

    def segment_room_beside(self, overhead_bytes: int) -> SegmentRoom:
        """See :meth:`JobFile.segment_room_beside`."""
        return self.job.segment_room_beside(overhead_bytes)

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
        """Remove a hook of :meth:`before_close`: what it ends has ended."""
        no_more_before_close(hook)

    def topology(self) -> Topology:
        """The network this worker runs on."""
        from innet.topology import Topology  # only `auto` chooses by the topology

        return Topology.model_validate_json(self.job.topology)

    def ranks_on(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """The nodes of the job's ranks on hosts: its workers in place of a host with several."""
        if set(hosts) <= set(self.job.ranks):
            return tuple(hosts)
        workers_of = self.topology().workers_of
        of_job = {
            host: tuple(worker for worker in workers if worker in self.job.ranks)
            for host, workers in workers_of.items()
        }
        return tuple(node for host in hosts for node in of_job.get(host, (host,)))

    def default_algorithm(self) -> str:
        """The algorithm that the launcher set for programs that choose none."""
        return os.environ.get(ALGORITHM_VARIABLE, "auto")

    def expel(self, node: str, why: str) -> None:
        """Let the process on ``node`` count as failed from now on; it is killed unless attached."""
        self._controller.ask("expel", node=self.config.node, other=node, why=why)

    def leave_group(self, membership: Membership) -> None:
        """Report that this process needs nothing more of the group."""
        self.groups.leave(membership)

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End the group in this process, with an error that says ``why``, and leave it at once."""
        self.groups.abandon(membership, why)

    # Calls of the node's agent (its GroupListener).

    def pool_counters(self) -> list[dict[str, Any]]:
        """Counters of the pools of this process."""
        return self.pools.counters()

    def worker_report(self) -> WorkerReport:
        """This process and its memberships, for a controller that has started again."""
        return WorkerReport(
            node=self.config.node,
            pid=os.getpid(),
            incarnation=self.incarnation,
            failed=self._failed,
            sealing_key=self._sealing_key,
            is_attached=_is_attached(),
            groups=self.groups.reports(),
            pools=self.pools.reports(),
        )

    def on_group_over(self, group: str, number: int) -> None:
        """Free the memory of a group that all ranks have left."""
        self.groups.on_over(group, number)

    def on_group_placed(
        self, group: str, number: int, plans: Mapping[str, Plan], keys: str | None
    ) -> None:
        """Fetch the sums of a group from where they are made from now on."""
        self.groups.on_placed(group, number, plans, keys)

    def on_group_failed(self, group: str, number: int, why: str, rank: int | None) -> None:
        """End the operations in progress of a failed group."""
        self.groups.on_failed(group, number, why, rank)

    # Other processes of the job.

    def present(self) -> tuple[str, ...]:
        """The job's hosts with a worker that has not failed, in the order of the job's ranks."""
        present = self._controller.ask("present")
        return tuple(node for node in self.job.ranks if node in present)

    def now_s(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def background(self, name: str) -> BackgroundThread:
        """A thread that runs actions of a communicator beside the program."""
        return BackgroundThread(name, self.config.processors)

    def gone(self) -> dict[str, str]:
        """The hosts whose process has no successor, and how it failed; empty: it did not."""
        gone: dict[str, str] = self._controller.ask("gone")
        return gone

    def stopped(self) -> frozenset[str]:
        """The hosts whose process neither answers the controller nor sends anything."""
        return frozenset(self._controller.ask("stopped"))

    def fail(self, why: str, *, of_another: bool = False) -> None:
        """Fail the groups of this process, and inform the other ranks at once.

        Args:
            why: the end of a sentence that begins with this rank.
            of_another: it ends because another rank did; in groups that know the cause, others
                get that cause.
        """
        causes = self.groups.fail(why, of_another=of_another)
        self._failed = why
        self._report_failure(why, causes)

    def end_control(self) -> None:
        """Ask the controller nothing more: the run has ended, and may be started again."""
        self._controller.end()

    def disown(self, why: str) -> None:
        """Take no part any more, and touch nothing: this is a copy of the worker, after a fork."""
        self.groups.disown(why)
        # Its destructor would wait for a thread that the fork did not copy: keep the node for ever.
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
            _log.info("the controller was not notified that this rank %s: %s", why, error)

    def close(self) -> None:
        """Close the node and its sockets after all ranks have left. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.groups.wait_until_all_left(self.settings.collectives.linger_s)
        if self.trace is not None:
            self.trace.close()
        self._stop_publishing()
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

    def _install_own_job(self) -> None:
        """Let only holders of the job's keys put Data under its names into the node.

        NDN programs of this host may request the names: with the job's anchor they can check a job.
        """
        prefix = f"/{self.job.name}"
        self.node.install_job(prefix, _OWN_JOB_WEIGHT, None, [])  # keys come with the groups
        self.node.let_programs_ask(prefix)


def _is_attached() -> bool:
    """Whether another launcher started this process, or the one that started it."""
    return bool(os.environ.get(ATTACHED_VARIABLE))


def _require_a_node_each(environment: Mapping[str, str]) -> None:
    """Refuse ranks that another launcher started in the place of one of ours: they share a node."""
    ranks_here = environment.get("LOCAL_WORLD_SIZE", "1")
    by_agent = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    ours = "1" if by_agent else environment.get(LOCAL_RANKS_VARIABLE, "1")
    if ranks_here not in ("1", ours):
        raise EmulationError(
            f"{ranks_here} ranks were started in the place of one worker, which has one node and "
            "so one rank. Leave torchrun's --nproc-per-node out, and give the hosts more workers: "
            f"innet run --workers-per-host {ranks_here}. Or let torchrun start the ranks of a "
            "network that is up: innet up TOPOLOGY --name NAME, then INNET_NETWORK=NAME torchrun "
            f"--nproc-per-node {ranks_here} PROGRAM"
        )


def _opener_of(node: str, keys: NodeKeys) -> CredentialOpener | None:
    return None if keys.authority is None else CredentialOpener(node, keys.authority)


def _of_incarnation(config: NodeConfig, incarnation: int) -> NodeConfig:
    """Give each process other random numbers: other nodes know the nonces of the one before."""
    seed = (config.seed + (incarnation - 1) * _SEED_STEP) % 2**48
    return config.model_copy(update={"seed": seed})
