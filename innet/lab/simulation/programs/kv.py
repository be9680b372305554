"""A simulated replay: workers serve requests at their times, from pools of blocks.

Workers and pools are those of real processes: :mod:`innet.lab.replay` and :mod:`innet.kv.pool`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

from innet.errors import KVError, WorkloadError
from innet.kv.pool import BlockPool
from innet.kv.tenant import Tenant
from innet.lab.compare.measurement import BlockPlaces
from innet.lab.compare.sampling import cache_hits
from innet.lab.replay.plan import DESIGNS, HOME, Design, ReplayPlan
from innet.lab.replay.worker import (
    Replay,
    ReplayStatistics,
    ReplayWorker,
    SyntheticContents,
    replay_pool,
)
from innet.lab.simulation.pools import SimulatedPools
from innet.lab.simulation.programs.program import Program, ProgramContext
from innet.lab.simulation.simulation import Simulation
from innet.lab.traces import PromptRequest
from innet.lab.workload.model import KvJob


class SimulatedMember:
    """A member of the pool: its host loses all blocks in a crash, and rejoins after a restart.

    Attributes:
        opened: set once the host is in the pool.
    """

    def __init__(
        self,
        sim: Simulation,
        pools: SimulatedPools,
        tenant: Tenant,
        host: str,
        plan: ReplayPlan,
        contents: SyntheticContents,
    ) -> None:
        """
        Args:
            sim: with the host.
            pools: of the simulation.
            tenant: of the pool.
            host: the host.
            plan: of the replay.
            contents: of the blocks.
        """
        self.opened = asyncio.Event()
        self._sim = sim
        self._pools = pools
        self._tenant = tenant
        self._host = host
        self._plan = plan
        self._contents = contents
        self._pool: BlockPool | None = None
        self._restarted = asyncio.Event()
        self._served_before = 0
        sim.on_restart(self._on_restart)

    @property
    def pool(self) -> BlockPool | None:
        """Its pool; ``None`` while the host is down."""
        return self._pool if self._sim.network.is_alive(self._host) else None

    @property
    def served(self) -> int:
        """Number of blocks that the host has sent as their home."""
        return self._served_before + (
            0 if self._pool is None else self._pool.statistics().delivered
        )

    async def run(self) -> None:
        """Be a member of the pool until cancelled."""
        while True:
            async with (
                self._pools.open(
                    self._host, self._tenant, capacity_bytes=self._plan.offered_bytes(self._host)
                ) as network,
                replay_pool(network, self._plan, self._contents) as pool,
            ):
                self._pool = pool
                self.opened.set()
                await self._restarted.wait()
                self._restarted.clear()
                self._served_before = self.served
                self._pool = None

    def _on_restart(self, node: str) -> None:
        if node == self._host:
            self._restarted.set()


class KvProgram(Program):
    """A replay of requests; see :class:`~innet.lab.workload.document.KvSpecification`.

    An operation is a request, from its arrival to the first token of its answer. The size is the
    cluster's memory for blocks; where it is unlimited, the size of all blocks.
    """

    operation = "first token"
    bound_s = None

    def __init__(self, job: KvJob, place: ProgramContext) -> None:
        """
        Raises:
            WorkloadError: a host does not exist, or there is no such design.
        """
        super().__init__(job, place)
        written = job.written
        self.algorithm = design_of(job, place.algorithm)
        sim = place.sim
        self._replay = Replay(job, Design.parse(self.algorithm), sim.topology, self.timeout_s)
        self.record.ranks = 1
        self.operations = len(self._replay.requests)
        self.size_bytes = self._replay.size_bytes
        self._written = written
        self._statistics = ReplayStatistics()
        self._untimed = ReplayStatistics()
        contents = SyntheticContents(sim.array(written.block, "uint8").nbytes)
        pools = SimulatedPools(sim)
        tenant = pools.tenant(job.name)
        self._members = {
            host: SimulatedMember(sim, pools, tenant, host, self._replay.plan, contents)
            for host in self._replay.members
        }
        self._workers = [
            ReplayWorker(
                tenant.component,
                self._replay.plan,
                contents,
                lambda member=self._members[host]: member.pool,  # type: ignore[misc]
                partial(place.processors.compute, host),
            )
            for host in self.hosts
        ]
        self._hits_before: Counter[str] = Counter()
        self._served_before = 0
        self._given = 0

    async def run(self) -> None:
        """Run all hosts from start to end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                members = [tasks.create_task(member.run()) for member in self._members.values()]
                for member in self._members.values():
                    await member.opened.wait()
                await super().run()
                self._given = self._served()  # before members leave the pool with their counters
                for task in members:
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def rank(self, rank: int) -> None:
        """Serve the requests of one worker."""
        async with asyncio.TaskGroup() as tasks:
            for number, request in self._replay.requests_of(rank):
                arrival_s = self._start_s + request.arrival_s * self._written.time_scale
                await asyncio.sleep(max(0.0, arrival_s - self.place.sim.now_s))
                tasks.create_task(self._serve(self._workers[rank], request, number))

    @property
    def blocks(self) -> BlockPlaces:
        """The places where blocks of the timed requests were found."""
        given = self._given - self._served_before
        # A switch that crashed meanwhile has lost its counter.
        hits = {s: max(0, n - self._hits_before[s]) for s, n in self._switch_hits().items()}
        return self._replay.places(self._statistics, given, hits)

    async def _serve(self, worker: ReplayWorker, request: PromptRequest, number: int) -> None:
        timed = number >= self._written.warm_up
        statistics = self._statistics if timed else self._untimed
        operation = len(self.record.started_s)
        begun_s = self.place.sim.now_s
        self.record.begin(operation, begun_s)
        found = await worker.first_token(request, statistics)
        self.record.end(operation, self.place.sim.now_s, correct=statistics.wrong == 0)
        if operation + 1 == self._written.warm_up:
            self._hits_before = self._switch_hits()
            self._served_before = self._served()
        await worker.keep(request, found, statistics)

    def _switch_hits(self) -> Counter[str]:
        network = self.place.sim.network
        return cache_hits(network.status(), network.topology.switches)

    def _served(self) -> int:
        return sum(member.served for member in self._members.values())


def design_of(job: KvJob, algorithm: str) -> str:
    """The design of a job: its own, or ``algorithm`` if that is a design.

    Raises:
        WorkloadError: the job names an unknown design.
    """
    written = job.written.algorithm
    if written is None:
        return algorithm if algorithm.partition(":")[0] in DESIGNS else HOME
    try:
        Design.parse(written)
    except KVError as error:
        raise WorkloadError(f"job {job.name}: {error}") from None
    return written
