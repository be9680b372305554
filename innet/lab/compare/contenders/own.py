"""innet itself: one communicator for each algorithm, in one group of workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import innet
from innet.lab.compare.pattern import FloatArray


class OwnContender:
    """Calls name innet's algorithms: ``inc``, ``ring``, ``ps``, ``halving-doubling``, ``auto``."""

    def __init__(self, calls: Sequence[str]) -> None:
        self._communicators = {
            call: innet.init(group=f"compare-{call}", algorithm=call) for call in calls
        }
        first = next(iter(self._communicators.values()))
        self.rank = first.rank
        self.size = first.size
        self.version = f"innet {innet.__version__}"
        self._communicator = first
        self._contribution: FloatArray = np.empty(0, np.float32)
        self._out: FloatArray = np.empty(0, np.float32)

    def load(self, call: str, contribution: FloatArray) -> None:
        """Keep the contribution; the result goes to a buffer of its own."""
        self._communicator = self._communicators[call]
        self._contribution = contribution
        if self._out.shape != contribution.shape:
            self._out = np.zeros_like(contribution)

    def allreduce(self) -> None:
        """One allreduce, out of place."""
        self._communicator.allreduce(self._contribution, out=self._out)

    def result(self) -> FloatArray:
        """The output buffer."""
        return self._out

    def close(self) -> None:
        """Close all communicators."""
        for communicator in self._communicators.values():
            communicator.close()
