"""Allreduce over simulated TCP for comparison: a ring and a parameter server.

Both transfer lengths without values, for their times. :class:`TcpGroup` adds the values, which
programs verify.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from innet.errors import DeadlineExceeded, PlanError, SimulationError
from innet.lab.compare.methods import TCP_RING, parse_tcp_algorithm
from innet.lab.simulation.simulation import Simulation
from innet.lab.simulation.streams import Stream

_LEAST_SEGMENTS = 2
_MOST_SEGMENT_BYTES = 1 << 20


class Ring:
    """Allreduces of lengths over a ring of streams, in the order of ``hosts``.

    Example::

        ring = Ring(sim)
        sim.run(ring.allreduce(100_000_000))
        print(sim.now_s)
    """

    def __init__(
        self,
        simulation: Simulation,
        hosts: Sequence[str] | None = None,
        *,
        congestion: str = "cubic",
    ) -> None:
        """
        Args:
            simulation: of the network.
            hosts: of the ranks; by default all of the topology.
            congestion: of the streams.

        Raises:
            SimulationError: fewer than two hosts, or one that does not exist.
        """
        ranks = tuple(simulation.topology.hosts if hosts is None else hosts)
        if len(ranks) < 2:
            raise SimulationError("a ring needs at least two hosts")
        self._streams = [
            simulation.stream(host, ranks[(rank + 1) % len(ranks)], congestion=congestion)
            for rank, host in enumerate(ranks)
        ]
        self._carried_bytes = 0

    async def allreduce(self, size_bytes: int) -> None:
        """One allreduce of ``size_bytes`` per rank; returns when all ranks have the result."""
        ranks = len(self._streams)
        chunk_bytes = -(-size_bytes // ranks)
        segments = max(_LEAST_SEGMENTS, -(-chunk_bytes // _MOST_SEGMENT_BYTES))
        segment_bytes = -(-chunk_bytes // segments)
        passes = 2 * (ranks - 1) * segments
        before_bytes = self._carried_bytes
        self._carried_bytes += passes * segment_bytes
        await asyncio.gather(
            *(
                _pass_on(
                    self._streams[rank - 1], stream, before_bytes, segments, passes, segment_bytes
                )
                for rank, stream in enumerate(self._streams)
            )
        )


async def _pass_on(
    incoming: Stream,
    outgoing: Stream,
    before_bytes: int,
    own_segments: int,
    passes: int,
    segment_bytes: int,
) -> None:
    """One rank: sends its own chunk at once, and forwards the others as they arrive."""
    outgoing.write(own_segments * segment_bytes)
    for number in range(1, passes + 1):
        await incoming.arrived(before_bytes + number * segment_bytes)
        if number <= passes - own_segments:
            outgoing.write(segment_bytes)


_PART_BYTES = 1 << 20


class ParameterServer:
    """Allreduces of lengths through one host, which is one of the ranks.

    Example::

        server = ParameterServer(sim)
        sim.run(server.allreduce(100_000_000))
    """

    def __init__(
        self,
        simulation: Simulation,
        hosts: Sequence[str] | None = None,
        *,
        server: str | None = None,
        congestion: str = "cubic",
    ) -> None:
        """
        Args:
            simulation: of the network.
            hosts: of the ranks; by default all of the topology.
            server: the host that adds; by default the first.
            congestion: of the streams.

        Raises:
            SimulationError: fewer than two hosts, or one that does not exist.
        """
        ranks = tuple(simulation.topology.hosts if hosts is None else hosts)
        if len(ranks) < 2:
            raise SimulationError("a parameter server needs at least one host beside its own")
        at = ranks[0] if server is None else server
        workers = [host for host in ranks if host != at]
        self._pushes = [simulation.stream(w, at, congestion=congestion) for w in workers]
        self._answers = [simulation.stream(at, w, congestion=congestion) for w in workers]
        self._carried_bytes = 0

    async def allreduce(self, size_bytes: int) -> None:
        """One allreduce of ``size_bytes`` per rank; returns when all ranks have the result."""
        end_bytes = self._carried_bytes
        for push in self._pushes:
            push.write(size_bytes)
        while size_bytes > 0:
            part_bytes = min(size_bytes, _PART_BYTES)
            size_bytes -= part_bytes
            end_bytes += part_bytes
            await asyncio.gather(*(push.arrived(end_bytes) for push in self._pushes))
            for answer in self._answers:
                answer.write(part_bytes)
        self._carried_bytes = end_bytes
        await asyncio.gather(*(answer.arrived(end_bytes) for answer in self._answers))


class Baseline(Protocol):
    """Allreduces of lengths, one after the other."""

    async def allreduce(self, size_bytes: int) -> None:
        """One of ``size_bytes`` per rank; returns when all ranks have the result."""


def make_baseline(algorithm: str, sim: Simulation, hosts: Sequence[str]) -> Baseline:
    """The algorithm over TCP between ``hosts``.

    Raises:
        PlanError: an option is unknown, or the server is not one of the hosts.
        SimulationError: fewer than two hosts, or an unknown congestion control.
    """
    name, options = parse_tcp_algorithm(algorithm)
    if name == TCP_RING:
        return Ring(sim, hosts, **options)
    server = options.get("server")
    if server is not None and server not in hosts:
        raise PlanError(
            f"{algorithm}: {server!r} is not one of the job's hosts: {', '.join(hosts)}"
        )
    return ParameterServer(sim, hosts, **options)


FloatArray = npt.NDArray[np.float32]


class TcpRank:
    """One rank of a :class:`TcpGroup`, in place of a communicator.

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
        """Start a sum over all ranks, which call this in the same order."""
        number, self._calls = self._calls, self._calls + 1
        return asyncio.ensure_future(self._group.sum(number, self.rank, array, out))


class TcpGroup:
    """A group whose sums begin when all ranks have called them, one after the other.

    The streams carry lengths; the group adds the values.
    """

    def __init__(
        self, algorithm: str, sim: Simulation, hosts: Sequence[str], timeout_s: float
    ) -> None:
        """
        Raises:
            PlanError: an option is unknown, or the server is not one of the hosts.
            SimulationError: fewer than two hosts, or an unknown congestion control.
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
