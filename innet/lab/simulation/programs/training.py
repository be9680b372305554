"""Training steps: data-parallel training with buckets as in DDP, and ASTRA-sim's training loop.

Buckets are those of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences
on Accelerating Data Parallel Training", VLDB 2020, section 3.2): backward fills them from the last
layer to the first, the layer that fills a bucket closes it, and the first bucket is smaller, so
that communication begins early. Sums run during backward.

In ASTRA-sim's loop, forward: each layer waits for the sum of its weights' gradients of the previous
pass, computes, and communicates before the next layer begins. Backward, from the last layer to the
first: each layer computes its weights' gradients and starts their communication; then it computes
its inputs' gradients (not the first layer), for whose communication the layer before it waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from innet.collectives import Communicator, Work
from innet.errors import WorkloadError
from innet.lab.compare.methods import allreduce_bound_s, overlapped_bound_s
from innet.lab.simulation.programs.program import Program, ProgramContext
from innet.lab.workload.layer_files import AstraSimLayer, Layer, Phase
from innet.lab.workload.model import AstraSimJob, TrainingJob

_ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Bucket:
    """Gradients that are summed together.

    Attributes:
        backward_s: computing from the previous bucket until this one is ready.
        size_bytes: of its gradients; 0 only for computing after the last bucket.
    """

    backward_s: float
    size_bytes: int


def make_buckets(layers: Sequence[Layer], first_bytes: int, most_bytes: int) -> list[Bucket]:
    """The buckets in the order in which backward fills them.

    >>> layers = [Layer("a", 0, 0.1, 8), Layer("b", 0, 0.2, 8), Layer("c", 0, 0.3, 8)]
    >>> make_buckets(layers, first_bytes=4, most_bytes=16)  # doctest: +NORMALIZE_WHITESPACE
    [Bucket(backward_s=0.3, size_bytes=8), Bucket(backward_s=0.30000000000000004, size_bytes=16)]
    """
    buckets: list[Bucket] = []
    backward_s, size_bytes, limit_bytes = 0.0, 0, first_bytes
    for layer in reversed(layers):
        backward_s += layer.backward_s
        size_bytes += -(-layer.gradient_bytes // _ELEMENT_BYTES) * _ELEMENT_BYTES
        if size_bytes >= limit_bytes:
            buckets.append(Bucket(backward_s, size_bytes))
            backward_s, size_bytes, limit_bytes = 0.0, 0, most_bytes
    if backward_s or size_bytes:
        buckets.append(Bucket(backward_s, size_bytes))
    return buckets


class TrainingProgram(Program):
    """Data-parallel training; see :class:`~innet.lab.workload.document.TrainingSpecification`."""

    operation = "training step"

    def __init__(self, job: TrainingJob, place: ProgramContext) -> None:
        """
        Raises:
            WorkloadError: a host does not exist.
            PlanError: the algorithm is unknown or does not fit.
        """
        super().__init__(job, place)
        self._written = job.written
        self._buckets = make_buckets(job.layers, job.written.first_bucket, job.written.bucket)
        self._forward_s = sum(layer.forward_s for layer in job.layers)
        self.size_bytes = sum(bucket.size_bytes for bucket in self._buckets)
        self.bound_s = self._bound_s()
        self._group = place.group(
            self.hosts, algorithm=self.algorithm, name=job.name, timeout_s=self.timeout_s
        )

    async def rank(self, rank: int) -> None:
        """Run all steps; only the sums synchronise the ranks."""
        sim = self.place.sim
        for step in range(self.operations):
            self.record.begin(step, sim.now_s)
            correct = await self._step(rank, step)
            self.record.end(step, sim.now_s, correct)

    async def _step(self, rank: int, step: int) -> bool:
        comm, processors, host = self._group[rank], self.place.processors, self.hosts[rank]
        factor = self._written.compute.factor(host, rank, step, self.place.seed)
        await processors.compute(host, factor * self._forward_s)
        gradients = []
        sums = []
        for bucket in self._buckets:
            await processors.compute(host, factor * bucket.backward_s)
            if bucket.size_bytes:
                mine = self.place.sim.array(bucket.size_bytes) + np.float32(rank + step)
                gradients.append(mine)
                if self._written.overlap:
                    sums.append(comm.iallreduce(mine, out=mine))
        if not self._written.overlap:
            sums = [comm.iallreduce(mine, out=mine) for mine in gradients]
        for work in sums:
            await work
        await processors.compute(host, factor * self._written.update)
        ranks = len(self.hosts)
        expected = np.float32(ranks * step + ranks * (ranks - 1) // 2)
        return all(bool(np.all(gradient == expected)) for gradient in gradients)

    def _bound_s(self) -> float:
        """The bound on the slowest host, with the means of random factors, which are 1."""
        slow = self._written.compute.slow or {}
        factor = max(slow.get(host, 1.0) for host in self.hosts)
        topology = self.place.sim.topology
        sums = []
        ready_s = factor * self._forward_s
        for bucket in self._buckets:
            ready_s += factor * bucket.backward_s
            if bucket.size_bytes:
                sum_s = allreduce_bound_s(topology, self.hosts, self.algorithm, bucket.size_bytes)
                sums.append((ready_s, sum_s or 0.0))
        step_s = overlapped_bound_s(ready_s, sums, self._written.overlap)
        return step_s + factor * self._written.update


_ELEMENT_BYTES = 4


class _Scope(NamedTuple):
    """The ranks that communicate: ``size`` consecutive ones, or as many at equal distances."""

    consecutive: bool
    size: int

    def members(self, ranks: int) -> list[list[int]]:
        """The ranks of each group."""
        count = ranks // self.size
        if self.consecutive:
            return [list(range(g * self.size, (g + 1) * self.size)) for g in range(count)]
        return [list(range(g, ranks, count)) for g in range(count)]


class AstraSimProgram(Program):
    """ASTRA-sim's loop, as :class:`~innet.lab.workload.document.AstraSimSpecification` says."""

    operation = "training step"
    bound_s = None

    def __init__(self, job: AstraSimJob, place: ProgramContext) -> None:
        """
        Raises:
            WorkloadError: a host does not exist, or the ranks do not fit the model's groups.
            PlanError: the algorithm is unknown or does not fit.
        """
        super().__init__(job, place)
        self._written = job.written
        self._layers = job.model.layers
        self._model_parallel = self._group_size(job)
        self.size_bytes = sum(
            phase.size_bytes for layer in self._layers for phase in _communicating(layer)
        )
        self.require_only_allreduce(
            {
                phase.communication.lower()
                for layer in self._layers
                for phase in _communicating(layer)
                if phase.communication != "NONE"
            }
        )
        self._comms: dict[_Scope, list[Communicator]] = {}
        for layer in self._layers:
            for scope in (self._activation_scope(layer), self._weight_scope(layer)):
                self._open(scope)

    async def rank(self, rank: int) -> None:
        """Run all passes; sums that run at the end of a pass belong to the next one."""
        written, sim = self._written, self.place.sim
        weights: dict[int, Work[Any]] = {}
        for step in range(self.operations):
            self.record.begin(step, sim.now_s)
            seconds = written.cycle * written.compute.factor(
                self.hosts[rank], rank, step, self.place.seed
            )
            await self._forward(rank, seconds, weights)
            await self._backward(rank, seconds, weights)
            if step == self.operations - 1:
                for index in list(weights):
                    await self._updated(rank, seconds, weights, index)
            self.record.end(step, sim.now_s)

    async def _forward(self, rank: int, cycle_s: float, weights: dict[int, Work[Any]]) -> None:
        for index, layer in enumerate(self._layers):
            await self._updated(rank, cycle_s, weights, index)
            await self._compute(rank, layer.forward.cycles * cycle_s)
            await _ended(self._begin(rank, layer.forward, self._activation_scope(layer)))

    async def _backward(self, rank: int, cycle_s: float, weights: dict[int, Work[Any]]) -> None:
        for index, layer in reversed(list(enumerate(self._layers))):
            await self._compute(rank, layer.weight_gradient.cycles * cycle_s)
            work = self._begin(rank, layer.weight_gradient, self._weight_scope(layer))
            if work is not None:
                weights[index] = work
            if index > 0:
                await self._compute(rank, layer.input_gradient.cycles * cycle_s)
                await _ended(self._begin(rank, layer.input_gradient, self._activation_scope(layer)))

    async def _updated(
        self, rank: int, cycle_s: float, weights: dict[int, Work[Any]], index: int
    ) -> None:
        work = weights.pop(index, None)
        if work is not None:
            await work
            await self._compute(rank, self._layers[index].update_cycles * cycle_s)

    async def _compute(self, rank: int, duration_s: float) -> None:
        await self.place.processors.compute(self.hosts[rank], duration_s)

    def _begin(self, rank: int, phase: Phase, scope: _Scope | None) -> Work[Any] | None:
        if scope is None or scope not in self._comms or phase.communication == "NONE":
            return None
        comm = self._comms[scope][rank]
        blocks = comm.size
        held_bytes = _ELEMENT_BYTES * self.place.sim.virtual_scale
        elements = max(1, -(-phase.size_bytes // (held_bytes * blocks)))
        if phase.communication == "ALLGATHER":
            return comm.iallgather(np.ones(elements, np.float32))
        whole = np.ones((blocks, elements), np.float32)
        if phase.communication == "REDUCESCATTER":
            return comm.ireduce_scatter(whole)
        if phase.communication == "ALLTOALL":
            return comm.ialltoall(whole)
        return comm.iallreduce(whole)

    def _activation_scope(self, layer: AstraSimLayer) -> _Scope | None:
        """The ranks that exchange outputs and gradients of inputs."""
        if layer.parallelism == "DATA":
            return None
        if layer.parallelism == "MODEL":
            return _Scope(True, len(self.hosts))
        return _Scope(layer.parallelism != "HYBRID_MODEL_DATA", self._model_parallel)

    def _weight_scope(self, layer: AstraSimLayer) -> _Scope | None:
        """The ranks that sum gradients of weights."""
        if layer.parallelism == "MODEL":
            return None
        if layer.parallelism == "DATA":
            return _Scope(True, len(self.hosts))
        data_parallel = len(self.hosts) // self._model_parallel
        return _Scope(layer.parallelism == "HYBRID_MODEL_DATA", data_parallel)

    def _open(self, scope: _Scope | None) -> None:
        if scope is None or scope.size == 1 or scope in self._comms:
            return
        by_rank: dict[int, Communicator] = {}
        for number, members in enumerate(scope.members(len(self.hosts))):
            layout = "consecutive" if scope.consecutive else "strided"
            group = self.place.group(
                [self.hosts[rank] for rank in members],
                algorithm=self.algorithm,
                name=f"{self.name} {layout} {scope.size} {number}",
                timeout_s=self.timeout_s,
            )
            by_rank.update(zip(members, group, strict=True))
        self._comms[scope] = [by_rank[rank] for rank in range(len(self.hosts))]

    def _group_size(self, job: AstraSimJob) -> int:
        size = job.written.model_parallel or job.model.model_parallel
        ranks = len(self.hosts)
        if not job.model.needs_groups:
            return ranks
        if size is None:
            raise WorkloadError(
                f"job {job.name}: {job.model.parallelism} needs the ranks of a model-parallel "
                "group; give model-parallel, such as 4"
            )
        if ranks % size:
            raise WorkloadError(
                f"job {job.name}: {ranks} ranks cannot be divided into model-parallel groups "
                f"of {size}; give model-parallel a divisor of {ranks}"
            )
        return size


async def _ended(work: Awaitable[Any] | None) -> None:
    if work is not None:
        await work


def _communicating(layer: AstraSimLayer) -> list[Phase]:
    return [layer.forward, layer.input_gradient, layer.weight_gradient]
