"""Steps of data-parallel training: backward fills buckets, whose sums run meanwhile, as in DDP.

Buckets are made as PyTorch's DistributedDataParallel makes them (Li et al., "PyTorch Distributed:
Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.2): layers from the last
to the first, a bucket is closed by the layer that fills it, and the first bucket is smaller, so
that communication begins early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from innet.lab.simulation.programs.bounds import allreduce_bound_s, overlapped_bound_s
from innet.lab.simulation.programs.program import Place, Program
from innet.lab.workload.layer_files import Layer
from innet.lab.workload.model import TrainingJob

_ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Bucket:
    """Gradients that are summed together.

    Attributes:
        backward_s: computing between the bucket before and this one's being ready.
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
    """See :class:`~innet.lab.workload.document.TrainingSpecification`."""

    operation = "training step"

    def __init__(self, job: TrainingJob, place: Place) -> None:
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
        """All steps, one after the other; ranks meet in the sums only."""
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
        """With the times of the workload on its slowest host: what is random is 1 in the mean."""
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
