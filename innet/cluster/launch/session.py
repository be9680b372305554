"""A running network: namespaces or loopback, switch processes, controller; and jobs on it."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from innet.cluster.control.jobs import Job
from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.kernel_network import LinkStatus
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.cluster.emulation.runs import find_run, socket_name_of, writing_into
from innet.cluster.launch.attached_jobs import AttachedJobs
from innet.cluster.launch.calibration import machine_speed
from innet.cluster.launch.infrastructure import (
    ControllerProcess,
    LauncherTelemetry,
    SwitchProcesses,
)
from innet.cluster.launch.jobs import (
    RESTART_COUNT_VARIABLE,
    JobAdmission,
    Rendezvous,
    interface_variables,
    rank_variables,
    search_path,
    seats,
    thread_variables,
)
from innet.cluster.launch.link_changes import LinkChanges
from innet.cluster.launch.network_costs import network_costs
from innet.cluster.launch.run_files import RunFiles
from innet.cluster.launch.supervision import Supervisor
from innet.cluster.node_reader import NodeReader
from innet.cluster.requests import ClientConnection, RequestServer
from innet.cluster.run_status import read_run_status
from innet.cluster.session_client import (
    SESSION_SOCKET_NAME,
    JobEnd,
    JobRequest,
    LinkRequest,
    OutputLine,
    RestartPolicy,
    WorkerOptions,
)
from innet.errors import ControlError, EmulationError, InnetError, JobFailed
from innet.node.node_config import NODE_CONFIG_VARIABLE, NODE_VARIABLE, Mode
from innet.node.requests import ControlClient, ControlRequest, handler_of
from innet.plans import ProcessorCosts, rank_order
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.security.trust.keys import PrivateKey
from innet.settings import Settings
from innet.telemetry.logs.output import LAUNCHER_LABEL, ConsoleOutput, OutputSink
from innet.telemetry.trace import JobTrace
from innet.topology import Topology
from innet.worker.job_file import (
    ALGORITHM_VARIABLE,
    RESTARTS_VARIABLE,
)

if TYPE_CHECKING:
    from innet.cluster.launch.cluster_network import ClusterOptions

NETNS_MASTER_PORT = 29500
_STATUS_TIMEOUT_S = 5.0
_JOBS_POLL_S = 0.5
_MAX_MACHINE_REQUEST_BYTES = 1 << 16
"""Of a rank of another machine that attaches."""
_NOTHING_VERIFIED = (
    "WARNING: security.signature=none: no segment and no sum is signed, and nothing of them is "
    "verified. Whoever reaches a link can change every result. For measurements alone; leave the "
    "setting out for anything else."
)


UNUSED = (
    "no rank has used innet, so nothing of this job has crossed its network; PyTorch takes Gloo "
    'unless the program calls init_process_group("innet"), before init_device_mesh()'
)
"""What a job is told whose ranks opened innet at no time."""


class Session:
    """A launched network with everything that runs on it.

    Example::

        async with Session(load_topology("star8"), mode="netns") as session:
            await session.run_workers([sys.executable, "train.py"], algorithm="ring")

    Attributes:
        reserved: nodes that no process of another launcher gets; set it before the context is
            entered.
    """

    reserved: Collection[str] = ()

    def __init__(
        self,
        topology: Topology,
        *,
        mode: Mode = "local",
        settings: Settings | None = None,
        run_id: str | None = None,
        output: OutputSink | None = None,
        seed: int = 1,
        cluster: ClusterOptions | None = None,
    ) -> None:
        """``cluster``: how machines join, in mode ``cluster``."""
        if mode == "cluster" and cluster is None:
            raise EmulationError(
                "mode cluster needs an address at which machines join. Give cluster=ClusterOptions("
                "listen=...), or another mode"
            )
        self.settings = settings or Settings()
        self._output = output or ConsoleOutput()
        shared_memory = self.settings.transport.shared_memory
        self.network: Network
        if cluster is None:
            self.network = Network(
                topology, mode, run_id, seed=seed, shared_memory=shared_memory, output=self._output
            )
        else:  # imported only where there are other machines
            from innet.cluster.launch.cluster_network import ClusterNetwork

            self.network = ClusterNetwork(
                topology, cluster, self.settings, run_id, self._output, seed=seed
            )
        self._files = RunFiles(self.network, self.settings)
        self._telemetry = LauncherTelemetry(self.settings.telemetry, self.network)
        self._stack = AsyncExitStack()
        self._controller: RemoteController | None = None
        self._admission: JobAdmission | None = None
        self._processor: ProcessorCosts | None = None
        self._attached: AttachedJobs | None = None
        self._link_changes: LinkChanges | None = None
        self._job_outputs: dict[str, OutputSink] = {}

    @property
    def topology(self) -> Topology:
        """The topology that is launched; in cluster mode with the MTUs that links turned out to
        have."""
        return self.network.topology

    async def __aenter__(self) -> Self:
        keep_keys_out_of_core_dumps(self.settings.security)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.network)
            await stack.enter_async_context(self._telemetry)
            stack.push_async_callback(self.network.processes.terminate)
            with writing_into(self.network.run_dir):
                authority = PrivateKey.generate("ed25519")
                dealer = await asyncio.to_thread(self._files.write, authority.public)
            # Measured, where it is not cached, before nodes run.
            speed = await asyncio.to_thread(machine_speed)
            self._processor = network_costs(self.topology, self.network.mode, self.settings, speed)
            controller = await stack.enter_async_context(
                ControllerProcess(
                    self.network, self.settings.recovery, self._say, authority, self._processor
                )
            )
            self._controller = controller.remote
            if self.settings.security.signature == "none":
                self._say(_NOTHING_VERIFIED)
            self._admission = JobAdmission(
                self.topology,
                self._controller,
                dealer,
                self._files.keys_path,
                self._files.certificates_path,
            )
            await stack.enter_async_context(
                SwitchProcesses(
                    self.network,
                    self._controller,
                    self.connect,
                    self._files.switch_variables,
                    self.settings.recovery,
                    self._say,
                )
            )
            await asyncio.to_thread(self._controller.watch_nodes)
            self.network.record_ready()
            self._attached = AttachedJobs(
                self.network,
                self._controller,
                self._admission,
                self._attached_environments,
                self.reserved,
            )
            stack.push_async_callback(self._attached.close)
            self._link_changes = LinkChanges(self.network, self._say)
            stack.push_async_callback(self._link_changes.close)
            for server in self._servers():
                await stack.enter_async_context(server)
            stack.callback(self._attached.begin_closing)
            if self.settings.telemetry.metrics_port is not None:
                await self._serve_metrics(stack, self.settings.telemetry.metrics_port)
            saying = asyncio.ensure_future(self._say_when_lost())
            stack.callback(saying.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _say_when_lost(self) -> None:
        self._say(f"WARNING: {await self.network.until_lost()}")

    async def raise_when_lost(self) -> None:
        """Wait until the run's directory is lost and no job runs, then raise.

        Raises:
            EmulationError: always; it names the removed files.
        """
        assert self._attached is not None, "the session is open"
        why = await self.network.until_lost()
        while True:
            if not self._job_outputs and not self._attached.has_jobs:
                raise EmulationError(f"{why}. The network ends: it has no job. Launch it again")
            await asyncio.sleep(_JOBS_POLL_S)

    async def _serve_metrics(self, stack: AsyncExitStack, port: int) -> None:
        from innet.cluster.metrics import MetricsEndpoint

        run_id = self.network.run_id
        hosts = self.settings.telemetry.metrics_hosts
        endpoint = MetricsEndpoint(port, lambda: read_run_status(find_run(run_id)), hosts)
        stack.push_async_callback(asyncio.to_thread, endpoint.close)
        self.network.record_metrics(endpoint.url)

    def connect(self, node: str) -> ControlClient:
        """A client of the node's control socket."""
        return ControlClient(self.network.config(node).control_socket, who=node)

    async def status(self) -> dict[str, dict[str, Any]]:
        """The status of each running node (see ``NodeAgent.status``), by name."""
        running = {process.spec.node for process in self.network.processes.processes}
        return await self._status_of([node for node in self.topology.nodes if node in running])

    async def _status_of(self, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
        sockets = {node: self.network.config(node).control_socket for node in nodes}

        def read() -> dict[str, dict[str, Any]]:
            with NodeReader() as reader:
                return reader.read(sockets, _STATUS_TIMEOUT_S).nodes

        return await asyncio.to_thread(read)

    async def run_workers(
        self, argv: Sequence[str], options: WorkerOptions | None = None, **changes: Any
    ) -> tuple[str, ...]:
        """Run ``argv`` once per worker of each host, as one job, and wait until all have ended.

        Other jobs may run at the same time, on other hosts; the switches serve all of them.

        Each worker gets what ``torchrun`` sets for its workers and takes for its options (one
        process for each agent, a rendezvous of the run's own), and its share of the processors.
        When one fails, the others get an error, and are killed if they do not end then, unless the
        restart policy says otherwise. No worker outlives the call, also if it raises.

        Args:
            argv: program and arguments.
            options: of the job.
            changes: single fields of :class:`WorkerOptions`, such as ``algorithm="ring"``.

        Returns:
            How those workers ended that an elastic job went on without.

        Raises:
            JobFailed: a worker ended with an error.
            EmulationError: the job cannot be started, or the timeline cannot be written.
            ControlError: a host has a job already, or the name or the weight cannot be used.
        """
        chosen = replace(options or WorkerOptions(), **changes)
        if chosen.ranks is not None and chosen.hosts is not None:
            raise ControlError(
                f"ranks={chosen.ranks} has the hosts chosen, and hosts={list(chosen.hosts)} names "
                "them; give one of them"
            )
        wanted = self._ranks_on(chosen.hosts) if chosen.ranks is None else None
        async with AsyncExitStack() as stack:
            admission = self._entered_admission().admit(
                wanted, chosen.job_name, chosen.weight, chosen.ranks
            )
            job = await stack.enter_async_context(admission)
            ranks = job.hosts
            if chosen.trace is not None:
                self._require_on_this_machine(ranks)
            stack.enter_context(self._heard_by(job, chosen.output))
            added = dict(chosen.env or {})
            if chosen.trace is not None:
                tracing = await stack.enter_async_context(self._trace(job, chosen.trace))
                added.update(tracing.environment)
            policy = chosen.restarts or RestartPolicy()
            grace_s = policy.grace_s
            if grace_s is None:
                grace_s = self.settings.recovery.stop_grace_s
            self.network.record_grace(grace_s)
            job_path = self._files.write_job(job, policy.on_worker_death, self._processor)
            environments = dict(
                await self._worker_environments(
                    job.hosts, job_path, {**added, ALGORITHM_VARIABLE: chosen.algorithm}, policy
                )
            )
            threads = self._thread_variables(ranks, added, chosen.threads)

            def start(node: str, restarts: int) -> SupervisedProcess:
                counts = dict.fromkeys((RESTARTS_VARIABLE, RESTART_COUNT_VARIABLE), str(restarts))
                spec = ProcessSpec(
                    label=node,
                    argv=tuple(argv),
                    environment={**environments[node], **threads[node], **counts},
                    directory=chosen.directory,
                    stdin=chosen.stdin if node == ranks[0] else None,
                    files=(self._files.certificates_path(job),),
                    grace_s=grace_s,
                )
                return self.network.start(node, spec, chosen.output)

            tell = partial(chosen.output or self._output, LAUNCHER_LABEL)
            controller, reachable = self._entered_controller(), self.network.until_reachable
            supervisor = Supervisor(controller, start, policy, tell, reachable)
            supervisor.on_given_up = chosen.on_given_up
            lost = await supervisor.run(ranks)
            if not await asyncio.to_thread(controller.has_used, job):
                tell(UNUSED)
            return lost

    def _require_on_this_machine(self, ranks: Sequence[str]) -> None:
        """Check that the files of a timeline will be here."""
        elsewhere = [node for node in ranks if node in self.network.placed_elsewhere]
        if elsewhere:
            raise EmulationError(
                f"a timeline needs all ranks on the launcher's machine, and {elsewhere[0]} is on "
                f"machine {self.network.placed_elsewhere[elsewhere[0]]}. Leave --trace out, or "
                "choose other hosts (--hosts)"
            )

    def _ranks_on(self, hosts: Sequence[str] | None) -> tuple[str, ...]:
        """The node of each rank of a job on these hosts; ``None``: on all."""
        return rank_order(self.topology) if hosts is None else self.topology.ranks_on(hosts)

    def _say(self, text: str) -> None:
        """Write a line to the outputs of the network and of all jobs on it."""
        for output in {self._output, *self._job_outputs.values()}:
            output(LAUNCHER_LABEL, text)

    @contextmanager
    def _heard_by(self, job: Job, output: OutputSink | None) -> Iterator[None]:
        """Write lines about the network to the job's output, too, until the block ends."""
        self._job_outputs[job.name] = output or self._output
        try:
            yield
        finally:
            del self._job_outputs[job.name]

    def _trace(self, job: Job, into: Path) -> JobTrace:
        return JobTrace(
            into,
            self.network.run_dir / f"{job.name}.trace",
            lambda: self._status_of(self.topology.switches),
        )

    def _servers(self) -> Iterator[RequestServer]:
        """One for processes of this machine, and one for those of each other machine."""
        who = f"the session of {self.network.run_id}"
        run_dir = self.network.run_dir
        yield RequestServer(run_dir / SESSION_SOCKET_NAME, self._respond, who=who)
        for machine in set(self.network.placed_elsewhere.values()):
            path = run_dir / socket_name_of(SESSION_SOCKET_NAME, machine)
            respond = partial(self._respond_to_machine, machine)
            yield RequestServer(path, respond, who=who, max_bytes=_MAX_MACHINE_REQUEST_BYTES)

    async def _respond(self, request: ControlRequest, client: ClientConnection) -> Any:
        """Serve processes of this machine: a job or a rank, until it hangs up, and the rest."""
        assert self._attached is not None, "the socket is opened after it"
        handlers: dict[str, Callable[[], Awaitable[Any]]] = {
            "run_job": lambda: self._run_job(JobRequest.model_validate(request.params), client),
            "counters": self._read_counters,
            "change_link": lambda: self._change_link(request.params),
            **self._attached.handlers(request.params, client, None),
        }
        return await handler_of(request.method, handlers)()

    async def _respond_to_machine(
        self, machine: str, request: ControlRequest, client: ClientConnection
    ) -> Any:
        """Serve processes of another machine: a rank, until it hangs up."""
        assert self._attached is not None, "the socket is opened after it"
        if request.method == "run_job":  # it would run programs on all others
            raise ControlError(
                f"machine {machine} may not start jobs on {self.network.run_id}. Start them where "
                "`innet up` runs; ranks of other launchers may attach on every machine"
            )
        handlers = self._attached.handlers(request.params, client, machine)
        return await handler_of(request.method, handlers)()

    async def _change_link(self, params: Mapping[str, Any]) -> str:
        assert self._link_changes is not None, "the socket is opened after it"
        return await self._link_changes.change(LinkRequest.model_validate(params))

    async def _run_job(self, request: JobRequest, client: ClientConnection) -> JobEnd:
        try:
            lost = await self.run_workers(request.argv, request.options, output=_JobOutput(client))
        except JobFailed as error:
            return JobEnd(exit_code=error.exit_code, error=str(error))
        except InnetError as error:
            return JobEnd(exit_code=1, error=str(error))
        return JobEnd(exit_code=0, lost=lost)

    def _thread_variables(
        self, ranks: Sequence[str], added: Mapping[str, str], threads: int | None
    ) -> dict[str, dict[str, str]]:
        """Variables for the threads of each rank; the ranks of a machine share its processors."""
        machines = {node: self.network.processors(node) for node in ranks}
        on_machine = Counter(machines.values())
        return {
            node: thread_variables(
                {**os.environ, **added}, on_machine[machine], threads, processors=machine[1]
            )
            for node, machine in machines.items()
        }

    async def _read_counters(self) -> list[LinkStatus]:
        if self.network.mode != "netns":
            return []
        counters = await self.network.link_counters()
        return [LinkStatus(link=link, counters=found) for link, found in counters.items()]

    async def _worker_environments(
        self,
        ranks: tuple[str, ...],
        job_path: Path,
        added: Mapping[str, str],
        policy: RestartPolicy,
    ) -> list[tuple[str, dict[str, str]]]:
        """The node and the environment of each rank."""
        meeting = Rendezvous(
            world_size=len(ranks),
            master_address=self._address(ranks[0]),
            master_port=await self._master_port(ranks[0]),
            file=job_path.with_suffix(".rendezvous"),
            run_id=self.network.run_id,
            max_restarts=policy.restarts,
        )
        common = {**added, "PATH": search_path({**os.environ, **added})}
        if self.network.mode == "netns":
            common |= interface_variables({**os.environ, **added})
        return [
            (
                node,
                {
                    **common,
                    **rank_variables(meeting, seat, self._address(node)),
                    **self._files.node_variables(),
                    **self._files.worker_variables(node, job_path),
                },
            )
            for seat, node in zip(seats(self.topology, ranks), ranks, strict=True)
        ]

    async def _attached_environments(self, job: Job) -> list[dict[str, str]]:
        """The environment of each rank that another launcher started."""
        job_path = self._files.write_job(job, "abort", self._processor)
        return [
            await self.network.placed(
                node,
                {
                    **self._files.worker_variables(node, job_path),
                    NODE_VARIABLE: node,
                    NODE_CONFIG_VARIABLE: str(self.network.config_path(node)),
                },
                [self._files.certificates_path(job)],
            )
            for node in job.hosts
        ]

    def _address(self, node: str) -> str:
        return self.network.config(node).ip_address or "127.0.0.1"

    def _entered_controller(self) -> RemoteController:
        if self._controller is None:
            raise EmulationError("the session is not open. Enter it first: async with ...")
        return self._controller

    def _entered_admission(self) -> JobAdmission:
        if self._admission is None:
            raise EmulationError("the session is not open. Enter it first: async with ...")
        return self._admission

    async def _master_port(self, node: str) -> int:
        if self.network.mode == "netns":
            return NETNS_MASTER_PORT
        return await self.network.free_port(node)


class _JobOutput:
    """Sends the lines of a job to a client, as long as it reads them."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._dropped = 0

    def __call__(self, label: str, text: str) -> None:
        if self._client.is_far_behind:
            self._dropped += 1
            return
        if self._dropped:
            note = f"{self._dropped} lines were dropped: the terminal did not read them"
            self._dropped = 0
            self._client.send(OutputLine(label="innet", text=note))
        self._client.send(OutputLine(label=label, text=text))
