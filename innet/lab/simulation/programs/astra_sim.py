"""ASTRA-sim's training loop: passes over the layers, forward and back.

Forward, each layer waits for the sum of its own weights' gradients from the pass before, computes,
and communicates before the next layer begins. Backward, from the last layer to the first, each
computes the gradients of its weights and lets their communication run meanwhile; then those of its
inputs (not for the first layer), whose communication the layer before waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NamedTuple

import numpy as np

from innet.collectives import Communicator, Work
from innet.errors import WorkloadError
from innet.lab.simulation.programs.program import Place, Program
from innet.lab.workload.layer_files import AstraSimLayer, Phase
from innet.lab.workload.model import AstraSimJob

_ELEMENT_BYTES = 4


class _Scope(NamedTuple):
    """Which ranks communicate: ``size`` consecutive ones, or as many at equal distances."""

    consecutive: bool
    size: int

    def members(self, ranks: int) -> list[list[int]]:
        """The ranks of each group."""
        count = ranks // self.size
        if self.consecutive:
            return [list(range(g * self.size, (g + 1) * self.size)) for g in range(count)]
        return [list(range(g, ranks, count)) for g in range(count)]


class AstraSimProgram(Program):
    """See :class:`~innet.lab.workload.document.AstraSimSpecification`."""

    operation = "training step"
    bound_s = None

    def __init__(self, job: AstraSimJob, place: Place) -> None:
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
        """All passes; what is still on its way at the end of one belongs to the next."""
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
        """Who exchanges outputs, and gradients of inputs."""
        if layer.parallelism == "DATA":
            return None
        if layer.parallelism == "MODEL":
            return _Scope(True, len(self.hosts))
        return _Scope(layer.parallelism != "HYBRID_MODEL_DATA", self._model_parallel)

    def _weight_scope(self, layer: AstraSimLayer) -> _Scope | None:
        """Who sums gradients of weights."""
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
