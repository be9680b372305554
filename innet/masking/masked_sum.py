"""Sums over a communicator of which no switch and no rank sees one rank's part.

What is exchanged in a round is made in :mod:`.masked_round`; here it goes over the network, and a
round in which a rank dies is brought to an end by those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError, RankFailed, SecurityError
from innet.joint_close import JointlyClosed
from innet.masking.fixed_point import FixedPoint, Residues, Values
from innet.masking.masked_round import MaskedRound

if TYPE_CHECKING:
    from innet.collectives import Communicator

_OBJECT_NAME = "masked-sum"

T = TypeVar("T")


@dataclass(frozen=True)
class MaskedTotal:
    """A sum, and whose values are in it.

    Attributes:
        total: the sum.
        contributors: the nodes whose values were added.
    """

    total: npt.NDArray[Any]
    contributors: tuple[str, ...]


@dataclass
class _Attempt:
    """A round under way.

    Attributes:
        nodes: who began it; a rank's number in the round is its place here.
        part: this rank's secrets.
        point: how values are residues.
        masked: this rank's residues with its masks.
        total: their sum, once it is known here.
        included: whose masked residues are in it.
    """

    nodes: tuple[str, ...]
    part: MaskedRound
    point: FixedPoint
    masked: Residues
    total: Residues | None = None
    included: tuple[str, ...] = ()


class MaskedSum(JointlyClosed):
    """Adds up arrays of all ranks so that only their sum is ever known.

    Every rank calls :meth:`allreduce` in the same order, as with a collective. When a rank dies,
    the others shrink the communicator and end the round without it, or with its part if that is in
    the sum already; go on with :attr:`communicator` then. Ranks need each other until all have the
    sum, so :meth:`close` comes before the communicator's, or a ``with`` around both.

    Args:
        comm: who adds; one object of this class for a communicator.
        limit: largest magnitude of a value. Values are in fixed point: the smaller the limit, the
            finer.
        threshold: of how many ranks at least a sum is unmasked; two thirds of them by default. It
            must be more than half.

    Raises:
        CollectiveError: the threshold is not more than half of the ranks, or more than all.

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
        self.communicator: Communicator = comm
        """Of those who are left."""
        two_thirds = max(-(-2 * comm.size // 3), comm.size // 2 + 1)
        self.threshold = two_thirds if threshold is None else threshold
        if not comm.size // 2 < self.threshold <= comm.size:
            raise CollectiveError(
                f"threshold={threshold} of {comm.size} ranks: give more than half of them, and no "
                "more than all"
            )
        self._limit = limit
        self._everybody = comm.nodes
        self._finished = 0
        self._last: MaskedTotal | None = None
        self._attempt: _Attempt | None = None

    def allreduce(self, array: npt.ArrayLike) -> MaskedTotal:
        """The sum of everybody's ``array``, the same bits on every rank.

        Args:
            array: of any shape, the same everywhere; integers or floating point. A sum of
                integers is exact; a value of another type is off by half of a step at most
                (:attr:`innet.masking.fixed_point.FixedPoint.resolution`).

        Returns:
            The sum, in int64 for integers; and the nodes whose parts are in it.

        Raises:
            CollectiveError: a value is beyond the limit, or no number, or of another type.
            SecurityError: fewer ranks are left than the threshold; or what a rank has sent does
                not fit what it had promised. The communicator has no masked sums any more then.
            DeadlineExceeded: a rank did not come in time.
        """
        values = np.asarray(array)
        self._point(values).check(values)  # whoever gives what cannot be added hears so at once

        def whole() -> MaskedTotal:
            return self._whole_round(values)

        result = self._without_those_who_fail(whole)
        while result is None:
            result = self._without_those_who_fail(lambda: self._go_on(values))
        return result

    def close(self) -> None:
        """Wait until every rank that is left has its last sum, and help those who have not.

        Every rank calls it; the communicator stays open.

        Raises:
            DeadlineExceeded: a rank did not come in time.
        """
        ended = self._without_those_who_fail(self._meet)
        while ended is None:
            ended = self._without_those_who_fail(self._help_and_meet)

    def _meet(self) -> bool:
        self.communicator.barrier()
        return True

    def _help_and_meet(self) -> bool:
        finished = self._reached()[:, 0]
        if finished.min() < finished.max() and self._last is not None:
            self._told(int(finished.argmax()), self._last.total, self._last.contributors)
        return self._meet()

    def _without_those_who_fail(self, step: Callable[[], T]) -> T | None:
        """What ``step`` gives; ``None`` after a rank has died and the others have met anew."""
        try:
            return step()
        except RankFailed:
            while True:
                try:
                    self.communicator = self.communicator.shrink()
                    return None
                except RankFailed:
                    continue  # one more; the next group is without it

    def _point(self, values: Values) -> FixedPoint:
        return FixedPoint.of(values.dtype, self.communicator.size, self._limit)

    def _whole_round(self, values: Values) -> MaskedTotal:
        comm = self.communicator
        if comm.size < self.threshold:
            raise SecurityError(
                f"{comm.size} of {len(self._everybody)} ranks are left, and the threshold is "
                f"{self.threshold}: no sum of so few is unmasked"
            )
        self._attempt = None
        point = self._point(values)
        context = f"{self._finished} of {','.join(comm.nodes)}".encode()
        part = MaskedRound(comm.rank, comm.size, self.threshold, context)
        dealt = part.deal(self._exchange_keys(part.advertise()))
        received = comm.alltoall(np.stack([_bytes(message) for message in dealt]))
        masked = part.mask(
            point.encode(values.ravel()), point, [message.tobytes() for message in received]
        )
        self._attempt = _Attempt(comm.nodes, part, point, masked)
        return self._add_up(self._attempt, values.shape)

    def _exchange_keys(self, own: bytes) -> list[bytes]:
        """Everybody's keys, each signed by its rank: a switch cannot put its own in their place."""
        comm = self.communicator
        name = f"{_OBJECT_NAME}/{self._finished}"
        comm.publish(name, own)
        works = [comm.ifetch(name, source=r) for r in range(comm.size) if r != comm.rank]
        others = iter([work.wait().tobytes() for work in works])
        keys = [own if rank == comm.rank else next(others) for rank in range(comm.size)]
        # Who is in this round has ended the one before.
        comm.withdraw(f"{_OBJECT_NAME}/{self._finished - 1}")
        return keys

    def _add_up(self, attempt: _Attempt, shape: Sequence[int]) -> MaskedTotal:
        attempt.total = self.communicator.allreduce(attempt.masked)
        attempt.included = self.communicator.nodes
        return self._unmask(attempt, shape)

    def _unmask(self, attempt: _Attempt, shape: Sequence[int]) -> MaskedTotal:
        if attempt.total is None:
            raise CollectiveError("a round without a sum has nothing to unmask")
        comm = self.communicator
        dropped = [r for r, node in enumerate(attempt.nodes) if node not in attempt.included]
        shares = comm.allgather(_bytes(attempt.part.reveal(dropped)))
        revealed = {
            attempt.nodes.index(node): shares[rank].tobytes()
            for rank, node in enumerate(comm.nodes)
        }
        residues = attempt.part.unmask(attempt.total, attempt.point, dropped, revealed)
        total = attempt.point.decode(residues).reshape(shape)
        return self._end(MaskedTotal(total, attempt.included))

    def _end(self, result: MaskedTotal) -> MaskedTotal:
        self._finished += 1
        # The caller may change what it gets, and others may still have to hear what it was.
        self._last = replace(result, total=result.total.copy())
        self._attempt = None
        return result

    def _go_on(self, values: Values) -> MaskedTotal:
        """Bring the round to an end with those who are left: they may be at different points of it.

        Who has ended it already has the sum for all. Who knows the masked sum has it for all: some
        rank may have revealed shares for just those who are in it. When nobody does, it is the sum
        of those who are left. Before everybody had masked, nothing can have been revealed, and the
        round begins anew.
        """
        reached = self._reached()
        finished, stages = reached[:, 0], reached[:, 1]
        if finished.min() < finished.max():
            if self._last is not None and self._finished == finished.max():
                self._told(int(finished.argmax()), self._last.total, self._last.contributors)
                return self._whole_round(values)
            total = np.empty(values.shape, self._point(values).sum_dtype)
            contributors = self._told(int(finished.argmax()), total, ())
            return self._end(MaskedTotal(total, contributors))
        if stages.max() == 2 and self._attempt is not None:
            attempt = self._attempt
            total = np.empty_like(attempt.masked) if attempt.total is None else attempt.total
            included = self._told(int(stages.argmax()), total, attempt.included)
            attempt.total, attempt.included = total, included  # whole, or as it was
            return self._unmask(attempt, values.shape)
        if stages.min() == 1 and self._attempt is not None:
            return self._add_up(self._attempt, values.shape)
        return self._whole_round(values)

    def _reached(self) -> npt.NDArray[np.int64]:
        """Of each rank: rounds that it has ended; and in the next, 1 if masked, 2 if summed."""
        stage = 0 if self._attempt is None else 1 if self._attempt.total is None else 2
        return self.communicator.allgather(np.array([self._finished, stage], np.int64))

    def _told(
        self, teller: int, total: npt.NDArray[Any], nodes: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Fill everybody's ``total`` with that of rank ``teller``; whose parts are in it."""
        flags = np.array([node in nodes for node in self._everybody], np.uint8)
        self.communicator.broadcast(flags, root=teller)
        content = total.reshape(-1)  # a view: the arrays here are whole
        self.communicator.broadcast(content, root=teller)
        return tuple(node for node, flag in zip(self._everybody, flags, strict=True) if flag)


def _bytes(message: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(message, np.uint8)
