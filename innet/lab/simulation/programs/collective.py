"""Repeats a collective on all ranks, and verifies each result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from innet.errors import WorkloadError
from innet.lab.compare.methods import (
    NEAR_BOUND,
    allreduce_bound_s,
    allreduce_completion_bound_s,
    endpoint_bound_s,
)
from innet.lab.compare.pattern import Pattern
from innet.lab.simulation.programs.program import Place, Program
from innet.lab.workload.model import CollectiveJob

FloatArray = npt.NDArray[np.float32]

_ELEMENT_BYTES = 4


class _Arrays(NamedTuple):
    """The contributions of all ranks, and their sum."""

    ranks: int
    of_rank: Callable[[int], FloatArray]
    total: Callable[[], FloatArray]

    def block(self, array: FloatArray, rank: int) -> FloatArray:
        block: FloatArray = array.reshape(self.ranks, -1)[rank]
        return block

    def stacked(self) -> FloatArray:
        return np.stack([self.of_rank(rank) for rank in range(self.ranks)])


class _Form(NamedTuple):
    """The call of a collective, and its expected result.

    Attributes:
        call: takes communicator, contribution and root; returns an awaitable.
        result: takes the arrays, the rank and the root.
        in_blocks: whether the contribution has a block for each rank.
    """

    call: Callable[[Any, FloatArray, int], Any]
    result: Callable[[_Arrays, int, int], FloatArray | None]
    in_blocks: bool = False


_FORMS: dict[str, _Form] = {
    "allreduce": _Form(lambda c, x, _: c.iallreduce(x), lambda a, _r, _o: a.total()),
    "reduce": _Form(lambda c, x, o: c.ireduce(x, o), lambda a, r, o: a.total() if r == o else None),
    "reduce-scatter": _Form(
        lambda c, x, _: c.ireduce_scatter(x.reshape(c.size, -1)),
        lambda a, r, _o: a.block(a.total(), r),
        in_blocks=True,
    ),
    "allgather": _Form(lambda c, x, _: c.iallgather(x), lambda a, _r, _o: a.stacked()),
    "broadcast": _Form(lambda c, x, o: c.ibroadcast(x, o), lambda a, _r, o: a.of_rank(o)),
    "gather": _Form(
        lambda c, x, o: c.igather(x, o), lambda a, r, o: a.stacked() if r == o else None
    ),
    "scatter": _Form(
        lambda c, x, o: c.iscatter(
            x.reshape(c.size, -1) if c.rank == o else None,
            o,
            np.empty((1, x.size // c.size), x.dtype),
        ),
        lambda a, r, o: a.block(a.of_rank(o), r),
        in_blocks=True,
    ),
    "alltoall": _Form(
        lambda c, x, _: c.ialltoall(x.reshape(c.size, -1)),
        lambda a, r, _o: np.stack([a.block(a.of_rank(s), r) for s in range(a.ranks)]),
        in_blocks=True,
    ),
    "barrier": _Form(lambda c, _x, _o: c.ibarrier(), lambda _a, _r, _o: None),
}


class CollectiveProgram(Program):
    """A repeated collective; see :class:`~innet.lab.workload.document.CollectiveSpecification`."""

    def __init__(self, job: CollectiveJob, place: Place) -> None:
        """
        Raises:
            WorkloadError: a host or the root does not exist.
            PlanError: the algorithm is unknown or does not fit.
        """
        super().__init__(job, place)
        written = job.written
        ranks = len(self.hosts)
        if written.root >= ranks:
            raise WorkloadError(
                f"job {job.name}: there is no rank {written.root}; ranks are 0 to {ranks - 1}"
            )
        self.operation = written.operation
        self.require_only_allreduce([self.operation])
        self._form = _FORMS[written.operation]
        self._root = written.root
        self._pause_s = written.pause
        self.size_bytes = self._whole_size_bytes(written.size)
        topology = place.sim.topology
        if written.operation == "allreduce":
            self.bound_s = allreduce_bound_s(topology, self.hosts, self.algorithm, self.size_bytes)
        else:
            self.bound_s = endpoint_bound_s(
                topology, self.hosts, written.operation, self.size_bytes, written.root
            )
        held_bytes = max(_ELEMENT_BYTES, self.size_bytes // place.sim.virtual_scale)
        self._pattern = Pattern(held_bytes, ranks)
        self._group = place.group(
            self.hosts, algorithm=self.algorithm, name=job.name, timeout_s=self.timeout_s
        )
        self._together = asyncio.Barrier(ranks)

    def completion_bound_s(self) -> float | None:
        """The bound with latency, of allreduces longer than :data:`NEAR_BOUND` bounds."""
        longest_s = max((ended - begun for begun, ended in self.record.spans_s), default=0.0)
        is_long = self.bound_s is not None and longest_s >= NEAR_BOUND * self.bound_s
        if self.operation != "allreduce" or not is_long:
            return None
        sim = self.place.sim
        segment_bytes = sim.segment_bytes * sim.virtual_scale
        return allreduce_completion_bound_s(
            sim.topology, self.hosts, self.algorithm, self.size_bytes, segment_bytes
        )

    async def rank(self, rank: int) -> None:
        """Take part in each operation, from a common start."""
        comm, sim = self._group[rank], self.place.sim
        for number in range(self.operations):
            contribution = self._pattern.contribution(rank, number)
            await self._together.wait()
            self.record.begin(number, sim.now_s)
            result = await self._form.call(comm, contribution, self._root)
            ended_s = sim.now_s
            self.record.end(number, ended_s, self._is_right(result, rank, number))
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    def _is_right(self, result: FloatArray | None, rank: int, number: int) -> bool:
        arrays = _Arrays(
            len(self.hosts),
            lambda rank: self._pattern.contribution(rank, number),
            lambda: self._pattern.total(number),
        )
        expected = self._form.result(arrays, rank, self._root)
        if expected is None or result is None:
            return expected is result
        return np.array_equal(result, expected.reshape(result.shape))

    def _whole_size_bytes(self, size_bytes: int) -> int:
        """The size, rounded up to whole elements, and to equal blocks for all ranks."""
        if self.operation == "barrier":
            return _ELEMENT_BYTES
        step = _ELEMENT_BYTES * self.place.sim.virtual_scale
        if self._form.in_blocks:
            step *= len(self.hosts)
        return -(-size_bytes // step) * step
