"""A replay: each request arrives at its time on a worker, which loads or computes its blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from innet.errors import KVError, WorkloadError
from innet.kv.block_store import BlockStore
from innet.kv.designs import DESIGNS, LOCAL, NETWORK, Design
from innet.kv.names import BlockFamily, tenant_component
from innet.kv.placement import Placement
from innet.kv.prefill import PrefillCost
from innet.kv.replay.counts import BlockCounts
from innet.kv.replay.statistics import ReplayStatistics
from innet.kv.traces import Request
from innet.simulation.programs.kv.homes import Homes
from innet.simulation.programs.kv.memory import home_blocks, worker_blocks
from innet.simulation.programs.kv.switch_hits import SwitchHits
from innet.simulation.programs.kv.transfers import BlockTransfers
from innet.simulation.programs.kv.worker import Loading, Worker
from innet.simulation.programs.program import Place, Program
from innet.simulation.workload.model import KvJob

_NOTHING = "00" * 32
"""In place of a model's digest: blocks of a replay have no contents."""


class KvProgram(Program):
    """See :class:`~innet.simulation.workload.kv.KvSpecification`.

    An operation is a request, from its arrival to the first token of its answer. The size is that
    of the cluster's memory for blocks: all that there are, where it is unlimited.
    """

    operation = "first token"
    bound_s = None

    def __init__(self, job: KvJob, place: Place) -> None:
        """
        Raises:
            WorkloadError: a host does not exist, or there is no such design.
        """
        super().__init__(job, place)
        written = job.written
        self.algorithm = design_of(job, place.algorithm)
        self._design = Design.parse(self.algorithm)
        self._policy = self._design.policy or written.policy
        self.record.ranks = 1
        self.operations = min(self.operations, len(job.requests))
        self._requests = job.requests[: self.operations]
        self.size_bytes = written.cache or written.block * len(
            {block for request in self._requests for block in request.blocks}
        )
        self._written = written
        self._statistics = ReplayStatistics()
        self._untimed = ReplayStatistics()
        homes = home_hosts(job, self.hosts, place.sim.topology.hosts)
        hosts = tuple(dict.fromkeys((*self.hosts, *homes)))
        family = BlockFamily(tenant_component(job.name, b""), _NOTHING, "replay", 0, 1)
        self._transfers = BlockTransfers(place.sim, family, written.block, hosts)
        stores = home_blocks(written, self._design.name, homes)
        self._homes = Homes(
            {home: BlockStore(blocks, self._policy) for home, blocks in stores.items()},
            None if self._design.name == LOCAL else Placement(homes, replicas=written.replicas),
            self._transfers,
            self.timeout_s,
        )
        self._workers = {host: self._make_worker(host) for host in self.hosts}
        self._switch_hits = SwitchHits(place.sim)
        self._given_before = 0
        place.sim.on_restart(self._restarted)

    async def rank(self, rank: int) -> None:
        """The requests of one worker."""
        async with asyncio.TaskGroup() as tasks:
            for number, request in self._requests_of(rank):
                arrival_s = self._start_s + request.arrival_s * self._written.time_scale
                await asyncio.sleep(max(0.0, arrival_s - self.place.sim.now_s))
                tasks.create_task(self._serve(self._workers[self.hosts[rank]], request, number))

    @property
    def blocks(self) -> BlockCounts:
        """Where the blocks of the timed requests were found."""
        given = self._homes.count_asked() - self._given_before
        return BlockCounts.of(self._statistics, given, self._switch_hits.since_begin())

    async def _serve(self, worker: Worker, request: Request, number: int) -> None:
        timed = number >= self._written.warm_up
        statistics = self._statistics if timed else self._untimed
        operation = len(self.record.started_s)
        begun_s = self.place.sim.now_s
        self.record.begin(operation, begun_s)
        found = await worker.first_token(request, statistics)
        self.record.end(operation, self.place.sim.now_s)
        if operation + 1 == self._written.warm_up:
            self._switch_hits.begin()
            self._given_before = self._homes.count_asked()
        await worker.keep(request.blocks, found, statistics)

    def _requests_of(self, rank: int) -> Iterable[tuple[int, Request]]:
        workers = len(self.hosts)
        for number, request in enumerate(self._requests):
            if self._written.assign == "round-robin":
                chosen = number % workers
            else:
                # The first block is often a system prompt, which all requests begin with.
                chosen = int.from_bytes(request.blocks[:2][-1], "big") % workers
            if chosen == rank:
                yield number, request

    def _make_worker(self, host: str) -> Worker:
        written = self._written
        share = worker_blocks(written, self._design.name, len(self.hosts))
        prefill = PrefillCost(
            token_s=written.prefill.token,
            pair_s=written.prefill.pair,
            start_s=written.prefill.start,
        )
        return Worker(
            host,
            BlockStore(share, self._policy),
            self._homes,
            self._transfers,
            self.place.processors,
            prefill,
            Loading(written.window, written.deadline),
        )

    def _restarted(self, node: str) -> None:
        self._transfers.begin_on(node)
        self._homes.lose(node)
        if node in self._workers:
            self._workers[node].lose_memory()


def design_of(job: KvJob, algorithm: str) -> str:
    """The design of a job, where ``algorithm`` is what others are compared by.

    Raises:
        WorkloadError: the job names one that there is not.
    """
    written = job.written.algorithm
    if written is None:
        return algorithm if algorithm.partition(":")[0] in DESIGNS else NETWORK
    try:
        Design.parse(written)
    except KVError as error:
        raise WorkloadError(f"job {job.name}: {error}") from None
    return written


def home_hosts(job: KvJob, workers: tuple[str, ...], hosts: tuple[str, ...]) -> dict[str, float]:
    """The hosts that keep blocks for others, with their weights.

    Raises:
        WorkloadError: one of them does not exist, or there are fewer than replicas.
    """
    homes = job.written.homes or dict.fromkeys(workers, 1.0)
    for home in homes:
        if home not in hosts:
            raise WorkloadError(
                f"job {job.name}: homes: there is no host {home!r}; hosts: {', '.join(hosts)}"
            )
    try:
        Placement(homes, replicas=job.written.replicas)
    except KVError as error:
        raise WorkloadError(f"job {job.name}: {error}") from None
    return homes
