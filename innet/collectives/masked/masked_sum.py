"""Sums over a communicator in which no switch and no rank sees one rank's part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from innet.collectives.arrays import plain_array
from innet.collectives.masked.fixed_point import FixedPoint, require_limit
from innet.collectives.masked.masked_round import require_majority
from innet.collectives.masked.round_sequence import Close, RoundSequence, SumRequest
from innet.joint_close import JointlyClosed

if TYPE_CHECKING:
    from innet.collectives import Communicator


@dataclass(frozen=True)
class MaskedTotal:
    """A sum, and whose values are in it.

    Attributes:
        total: the sum.
        contributors: the nodes whose values were added.
    """

    total: npt.NDArray[Any]
    contributors: tuple[str, ...]


class MaskedSum(JointlyClosed):
    """Adds up arrays of all ranks so that only their sum is ever known.

    Every rank calls :meth:`allreduce` in the same order, as with a collective. When a rank dies,
    the others shrink the communicator and end the round without it, or with its part if that is in
    the sum already; continue with :attr:`communicator` then. Ranks need each other until all have
    the sum, so call :meth:`close` before the communicator's, or a ``with`` around both.

    Any number of objects of this class may be in use on one communicator, with different limits for
    instance. All ranks make them in the same order.

    Args:
        comm: the ranks that add.
        limit: largest magnitude of a value. Values are in fixed point: the smaller the limit, the
            finer.
        threshold: a sum is unmasked only when at least so many ranks are left and have signed who
            is in it. More than two thirds of the ranks by default; it must be more than half.
            docs/masked-sums.md says how many colluding ranks each threshold withstands.

    Raises:
        CollectiveError: the threshold is not more than half of the ranks, or more than all; or the
            limit is not above 0.

    Example::

        with innet.MaskedSum(innet.init(), limit=8.0) as sums:
            for _ in range(rounds):
                update = train(model)
                result = sums.allreduce(update)
                model += result.total / len(result.contributors)
        sums.communicator.close()
    """

    def __init__(
        self, comm: Communicator, *, limit: float = 1.0, threshold: int | None = None
    ) -> None:
        self.threshold = 2 * comm.size // 3 + 1 if threshold is None else threshold
        require_majority(self.threshold, comm.size)
        require_limit(limit)
        self._limit = limit
        self._sequence = RoundSequence.of(comm)
        self._number = self._sequence.next_sum()

    @property
    def communicator(self) -> Communicator:
        """The communicator of the surviving ranks."""
        return self._sequence.communicator

    def allreduce(self, array: npt.ArrayLike) -> MaskedTotal:
        """The sum of all ranks' ``array``, the same bits on every rank.

        Args:
            array: of any shape, the same everywhere; integers or floating point. A sum of
                integers is exact; a value of another type is off by half of a step at most
                (:attr:`innet.collectives.masked.fixed_point.FixedPoint.resolution`).

        Returns:
            The sum, in int64 for integers; and the nodes whose parts are in it.

        Raises:
            CollectiveError: a value of this rank is beyond the limit, or not a number, or of a type
                that has no sum.
            PeerError: that, or another failure (no memory, an interrupt), has happened on another
                rank before ranks signed who is in the sum. Every rank gets an error, which names
                the rank and the cause, at once; the next sum is not affected.
            MismatchError: ranks gave different shapes, types, limits or thresholds; likewise.
            SecurityError: fewer ranks are left than the threshold; they do not agree who is in the
                sum; a rank sent what does not fit what it had promised; or a rank failed after
                ranks had signed. The communicator has no masked sums any more then.
            DeadlineExceeded: a rank did not take part in time; likewise.
        """
        outcome = self._sequence.run(lambda: self._request(array)).require_success()
        assert outcome.total is not None
        return MaskedTotal(outcome.total, outcome.contributors)

    def close(self) -> None:
        """Wait until every rank that is left has its last sum, and help those that have not.

        Every rank calls it; the communicator stays open.

        Raises:
            DeadlineExceeded: a rank did not call it in time.
        """
        self._sequence.run(Close)

    def _request(self, array: npt.ArrayLike) -> SumRequest:
        values = plain_array(array)
        FixedPoint.of(values.dtype, self.communicator.size, self._limit).check(values)
        description = (
            f"sum {self._number} of {values.dtype} of shape {values.shape}, "
            f"limit={self._limit!r}, threshold={self.threshold}"
        )
        return SumRequest(values, self._limit, self.threshold, description)
