"""A ring allreduce as Gloo does it: reduce-scatter, then allgather, in pipelined segments.

The tensor is cut into a chunk for each rank, and each chunk into at least two segments of at most
1 MiB (``gloo/allreduce.cc``), so that a rank sends one on while it receives the next. After N - 1
steps each rank has the sum of one chunk, after N - 1 more it has all of them: 2M(N - 1)/N bytes
cross each link of the ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from innet.errors import SimulationError
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
            simulation: whose links are used.
            hosts: of the ranks; by default all of the topology.
            congestion: of the streams.

        Raises:
            SimulationError: fewer than two hosts, or a name that is none.
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
    """One rank: its own chunk goes out at once, everything else once it has come in."""
    outgoing.write(own_segments * segment_bytes)
    for number in range(1, passes + 1):
        await incoming.arrived(before_bytes + number * segment_bytes)
        if number <= passes - own_segments:
            outgoing.write(segment_bytes)
