"""How far every worker is: a registered array with an element for each rank."""

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
"""The clock of a worker that pushes no more: it holds nobody up."""

_log = logging.getLogger(__name__)


def initial_clocks(ranks: int, workers: Collection[int]) -> Ticks:
    """Zero for the workers; other ranks have left before they came."""
    ticks = np.full(ranks, LEFT, np.int64)
    ticks[list(workers)] = 0
    return ticks


class Clocks:
    """The clocks of all workers, as one rank sees and moves them."""

    def __init__(
        self, communicator: Communicator, name: str, server: int, worker_timeout_s: float
    ) -> None:
        """``worker_timeout_s`` without a push, and a worker is taken for dead."""
        self._communicator = communicator
        self._name = clocks_name(name)
        self._server = server
        self._worker_timeout_s = worker_timeout_s
        self._slowest: tuple[list[int], int] = ([], 0)
        self._slowest_since_s = 0.0

    def set(self, rank: int, ticks: int) -> None:
        """Move the clock of ``rank``."""
        self._communicator.put(
            self._name, self._server, np.array([ticks], np.int64), rows=slice(rank, rank + 1)
        )

    def wait_for(self, enough: Callable[[Ticks], bool]) -> None:
        """Wait until the clocks are ``enough``; workers that are silent for too long leave."""
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
                # Nobody moved, or the server is silent: then this raises.
                ticks, version = self._communicator.get(self._name, self._server)
            if enough(ticks):
                return
            self._dismiss_silent(ticks)
            at_least = version + 1

    def _dismiss_silent(self, ticks: Ticks) -> None:
        """Let the slowest leave when nothing has changed about them for long.

        The slowest are never held up by staleness; others may be silent because they wait.
        """
        now_s = time.monotonic()
        slowest = [rank for rank, tick in enumerate(ticks.tolist()) if tick == ticks.min()]
        if (slowest, ticks.min()) != self._slowest:
            self._slowest = (slowest, ticks.min())
            self._slowest_since_s = now_s
        elif ticks.min() != LEFT and now_s - self._slowest_since_s >= self._worker_timeout_s:
            for rank in slowest:
                _log.warning(
                    "rank %d has pushed nothing for %.1f s; the others go on without it",
                    rank,
                    now_s - self._slowest_since_s,
                )
                self.set(rank, LEFT)
