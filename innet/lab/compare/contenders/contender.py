"""What a library must provide to take part in a comparison."""

from __future__ import annotations

from typing import Protocol

from innet.lab.compare.pattern import FloatArray


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
