"""What takes part in a comparison: the interface, and innet itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

import innet
from innet.lab.compare.pattern import FloatArray

ADDRESS_VARIABLE = "INNET_COMPARE_ADDRESS"
"""Environment variable with the IP address at which the other hosts reach this one."""


class Contender(Protocol):
    """One rank of a group that can do allreduces; every method is called on all ranks alike.

    Only :meth:`allreduce` is timed. Each library works as suits it best, in place or not: what it
    needs besides is done in :meth:`load`.
    """

    rank: int
    size: int
    version: str
    """What is measured, for the report."""

    def load(self, call: str, contribution: FloatArray) -> None:
        """Get ready to sum ``contribution`` (float32, one dimension) by the algorithm ``call``."""
        ...

    def allreduce(self) -> None:
        """Sum what was loaded over all ranks."""
        ...

    def result(self) -> FloatArray:
        """The sum, of the same shape as the contribution."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


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
