"""A parameter server: all push to one host, which adds and sends the sum back to each.

Parts of the tensor are sent back as soon as all of them have come, while later ones still come in.
The server's link carries (N - 1)M bytes each way, and all senders meet in one queue (incast).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from innet.errors import SimulationError
from innet.lab.simulation.simulation import Simulation

_PART_BYTES = 1 << 20


class ParameterServer:
    """Allreduces of lengths by way of one host, itself one of the ranks.

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
            simulation: whose links are used.
            hosts: of the ranks; by default all of the topology.
            server: which of them adds; by default the first.
            congestion: of the streams.

        Raises:
            SimulationError: fewer than two hosts, or a name that is none.
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
