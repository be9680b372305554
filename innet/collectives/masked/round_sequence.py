"""The masked rounds of a communicator, in one sequence, and how they survive the death of ranks.

All masked sums of a communicator, and of those that it shrinks to, are rounds of one sequence with
one numbering. So any number of sums live side by side, and after a death the survivors compare
their progress, whichever sum each is in. :mod:`.masked_round` states what a round consists of; this
module exchanges it over the network.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from innet.collectives.arrays import Bytes
from innet.collectives.masked.fixed_point import FixedPoint, Residues, Values
from innet.collectives.masked.masked_round import (
    ADVERTISED_BYTES,
    SIGNATURE_BYTES,
    MaskedRound,
    allowed_deaths,
)
from innet.errors import (
    CollectiveError,
    DeadlineExceeded,
    InnetError,
    MismatchError,
    PeerError,
    RankFailed,
    ReductionOverflow,
    SecurityError,
)
from innet.node.messages import named_rank

if TYPE_CHECKING:
    from innet.collectives import Communicator

_OBJECT_NAME = "masked-sum"
_ATTRIBUTE = "innet.collectives.masked"
_EXCHANGES = 6
"""Most collectives of a round: the last one has ended everywhere; all ranks have published their
keys; shares; sum; signatures; revelations. Every round, and every recovery, uses as many sequence
numbers, so that ranks are in step wherever one of them fails."""
_REASON_BYTES = 192
"""Length of a rank's reason for not signing."""
_CAUSE_BYTES = 512
"""Length of a round's cause of failure, which ranks exchange after a death."""

_HEARD = (PeerError, MismatchError, ReductionOverflow)
"""Errors of a collective that failed on another rank."""

T = TypeVar("T")


class MaskedEnd(IntEnum):
    """How a round has ended."""

    SUMMED = 0
    REFUSED = 1
    MISMATCHED = 2
    LOST = 3
    CLOSED = 4


_ERRORS: dict[MaskedEnd, type[InnetError]] = {
    MaskedEnd.REFUSED: PeerError,
    MaskedEnd.MISMATCHED: MismatchError,
    MaskedEnd.LOST: SecurityError,
}


@dataclass(frozen=True)
class MaskedOutcome:
    """The outcome of a round, the same on all ranks.

    Attributes:
        end: how it has ended.
        cause: why there is no sum, if there is none.
        total: the sum.
        contributors: the nodes whose values are in it.
    """

    end: MaskedEnd
    cause: str = ""
    total: npt.NDArray[Any] | None = None
    contributors: tuple[str, ...] = ()

    def require_success(self) -> MaskedOutcome:
        """This outcome.

        Raises:
            PeerError, MismatchError, SecurityError: the round has ended without a sum.
        """
        if self.end in _ERRORS:
            raise _ERRORS[self.end](self.cause)
        return self


@dataclass(frozen=True)
class SumRequest:
    """A sum that this rank takes part in.

    Attributes:
        values: of this rank.
        limit: largest magnitude of a value.
        threshold: of how many ranks at least it is unmasked.
        description: must be the same on all ranks.
    """

    values: Values
    limit: float
    threshold: int
    description: str


@dataclass(frozen=True)
class Close:
    """No sum: all ranks wait for each other, so that all have their last sum."""


MaskedRequest = SumRequest | Close
Prepare = Callable[[], MaskedRequest]


@dataclass
class _Attempt:
    """A round under way.

    Attributes:
        nodes: those that began it; a rank's number in the round is its place here.
        part: this rank's secrets.
        point: how values are residues.
        masked: this rank's residues with its masks.
        objection: why this rank refuses to sign, if it does.
        total: the sum of the masked residues, once it is known here.
        included: the nodes whose masked residues are in it.
    """

    nodes: tuple[str, ...]
    part: MaskedRound
    point: FixedPoint
    masked: Residues
    objection: str = ""
    total: Residues | None = None
    included: tuple[str, ...] = ()


class RoundSequence:
    """The masked rounds of a communicator and of its successors."""

    def __init__(self, comm: Communicator) -> None:
        self.communicator: Communicator = comm
        """The communicator of the surviving ranks."""
        self._everybody = comm.nodes
        self._sums = 0
        self._ended = 0
        self._last = self._before_last = MaskedOutcome(MaskedEnd.CLOSED)
        self._attempt: _Attempt | None = None
        self._added_in = -1
        self._signed_in = -1
        self._lost = ""
        self._unconfirmed = False
        self._recovering = False
        self._published: list[str] = []

    @classmethod
    def of(cls, comm: Communicator) -> RoundSequence:
        """The sequence of this communicator."""
        sequence: RoundSequence = comm.attributes.setdefault(_ATTRIBUTE, cls(comm))
        return sequence

    def next_sum(self) -> int:
        """The number of a new masked sum: the same on all ranks, which make them in one order."""
        self._sums += 1
        return self._sums - 1

    def run(self, prepare: Prepare) -> MaskedOutcome:
        """Run the next round to its end, also when ranks die.

        A failure here ends the round on all ranks at once: all exchanges are within
        :meth:`innet.collectives.Communicator.collective`, the preparation included.

        Args:
            prepare: what this rank takes part in.

        Raises:
            PeerError: a rank failed before any rank signed; the next round is not affected.
            SecurityError: the round is lost, and so are all that would follow.
            DeadlineExceeded: a rank did not take part in time; likewise.
        """
        request = prepare if prepare is Close else functools.cache(prepare)
        try:
            outcome = self._unless_a_rank_dies(lambda: self._begin(request))
            while outcome is None:
                outcome = self._unless_a_rank_dies(lambda: self._go_on(request))
        except PeerError as error:
            self._fail(error)
            raise self._error_of_peer(error) from error
        except BaseException as error:
            self._fail(error)
            raise
        return outcome

    def _unless_a_rank_dies(self, step: Callable[[], T]) -> T | None:
        """The result of ``step``; ``None`` after a rank has died and the group has shrunk."""
        try:
            return step()
        except RankFailed:
            while True:
                try:
                    self.communicator = self.communicator.shrink()
                except RankFailed:
                    continue  # another one died; the next group is without it
                self.communicator.attributes[_ATTRIBUTE] = self
                self._published.clear()
                return None

    # A round that fails.

    def _fail(self, error: BaseException) -> None:
        """End this round, as all ranks do, and all later rounds unless it is safe to go on."""
        cause = str(error) or type(error).__name__
        end = MaskedEnd.MISMATCHED if isinstance(error, MismatchError) else MaskedEnd.REFUSED
        end = MaskedEnd.LOST if self._is_lost(error) else end
        self._unconfirmed = True
        self._recovering = False
        self._end(MaskedOutcome(end, cause))

    def _is_lost(self, error: BaseException) -> bool:
        """Whether some rank may have signed who is in this sum when it learns of ``error``.

        Some rank may know the sum then. If the other ranks add the same values to another sum, the
        difference of the two shows the part of a rank that is in only one of them.

        A failure of this rank reaches the others in their next exchange. So the ranks agree: this
        rank is past the masked sum when the others are past their signatures.
        """
        if self._lost or self._recovering or isinstance(error, SecurityError | DeadlineExceeded):
            return True
        return self._ended == (self._signed_in if isinstance(error, _HEARD) else self._added_in)

    def _error_of_peer(self, error: PeerError) -> InnetError:
        who = "a rank"
        if error.rank is not None:
            who = named_rank(error.rank, self.communicator.nodes[error.rank])
        if self._lost:
            return SecurityError(
                f"{who} has failed in a masked sum that ranks may have signed, so it is lost, and "
                f"this communicator has no masked sums any more. Make another group: {error}"
            )
        return PeerError(f"{who} takes no part in a masked sum: {error}", rank=error.rank)

    # A round in which no rank dies.

    def _begin(self, request: Prepare) -> MaskedOutcome:
        with self.communicator.collective("masked sum", numbers=_EXCHANGES):
            if request is Close:
                self.communicator.barrier()
                return self._end(MaskedOutcome(MaskedEnd.CLOSED))
            if self._lost:
                raise SecurityError(
                    f"this communicator has no masked sums any more: {self._lost}. Make another "
                    "group"
                )
            if self._unconfirmed:
                # A rank that failed did not wait for the others: none gets further ahead than this.
                self.communicator.barrier()
                self._unconfirmed = False
            wanted = request()
            assert isinstance(wanted, SumRequest)
            return self._sum(wanted)

    def _sum(self, request: SumRequest) -> MaskedOutcome:
        comm = self.communicator
        if self._signed_in == self._ended:
            raise SecurityError(
                "this rank has signed who is in this sum, and is asked to begin it anew. The "
                "difference of two sums could show what one rank has added; the round is lost"
            )
        if comm.size < request.threshold:
            began = len(self._everybody)
            raise SecurityError(
                f"{comm.size} of {began} ranks are left: no sum of so few is unmasked. "
                + allowed_deaths(request.threshold, began)
            )
        self._attempt = None
        context = f"{self._ended} of {','.join(comm.nodes)}".encode()
        part = MaskedRound(comm.rank, comm.size, request.threshold, context)
        own = part.advertise() + request.description.encode()
        advertised = self._exchange_advertised(own)
        _require_equal_descriptions(advertised)
        keys = [message[:ADVERTISED_BYTES] for message in advertised]
        dealt = part.deal(keys)
        received = comm.alltoall(np.stack([_bytes(message) for message in dealt]))
        point = self._point(request)
        masked = part.mask(point.encode(request.values.ravel()), point)
        attempt = _Attempt(comm.nodes, part, point, masked)
        try:
            part.receive([message.tobytes() for message in received])
        except SecurityError as error:
            attempt.objection = str(error)  # the others learn it where they sign
        self._attempt = attempt
        return self._add_up(attempt, request)

    def _exchange_advertised(self, own: bytes) -> list[bytes]:
        """The keys that each rank has published for this round, in the order of ranks.

        The node's own key signs what is published: no switch can replace a rank's keys. A
        collective confirms that all ranks have published; a failure ends it at once.
        """
        comm, name = self.communicator, f"{_OBJECT_NAME}/{self._ended}"
        comm.publish(name, own)
        self._published.append(name)
        ended = comm.allgather(np.array([self._ended], np.int64)).ravel()
        if (ended != self._ended).any():
            raise SecurityError(
                f"the ranks are in different masked sums: number {ended.tolist()} by rank. This "
                "communicator has none any more; make another group"
            )
        for earlier in self._published[:-1]:
            comm.withdraw(earlier)  # all ranks have ended that round
        del self._published[:-1]
        works = {r: comm.ifetch(name, source=r) for r in range(comm.size) if r != comm.rank}
        return [works[r].wait().tobytes() if r in works else own for r in range(comm.size)]

    def _add_up(self, attempt: _Attempt, request: SumRequest) -> MaskedOutcome:
        self._added_in = self._ended
        attempt.total = self.communicator.allreduce(attempt.masked)
        attempt.included = self.communicator.nodes
        return self._unmask(attempt, request)

    def _unmask(self, attempt: _Attempt, request: SumRequest) -> MaskedOutcome:
        """Agree on the ranks in the sum, then reveal the secrets that unmask it."""
        comm = self.communicator
        if attempt.total is None:
            raise CollectiveError("a round without a sum has nothing to unmask")
        numbers = [attempt.nodes.index(node) for node in comm.nodes]
        records = comm.allgather(_bytes(self._signature_record(attempt)))
        signatures = {
            number: record[:SIGNATURE_BYTES].tobytes()
            for number, record in zip(numbers, records, strict=True)
        }
        length = attempt.part.revelation_bytes(len(numbers))
        refused: SecurityError | None = None
        try:
            _require_no_objection(comm.nodes, records)
            revealed = attempt.part.reveal(signatures)
        except SecurityError as error:
            # The others do not wait for this rank: they get messages that cannot be opened.
            refused, revealed = error, {}
        messages = [_bytes(revealed.get(number, bytes(length))) for number in numbers]
        received = comm.alltoall(np.stack(messages))
        if refused is not None:
            raise refused
        sealed = {
            number: message.tobytes() for number, message in zip(numbers, received, strict=True)
        }
        residues = attempt.part.unmask(attempt.total, attempt.point, sealed)
        total = attempt.point.decode(residues).reshape(request.values.shape)
        return self._end(
            MaskedOutcome(MaskedEnd.SUMMED, total=total, contributors=attempt.included)
        )

    def _signature_record(self, attempt: _Attempt) -> bytes:
        """This rank's signature of who is in the sum, or why it gives none; of fixed length."""
        included = [r for r, node in enumerate(attempt.nodes) if node in attempt.included]
        signature, reason = bytes(SIGNATURE_BYTES), attempt.objection
        if not reason:
            try:
                signature = attempt.part.sign(included)
                self._signed_in = self._ended
            except SecurityError as error:
                reason = str(error)
        return signature + reason.encode()[:_REASON_BYTES].ljust(_REASON_BYTES, b"\0")

    def _end(self, outcome: MaskedOutcome) -> MaskedOutcome:
        if outcome.end is MaskedEnd.LOST:
            self._lost = self._lost or outcome.cause
        self._ended += 1
        self._attempt = None
        # The caller may change its array, and other ranks may still have to learn the sum.
        kept = None if outcome.total is None else outcome.total.copy()
        self._before_last, self._last = self._last, replace(outcome, total=kept)
        return outcome

    # After the death of a rank.

    def _go_on(self, request: Prepare) -> MaskedOutcome:
        """End the round with the survivors, which may be at different points of it.

        A rank that has ended the round broadcasts the outcome. A rank that failed in the round
        after that, for which it did not wait, fails in it once more: some do not know it. A rank
        that knows the masked sum broadcasts the sum: some rank may have signed who is in it. If
        there is none, and all have masked, the survivors make the masked sum. Before all have
        masked, no rank can have signed, and the round begins again.
        """
        self._recovering = True
        with self.communicator.collective("recovery of a masked sum", numbers=_EXCHANGES):
            ended, stages = self._progress().T
            outcome = self._resume(request, ended, stages)
        self._recovering = self._unconfirmed = False
        if outcome is not None:
            return outcome
        if self._ended > ended.min() + 1:
            self._fail_again()
        return self._begin(request)

    def _fail_again(self) -> None:
        with (
            contextlib.suppress(CollectiveError),
            self.communicator.collective("masked sum", numbers=_EXCHANGES),
        ):
            raise CollectiveError(self._last.cause)
        self._unconfirmed = True

    def _resume(
        self, request: Prepare, ended: npt.NDArray[np.int64], stages: npt.NDArray[np.int64]
    ) -> MaskedOutcome | None:
        """The outcome of this rank's round; ``None`` if the round is yet to begin."""
        if ended.min() < ended.max():
            first = int(ended.min())
            outcome = self._receive_outcome(int(ended.argmax()), first, request)
            if self._ended > first:
                return None
            if self._attempt is not None and outcome.end in (
                MaskedEnd.REFUSED,
                MaskedEnd.MISMATCHED,
            ):
                raise SecurityError(
                    f"rank {ended.argmax()} reports that a masked sum was refused, and all ranks "
                    "had begun it: the ranks do not run the same program. The round is lost"
                )
            return self._end(outcome)
        attempt = self._attempt
        if attempt is None:
            return None
        wanted = request()
        assert isinstance(wanted, SumRequest)
        if stages.max() == 2:
            self._receive_masked_sum(attempt, int(stages.argmax()))
            return self._unmask(attempt, wanted)
        return self._add_up(attempt, wanted) if stages.min() == 1 else None

    def _progress(self) -> npt.NDArray[np.int64]:
        """By rank: the number of ended rounds; the stage of the next, 1 if masked, 2 if summed."""
        stage = 0 if self._attempt is None else 1 if self._attempt.total is None else 2
        return self.communicator.allgather(np.array([self._ended, stage], np.int64))

    def _receive_masked_sum(self, attempt: _Attempt, source: int) -> None:
        total = np.empty_like(attempt.masked) if attempt.total is None else attempt.total
        flags = self._flags(attempt.included)
        self.communicator.broadcast(flags, root=source)
        self.communicator.broadcast(total, root=source)
        attempt.total, attempt.included = total, self._nodes_of(flags)  # whole, or as it was

    def _receive_outcome(self, source: int, number: int, request: Prepare) -> MaskedOutcome:
        """The outcome of a round that rank ``source`` has ended, its last one or the one before."""
        is_ahead = self._ended > number
        known = self._last if self._ended <= number + 1 else self._before_last
        flags = self._flags(known.contributors)
        cause = known.cause.encode()[:_CAUSE_BYTES].ljust(_CAUSE_BYTES, b"\0")
        header = np.concatenate([_bytes(bytes([known.end])), flags, _bytes(cause)])
        self.communicator.broadcast(header, root=source)
        end, flags = MaskedEnd(int(header[0])), header[1 : 1 + flags.size]
        if end is not MaskedEnd.SUMMED:
            text = header[1 + flags.size :].tobytes().rstrip(b"\0")
            return MaskedOutcome(end, text.decode(errors="replace"))
        if is_ahead and known.total is not None:
            total = known.total.copy()
        elif isinstance(wanted := request(), SumRequest):
            point = self._point(wanted)
            total = np.empty(wanted.values.shape, point.sum_dtype)
        else:
            raise SecurityError(f"rank {source} reports a masked sum that this rank did not begin")
        content = total.reshape(-1)  # a view: the arrays here are whole
        self.communicator.broadcast(content, root=source)
        return MaskedOutcome(end, total=total, contributors=self._nodes_of(flags))

    def _point(self, request: SumRequest) -> FixedPoint:
        return FixedPoint.of(request.values.dtype, self.communicator.size, request.limit)

    def _flags(self, nodes: Sequence[str]) -> Bytes:
        return np.array([node in nodes for node in self._everybody], np.uint8)

    def _nodes_of(self, flags: Bytes) -> tuple[str, ...]:
        return tuple(node for node, flag in zip(self._everybody, flags, strict=True) if flag)


def _require_equal_descriptions(advertised: Sequence[bytes]) -> None:
    texts = [message[ADVERTISED_BYTES:].decode(errors="replace") for message in advertised]
    if len(set(texts)) > 1:
        listed = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        raise MismatchError(f"ranks called different masked sums: {listed}")


def _require_no_objection(nodes: Sequence[str], records: npt.NDArray[np.uint8]) -> None:
    for rank, record in enumerate(records):
        reason = record[SIGNATURE_BYTES:].tobytes().rstrip(b"\0").decode(errors="replace")
        if reason:
            raise SecurityError(
                f"{named_rank(rank, nodes[rank])} does not unmask this sum: {reason}"
            )


def _bytes(message: bytes) -> Bytes:
    return np.frombuffer(message, np.uint8)
