"""Jobs of processes that attach to a network from outside: see :mod:`innet.cluster.attachment`.

The ranks of such a job are started by another launcher. The job is admitted when all of its ranks
have requested it, and closed when all have left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from innet.cluster.attachment import AttachReply, AttachRequest
from innet.cluster.control.jobs import Job
from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.network import Network
from innet.cluster.launch.jobs import JobAdmission
from innet.cluster.requests import ClientConnection
from innet.errors import ControlError, HostTaken, InnetError
from innet.plans import Load, choose_hosts, rank_order

_log = logging.getLogger(__name__)

_ENDING_JOB_S = 60.0
"""How long a job waits for the hosts of another one that is ending."""
_REJOINING_S = 20.0

EnvironmentsOf = Callable[[Job], Awaitable[Sequence[Mapping[str, str]]]]
"""The environment that describes the worker of each rank of a job."""


class _Member:
    """A rank that is attached, or waits for others."""

    def __init__(self, request: AttachRequest, machine: str | None) -> None:
        """``machine``: that it is on, of several; its host has to be there."""
        self.request = request
        self.machine = machine
        self.has_detached = False
        """Whether the process says that it has closed its worker."""


class _AttachedJob:
    """The ranks of one job.

    Attributes:
        replies: to the ranks, or why there are none.
        task: runs the job; ``None`` before all ranks have come.
        ends: ranks that left after the job was admitted.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: dict[int, _Member] = {}
        loop = asyncio.get_running_loop()
        self.replies: asyncio.Future[Sequence[AttachReply]] = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        self.ends: asyncio.Queue[_Member] = asyncio.Queue()

    @property
    def missing(self) -> list[int]:
        """The ranks that have not come."""
        return [rank for rank in range(self.size) if rank not in self.members]

    @property
    def is_closing(self) -> bool:
        """Whether all its ranks have left, and its hosts will be free."""
        return self.task is not None and not self.members

    @property
    def is_ending(self) -> bool:
        """Whether some of its ranks have left: the others end soon, or are dead already."""
        return self.replies.done() and bool(self.missing)

    def was_left_by(self, rank: int) -> bool:
        """Whether this rank already left this job: it belongs to the next one of that name."""
        return self.task is not None and rank not in self.members

    def enter(self, request: AttachRequest, machine: str | None) -> _Member:
        """Add a rank, on a machine of several.

        Raises:
            ControlError: the rank counts another number of ranks.
            HostTaken: another process has this rank.
        """
        if request.size != self.size:
            raise ControlError(
                f"rank {request.rank} counts {request.size} ranks, and another one counts "
                f"{self.size}. Give all ranks of a job the same WORLD_SIZE"
            )
        present = self.members.get(request.rank)
        if present is not None:
            raise HostTaken(
                f"rank {request.rank} of this job is attached already, as process "
                f"{present.request.pid}. Give each rank its own RANK, and each job its own "
                "rendezvous (MASTER_PORT, or job=)"
            )
        member = self.members[request.rank] = _Member(request, machine)
        return member

    def leave(self, member: _Member) -> None:
        """Remove a rank."""
        del self.members[member.request.rank]
        if self.task is not None:
            self.ends.put_nowait(member)


class AttachedJobs:
    """Forms the jobs of a network whose ranks other launchers start."""

    def __init__(
        self,
        network: Network,
        controller: RemoteController,
        admission: JobAdmission,
        environments_of: EnvironmentsOf,
        reserved: Collection[str] = (),
    ) -> None:
        """``reserved``: nodes that are not for them."""
        self._network = network
        self._topology = network.topology
        self._controller = controller
        self._admission = admission
        self._environments_of = environments_of
        self._reserved = reserved
        self._jobs: dict[str, _AttachedJob] = {}
        self._placing = asyncio.Lock()
        self._is_closed = False

    @property
    def has_jobs(self) -> bool:
        """Whether there is a job, or ranks that wait for one."""
        return bool(self._jobs)

    def begin_closing(self) -> None:
        """From now on a rank that leaves has not failed: the network is ending."""
        self._is_closed = True

    async def close(self) -> None:
        """Detach all processes, and close all jobs."""
        tasks = []
        for job in self._jobs.values():
            if job.task is not None:
                tasks.append(job.task)
                if not job.replies.done():  # others close their job: their ranks have left
                    job.task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def handlers(
        self, params: Mapping[str, Any], client: ClientConnection, machine: str | None
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """The requests of a process, by method; ``machine``: another one, which it is on."""
        return {
            "attach": lambda: self._attach(AttachRequest.model_validate(params), client, machine),
            "detach": _acknowledge,
        }

    async def _attach(
        self, request: AttachRequest, client: ClientConnection, machine: str | None
    ) -> None:
        """Give a rank its node once all have come, and follow it until it has left.

        The process leaves in order by another request on its connection, ``detach``. This one is
        cancelled when the process hangs up without, for example because it was killed.

        Raises:
            HostTaken: another process has the rank or the host.
            ControlError: the job cannot have its hosts, or ranks are missing in the end.
        """
        self._require_room(request)
        if self._is_closed:
            raise ControlError("the network is being taken down. Start it again with `innet up`")
        deadline_s = asyncio.get_running_loop().time() + request.timeout_s
        job = await self._job_of(request, deadline_s)
        member = job.enter(request, machine or self._network.own_machine)
        if not job.missing:
            job.task = asyncio.create_task(self._run(request.job, job))
        try:
            if not await _is_done(job.replies, deadline_s):
                raise ControlError(_absence(job, request))
            reply = job.replies.result()[request.rank]
            pid = client.pid if machine is None else request.pid
            with self._recorded(reply.node, pid, machine):
                client.send(reply)
                await client.next_request()
                member.has_detached = True
        finally:
            job.leave(member)
            if job.task is None and not job.members:
                self._jobs.pop(request.job, None)

    @contextmanager
    def _recorded(self, node: str, pid: int, machine: str | None) -> Iterator[None]:
        """The process of a node is in the record of the run until the block ends."""
        self._network.record_attached(node, pid, machine)
        try:
            yield
        finally:
            self._network.forget_attached(node)

    async def _job_of(self, request: AttachRequest, deadline_s: float) -> _AttachedJob:
        """The job that a rank is to join, after the one of that name that it has left."""
        while (job := self._jobs.get(request.job)) is not None and job.was_left_by(request.rank):
            assert job.task is not None
            if not await _is_done(job.task, deadline_s):
                left = ", ".join(map(str, sorted(job.members)))
                raise ControlError(
                    f"ranks {left} are still in the job that rank {request.rank} has left. End "
                    "them, or give the new job its own rendezvous (MASTER_PORT, or job=)"
                )
        return self._jobs.setdefault(request.job, job or _AttachedJob(request.size))

    async def _run(self, name: str, job: _AttachedJob) -> None:
        """Admit a job, and close it once all its ranks have left."""
        try:
            async with AsyncExitStack() as stack:
                nodes, admitted = await self._admitted(job, stack)
                environments = await self._environments_of(admitted)
                job.replies.set_result(
                    [
                        AttachReply(node=node, environment=dict(environment))
                        for node, environment in zip(nodes, environments, strict=True)
                    ]
                )
                for _ in nodes:
                    member = await job.ends.get()
                    if self._is_closed:
                        continue
                    await asyncio.to_thread(self._report_end, nodes[member.request.rank], member)
        except Exception as error:
            if not isinstance(error, InnetError) or job.replies.done():
                _log.exception("a job of attached processes could not be served")
            if not job.replies.done():
                job.replies.set_exception(error)
                job.replies.exception()  # perhaps nobody waits any more
        finally:
            self._jobs.pop(name, None)

    async def _admitted(
        self, job: _AttachedJob, stack: AsyncExitStack
    ) -> tuple[tuple[str, ...], Job]:
        """Admit a job to hosts of its ranks until ``stack`` closes.

        A rank that was lost with its machine is noticed later than the ranks of its job are started
        again, so hosts of a job that ranks have left are waited for.

        Raises:
            HostTaken: other jobs have the hosts.
            ControlError: there are no such hosts.
        """
        deadline_s = asyncio.get_running_loop().time() + _ENDING_JOB_S
        while True:
            async with self._placing:
                await self._wait_for_closing_jobs()
                load, cut_off = await asyncio.to_thread(self._controller.load)
                members = [job.members.get(rank) for rank in range(job.size)]
                try:
                    nodes = self._place(members, load, cut_off)
                except HostTaken:
                    ending = [j.task for j in self._jobs.values() if j.is_ending and j.task]
                    if not ending or asyncio.get_running_loop().time() >= deadline_s:
                        raise
                else:
                    await self._until_reachable(nodes)
                    return nodes, await stack.enter_async_context(self._admission.admit(nodes))
            await _any_is_done(ending, deadline_s)

    async def _until_reachable(self, nodes: Sequence[str]) -> None:
        """Wait for the links of a machine that has just joined again, where a rank runs already."""
        for node in nodes:
            try:
                await asyncio.wait_for(self._network.until_reachable(node), _REJOINING_S)
            except TimeoutError:
                raise ControlError(
                    f"the machine of {node} has not joined the network again within "
                    f"{_REJOINING_S:g} s. Start the job again when `innet status` shows it"
                ) from None

    async def _wait_for_closing_jobs(self) -> None:
        """Wait until jobs that are over have freed their hosts: restarted ranks need them."""
        closing = [job for job in self._jobs.values() if job.is_closing and job.replies.done()]
        if tasks := [job.task for job in closing if job.task is not None]:
            await asyncio.wait(tasks)

    def _report_end(self, node: str, member: _Member) -> None:
        """Tell the controller how the process of a rank ended: no other one takes its place."""
        process = f"(process {member.request.pid})"
        if not member.has_detached:
            end = f"ended without closing its worker {process}"
            self._controller.lose(node, end)
        elif (why := self._controller.failures().get(node)) is not None:
            self._controller.lose(node, why)
        else:
            self._controller.end(node, f"ended {process}")

    def _require_room(self, request: AttachRequest) -> None:
        """Check what needs no other rank, so that each rank gets the error at once."""
        workers = len(self._topology.hosts)
        if request.size > workers:
            raise ControlError(
                f"a job of {request.size} ranks needs {request.size} workers, and the network has "
                f"{workers} ({', '.join(self._topology.hosts)}). Start fewer ranks, or the network "
                "with more: innet up TOPOLOGY --workers-per-host N"
            )
        if request.rank >= request.size:
            raise ControlError(
                f"rank {request.rank} is none of {request.size} ranks. Ranks count from 0: check "
                "RANK and WORLD_SIZE"
            )

    def _place(
        self, members: Sequence[_Member | None], load: Load, cut_off: Collection[str]
    ) -> tuple[str, ...]:
        """The node of each rank: the requested node, or a free one. On one machine, free nodes near
        each other with little load from others; never a node that is ``cut_off``.

        Raises:
            HostTaken: another job or rank has the host that a rank asks for.
            ControlError: there is no such host, or too few workers are free.
        """
        taken = dict.fromkeys(self._reserved, "it is reserved")
        taken |= {
            host: f"job {known.job.name} has it"
            for known in self._controller.record().jobs.values()
            for host in known.job.hosts
        }
        others = dict(taken)
        placed: dict[int, str] = {}
        wishes = [None if member is None else member.request.host for member in members]
        machines = [None if member is None else member.machine for member in members]
        for rank, (host, machine) in enumerate(zip(wishes, machines, strict=True)):
            if host is not None:
                placed[rank] = self._wished(rank, host, taken)
                self._require_machine(rank, placed[rank], machine)
                taken[placed[rank]] = f"rank {rank} of the same job has it"
        for machine in dict.fromkeys(machines):
            unplaced = [r for r, where in enumerate(machines) if where == machine]
            unplaced = [rank for rank in unplaced if rank not in placed]
            hosts = [host for host in rank_order(self._topology) if self._is_on(host, machine)]
            avoided = taken.keys() if machine is not None else {*taken, *cut_off}
            free = [host for host in hosts if host not in avoided]
            if len(free) < len(unplaced):
                where = "" if machine is None else f" of machine {machine}"
                if self._reserved:
                    engines = len(hosts) - len(set(hosts) & set(self._reserved))
                    on = "in all" if machine is None else f"on machine {machine}"
                    raise self._pool_is_full(on, engines)
                raise HostTaken(
                    f"{_each_needs(len(unplaced))}, and {len(free)} of {len(hosts)}"
                    f"{where} are free; other jobs have {', '.join(others) or 'none'}. Start fewer "
                    "ranks, or end a job: `innet status` shows them"
                )
            if machine is None and unplaced:
                chosen = choose_hosts(self._topology, len(unplaced), taken=avoided, load=load)
                free = list(chosen.hosts)
            placed.update(zip(unplaced, free, strict=False))
        return tuple(placed[rank] for rank in range(len(wishes)))

    def _pool_is_full(self, where: str, engines: int) -> HostTaken:
        """The network is a standing pool's, whose members have a node of each host."""
        return HostTaken(
            f"the pool of network {self._network.run_id} has room for {engines} "
            f"engine{'' if engines == 1 else 's'} {where}, and other processes have all of it. End "
            f"one of these (`innet status {self._network.run_id}` shows them), or give the pool's "
            "file a larger number of `engines` and start the pool again"
        )

    def _is_on(self, host: str, machine: str | None) -> bool:
        return machine is None or self._topology.placement[host] == machine

    def _require_machine(self, rank: int, host: str, machine: str | None) -> None:
        if not self._is_on(host, machine):
            raise ControlError(
                f"rank {rank} runs on machine {machine} and asks for {host}, which is on machine "
                f"{self._topology.placement[host]}. Choose a host of its machine, or none"
            )

    def _wished(self, rank: int, host: str, taken: Mapping[str, str]) -> str:
        candidates = self._topology.ranks_on([host])
        if not set(candidates) <= set(self._topology.hosts):
            raise ControlError(
                f"rank {rank} asks for {host}, which is no host of {self._topology.name}. Its "
                f"hosts: {', '.join(self._topology.hosts)}"
            )
        for node in candidates:
            if node not in taken:
                return node
        if self._reserved:
            raise self._pool_is_full(f"on {host}", len(candidates) - 1)
        why = "; ".join(f"{node}: {taken[node]}" for node in candidates)
        raise HostTaken(
            f"rank {rank} asks for {host}, which is taken ({why}). Choose another host, or none: "
            "without INNET_HOST a rank gets one that is free"
        )


async def _acknowledge() -> None:
    """Reply to ``detach``, which has ended ``attach`` by its arrival."""


async def _is_done(future: asyncio.Future[Any], deadline_s: float) -> bool:
    """Whether a future is done by a time of the loop."""
    await _any_is_done([future], deadline_s)
    return future.done()


async def _any_is_done(futures: Sequence[asyncio.Future[Any]], deadline_s: float) -> None:
    """Wait until one of some futures is done, or a time of the loop."""
    left_s = deadline_s - asyncio.get_running_loop().time()
    await asyncio.wait(futures, timeout=max(0.0, left_s), return_when=asyncio.FIRST_COMPLETED)


def _each_needs(ranks: int) -> str:
    return "1 rank needs a worker" if ranks == 1 else f"{ranks} ranks need a worker each"


def _absence(job: _AttachedJob, request: AttachRequest) -> str:
    if not job.missing:
        return (
            f"all {job.size} ranks attached, but their job was not admitted within "
            f"{request.timeout_s:g} s. Try again with a larger timeout_s; if that does not help, "
            "look at the network with `innet doctor`"
        )
    ranks = ", ".join(map(str, job.missing))
    return (
        f"ranks {ranks} of {job.size} did not attach within {request.timeout_s:g} s. Check that "
        "every rank runs, with the same rendezvous and network"
    )
