"""The number of pushes of each worker: a registered array with an element per rank."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from innet.collectives import Communicator
from innet.errors import DeadlineExceeded
from innet.torch_backend.parameter_server.sharding import clocks_name

Ticks = npt.NDArray[np.int64]

LEFT = np.iinfo(np.int64).max
"""The clock of a worker that has left: no pull waits for it."""

_log = logging.getLogger(__name__)


def initial_clocks(ranks: int, workers: Collection[int]) -> Ticks:
    """Zero for the workers; :data:`LEFT` for the other ranks."""
    ticks = np.full(ranks, LEFT, np.int64)
    ticks[list(workers)] = 0
    return ticks


class Clocks:
    """The clocks of all workers, as one rank reads and advances them."""

    def __init__(
        self, communicator: Communicator, name: str, server: int, worker_timeout_s: float
    ) -> None:
        """A worker that pushes nothing for ``worker_timeout_s`` counts as dead."""
        self._communicator = communicator
        self._name = clocks_name(name)
        self._server = server
        self._worker_timeout_s = worker_timeout_s
        self._slowest: tuple[list[int], int] = ([], 0)
        self._slowest_since_s = 0.0

    def set(self, rank: int, ticks: int) -> None:
        """Set the clock of ``rank``."""
        self._communicator.put(
            self._name, self._server, np.array([ticks], np.int64), rows=slice(rank, rank + 1)
        )

    def wait_for(self, enough: Callable[[Ticks], bool]) -> None:
        """Wait until ``enough(clocks)``; makes workers leave that push nothing for too long."""
        at_least = 0
        while True:
            try:
                ticks, version = self._communicator.get(
                    self._name,
                    self._server,
                    at_least=at_least,
                    timeout_s=self._worker_timeout_s,
                )
            except DeadlineExceeded:
                # No clock advanced, or the server does not answer: then this raises.
                ticks, version = self._communicator.get(self._name, self._server)
            if enough(ticks):
                return
            self._dismiss_silent(ticks)
            at_least = version + 1

    def _dismiss_silent(self, ticks: Ticks) -> None:
        """Make the slowest workers leave if their clocks have not advanced for the timeout.

        Staleness never blocks the slowest workers; other workers may be silent because they wait.
        """
        now_s = time.monotonic()
        slowest = [rank for rank, tick in enumerate(ticks.tolist()) if tick == ticks.min()]
        if (slowest, ticks.min()) != self._slowest:
            self._slowest = (slowest, ticks.min())
            self._slowest_since_s = now_s
        elif ticks.min() != LEFT and now_s - self._slowest_since_s >= self._worker_timeout_s:
            for rank in slowest:
                _log.warning(
                    "rank %d has pushed nothing for %.1f s; the other workers go on without it",
                    rank,
                    now_s - self._slowest_since_s,
                )
                self.set(rank, LEFT)
