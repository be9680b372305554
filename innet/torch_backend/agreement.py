"""How the ranks begin a call that is made of several operations: all make them, or none does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from innet.collectives import Communicator, Work
from innet.collectives.arrays import Array
from innet.errors import MismatchError, PeerError, ReductionOverflow
from innet.torch_backend.launcher import CalledOff, Step

_MARK = 0x696E6E6574
"""Begins an agreement, which so differs from the elements of a program's tensors."""


class Agreement:
    """The first operation of a call of several: every rank announces what it is about to do.

    How many operations a call has follows from its arguments, and a rank that fails over its
    arguments cannot tell how many the others make. So it fails this one, and nobody makes the rest.
    """

    def __init__(self, communicator: Communicator, header: npt.NDArray[np.int64]) -> None:
        self._communicator = communicator
        self._header = header
        self._work: Work[Array] | None = None

    def start(self) -> Work[Array]:
        """Announce the header of this rank."""
        self._work = self._communicator.iallgather(self._header)
        return self._work

    def headers(self) -> Array:
        """What all ranks announced, one row each.

        Raises:
            CalledOff: a rank failed, or called something else; so no rank has the headers.
            CollectiveError: this rank may be the only one without them.
        """
        assert self._work is not None
        try:
            return self._work.wait()
        except (MismatchError, PeerError, ReductionOverflow) as error:
            raise CalledOff(error) from error


def agreed(
    communicator: Communicator, steps: Sequence[Step], *, synchronising: bool = True
) -> list[Step]:
    """The steps, after an agreement on how many there are.

    Args:
        communicator: of this rank.
        steps: those that follow.
        synchronising: what :meth:`Communicator.collective` says of the call. A rank on which it
            failed counts the agreement as such a call, and does not know that the others agree.
    """
    announcing = functools.partial(Step, synchronising=synchronising)
    agreement = Agreement(communicator, np.array([_MARK, len(steps)], np.int64))

    def require_equal() -> None:
        for rank, (_, count) in enumerate(agreement.headers()):
            if count != len(steps):
                raise MismatchError(
                    f"ranks make calls of different numbers of operations: this rank, "
                    f"{communicator.rank}, has {len(steps)} and rank {rank} has {count}; pass as "
                    "many tensors, of the same sizes, on every rank"
                )

    if not steps:
        return [announcing(agreement.start, require_equal)]
    first = steps[0]

    def ready() -> None:
        try:
            require_equal()
        except MismatchError as error:
            raise CalledOff(error) from error
        if first.ready is not None:
            first.ready()

    return [announcing(agreement.start), replace(first, ready=ready), *steps[1:]]
