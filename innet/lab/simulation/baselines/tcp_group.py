"""A group of ranks whose sums go over TCP, as far as programs need one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from innet.errors import DeadlineExceeded
from innet.lab.simulation.baselines.algorithms import make_baseline
from innet.lab.simulation.simulation import Simulation

FloatArray = npt.NDArray[np.float32]


class TcpRank:
    """One rank's place in a :class:`TcpGroup`; stands for its communicator.

    Attributes:
        rank: its number.
        size: of the group.
    """

    def __init__(self, group: TcpGroup, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._group = group
        self._calls = 0

    def iallreduce(self, array: FloatArray, *, out: FloatArray | None = None) -> Awaitable[Any]:
        """Start a sum over all ranks; they call it in the same order."""
        number, self._calls = self._calls, self._calls + 1
        return asyncio.ensure_future(self._group.sum(number, self.rank, array, out))


class TcpGroup:
    """Sums begin when all ranks have called them, one after the other.

    The streams carry lengths. The sum itself, which is the same whatever carries it, is made here.
    """

    def __init__(
        self, algorithm: str, sim: Simulation, hosts: Sequence[str], timeout_s: float
    ) -> None:
        """
        Raises:
            PlanError, SimulationError: as
                :func:`~innet.lab.simulation.baselines.algorithms.make_baseline`.
        """
        self.ranks = [TcpRank(self, rank, len(hosts)) for rank in range(len(hosts))]
        self._algorithm = algorithm
        self._hosts = tuple(hosts)
        self._baseline = make_baseline(algorithm, sim, hosts)
        self._virtual_scale = sim.virtual_scale
        self._timeout_s = timeout_s
        self._called: dict[int, dict[int, FloatArray]] = {}
        self._totals: dict[int, asyncio.Future[FloatArray]] = {}
        self._turn = asyncio.Lock()

    async def sum(
        self, number: int, rank: int, array: FloatArray, out: FloatArray | None
    ) -> FloatArray:
        """One rank's part of sum ``number``.

        Raises:
            DeadlineExceeded: it took too long.
        """
        called = self._called.setdefault(number, {})
        called[rank] = array
        if number not in self._totals:
            self._totals[number] = asyncio.get_running_loop().create_future()
        total = self._totals[number]
        try:
            async with asyncio.timeout(self._timeout_s):
                if len(called) == len(self.ranks):
                    await self._carry(number)
                result = await asyncio.shield(total)
        except TimeoutError:
            raise DeadlineExceeded(
                self._complaint(number), operation=f"{self._algorithm} allreduce", seq=number
            ) from None
        if out is None:
            return result.copy()
        out[...] = result
        return out

    async def _carry(self, number: int) -> None:
        called = self._called[number]
        result = np.zeros_like(called[0])
        for contribution in called.values():
            result += contribution
        async with self._turn:
            await self._baseline.allreduce(result.nbytes * self._virtual_scale)
        del self._called[number]
        self._totals.pop(number).set_result(result)

    def _complaint(self, number: int) -> str:
        called = self._called.get(number, {})
        missing = [f"rank {r} ({h})" for r, h in enumerate(self._hosts) if r not in called]
        if missing:
            return f"missing: {', '.join(missing)}"
        return "its streams have not arrived: does a path between the hosts work?"
