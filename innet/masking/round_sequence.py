"""The masked rounds of a communicator, in one sequence, and how they survive the death of ranks.

All masked sums of a communicator, and of those that it shrinks to, are rounds of one sequence with
one numbering. So any number of them live side by side, and after a death the ranks that are left
compare how far each one is, whichever sum it is in. What a round consists of is in
:mod:`.masked_round`; here it goes over the network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError, InnetError, MismatchError, RankFailed, SecurityError
from innet.masking.fixed_point import FixedPoint, Residues, Values
from innet.masking.masked_round import ADVERTISED_BYTES, SIGNATURE_BYTES, MaskedRound

if TYPE_CHECKING:
    from innet.collectives import Communicator

_OBJECT_NAME = "masked-sum"
_ATTRIBUTE = "innet.masking"
_KEYS, _REFUSAL = b"\1", b"\0"
"""First byte of what a rank publishes for a round."""
_PATIENCE_S = 0.05
"""How long a rank waits for one rank before it looks what the others have published."""
_REASON_BYTES = 192
"""Of the text with which a rank explains that it does not sign."""
_CAUSE_BYTES = 512
"""Of the text that a round ended with, as ranks tell it after a death."""

T = TypeVar("T")
Bytes = npt.NDArray[np.uint8]


class End(IntEnum):
    """How a round has ended."""

    SUMMED = 0
    REFUSED = 1
    MISMATCHED = 2
    LOST = 3
    CLOSED = 4


_ERRORS: dict[End, type[InnetError]] = {
    End.REFUSED: CollectiveError,
    End.MISMATCHED: MismatchError,
    End.LOST: SecurityError,
}


@dataclass(frozen=True)
class Outcome:
    """What a round has come to, the same on all ranks.

    Attributes:
        end: how it has ended.
        cause: why there is no sum, if there is none.
        total: the sum.
        contributors: the nodes whose values are in it.
    """

    end: End
    cause: str = ""
    total: npt.NDArray[Any] | None = None
    contributors: tuple[str, ...] = ()

    def require_success(self) -> Outcome:
        """This outcome.

        Raises:
            CollectiveError, MismatchError, SecurityError: the round has ended without a sum.
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
class Refusal:
    """A sum that this rank cannot take part in, and why."""

    cause: str


@dataclass(frozen=True)
class Close:
    """Not a sum: all ranks wait for each other, so that all have their last one."""


Request = SumRequest | Refusal | Close


@dataclass
class _Attempt:
    """A round under way.

    Attributes:
        nodes: those that began it; a rank's number in the round is its place here.
        part: this rank's secrets.
        point: how values are residues.
        masked: this rank's residues with its masks.
        objection: why this rank will not sign, if it will not.
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
        """Of the ranks that are left."""
        self._everybody = comm.nodes
        self._sums = 0
        self._ended = 0
        self._last = Outcome(End.CLOSED)
        self._attempt: _Attempt | None = None
        self._signed_in = -1
        self._lost = ""
        self._pending: Refusal | None = None
        self._offered: dict[int, bytes] = {}

    @classmethod
    def of(cls, comm: Communicator) -> RoundSequence:
        """The one of this communicator."""
        sequence: RoundSequence = comm.attributes.setdefault(_ATTRIBUTE, cls(comm))
        return sequence

    def next_sum(self) -> int:
        """The number of another masked sum: the same on all ranks, which make them in one order."""
        self._sums += 1
        return self._sums - 1

    def run(self, request: Request) -> Outcome:
        """Take part in the next round, and bring it to an end whichever ranks die.

        A rank that refuses does not wait for the others here, but when it is called next.

        Raises:
            SecurityError: the round is lost, and so are all that would follow.
            DeadlineExceeded: a rank did not come in time; likewise.
        """
        if self._lost and not isinstance(request, Close):
            self._lose(f"an earlier masked sum has failed there: {self._lost}")
            raise SecurityError(
                f"this communicator has no masked sums any more: {self._lost}. Make another group"
            )
        try:
            if self._pending is not None:
                pending, self._pending = self._pending, None
                self._finish(pending, self._begin)
            if isinstance(request, Refusal):
                return self._finish(request, self._refuse)
            return self._finish(request, self._begin)
        except BaseException as error:
            self._lost = self._lost or str(error) or type(error).__name__
            self._lose(self._lost)
            raise

    def _finish(self, request: Request, step: Callable[[Any], Outcome]) -> Outcome:
        outcome = self._unless_a_rank_dies(lambda: step(request))
        while outcome is None:
            outcome = self._unless_a_rank_dies(lambda: self._go_on(request))
        return outcome

    def _lose(self, cause: str) -> None:
        """End this round here; the others do not wait for what this rank has not published."""
        if self._ended not in self._offered:
            with contextlib.suppress(InnetError):
                self._publish_refusal(cause)
        self._end(Outcome(End.LOST, cause))

    def _unless_a_rank_dies(self, step: Callable[[], T]) -> T | None:
        """What ``step`` returns; ``None`` after a rank has died and the group has shrunk."""
        try:
            return step()
        except RankFailed:
            while True:
                try:
                    self.communicator = self.communicator.shrink()
                except RankFailed:
                    continue  # another one died; the next group is without it
                self.communicator.attributes[_ATTRIBUTE] = self
                self._offered.clear()
                return None

    # A round in which nobody dies.

    def _begin(self, request: Request) -> Outcome:
        if isinstance(request, Close):
            self.communicator.barrier()
            return self._end(Outcome(End.CLOSED))
        if isinstance(request, Refusal):
            if self._ended not in self._offered:
                self._publish_refusal(request.cause)
            problem = _problem_of(self._fetch_advertised())
            assert problem is not None
            return self._end(problem)
        return self._sum(request)

    def _refuse(self, refusal: Refusal) -> Outcome:
        """Publish it; to see the others' part in the round is left for this rank's next call."""
        cause = self._publish_refusal(refusal.cause)
        self._pending = refusal
        return Outcome(End.REFUSED, cause)

    def _publish_refusal(self, cause: str) -> str:
        comm = self.communicator
        told = f"rank {comm.rank} ({comm.nodes[comm.rank]}) takes no part in a masked sum: {cause}"
        self._publish(_REFUSAL + told.encode()[:_CAUSE_BYTES])
        return told

    def _sum(self, request: SumRequest) -> Outcome:
        comm = self.communicator
        if self._signed_in == self._ended:
            raise SecurityError(
                "this rank has signed who is in this sum, and is asked to begin it anew. The "
                "difference of two sums could show what one rank has added; the round is lost"
            )
        if comm.size < request.threshold:
            raise SecurityError(
                f"{comm.size} of {len(self._everybody)} ranks are left, and the threshold is "
                f"{request.threshold}: no sum of so few is unmasked"
            )
        self._attempt = None
        context = f"{self._ended} of {','.join(comm.nodes)}".encode()
        part = MaskedRound(comm.rank, comm.size, request.threshold, context)
        self._publish(_KEYS + part.advertise() + request.description.encode())
        advertised = self._fetch_advertised(until_refused=True)
        problem = _problem_of(advertised)
        if problem is not None:
            if len(advertised) == comm.size:
                return self._end(problem)
            self._pending = Refusal(problem.cause)
            return problem
        keys = [told[1 : 1 + ADVERTISED_BYTES] for _, told in sorted(advertised.items())]
        dealt = part.deal(keys)
        received = comm.alltoall(np.stack([_bytes(message) for message in dealt]))
        point = self._point(request)
        masked = part.mask(point.encode(request.values.ravel()), point)
        attempt = _Attempt(comm.nodes, part, point, masked)
        try:
            part.receive([message.tobytes() for message in received])
        except SecurityError as error:
            attempt.objection = str(error)  # the others hear it where they sign
        self._attempt = attempt
        return self._add_up(attempt, request)

    def _publish(self, contents: bytes) -> None:
        """Publish for this round, signed: no switch can put its own keys in a rank's place."""
        self.communicator.publish(_object_name(self._ended), contents)
        self._offered[self._ended] = contents

    def _fetch_advertised(self, until_refused: bool = False) -> dict[int, bytes]:
        """By rank, what it has published for this round; not of all once one has refused, if so."""
        comm, number = self.communicator, self._ended
        name = _object_name(number)
        works = {r: comm.ifetch(name, source=r) for r in range(comm.size) if r != comm.rank}
        told = {comm.rank: self._offered[number]}
        for rank, work in works.items():
            while rank not in told:
                try:
                    told[rank] = work.wait(_PATIENCE_S).tobytes()
                except TimeoutError:
                    pass  # this rank is late; another one may have refused meanwhile
                else:
                    continue
                done = {r: other for r, other in works.items() if r not in told and other.done()}
                told |= {r: other.wait().tobytes() for r, other in done.items()}
                if until_refused and any(said[:1] == _REFUSAL for said in told.values()):
                    return told
        for ended in [earlier for earlier in self._offered if earlier < number]:
            comm.withdraw(_object_name(ended))  # all ranks have ended that round
            del self._offered[ended]
        return told

    def _add_up(self, attempt: _Attempt, request: SumRequest) -> Outcome:
        attempt.total = self.communicator.allreduce(attempt.masked)
        attempt.included = self.communicator.nodes
        return self._unmask(attempt, request)

    def _unmask(self, attempt: _Attempt, request: SumRequest) -> Outcome:
        """Agree on the ranks in the sum, then reveal what unmasks it."""
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
            # The others do not wait for this rank: what they get cannot be opened.
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
        return self._end(Outcome(End.SUMMED, total=total, contributors=attempt.included))

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

    def _end(self, outcome: Outcome) -> Outcome:
        if outcome.end is End.LOST:
            self._lost = self._lost or outcome.cause
        self._ended += 1
        self._attempt = None
        # The caller may change what it gets, and others may still have to hear what it was.
        kept = None if outcome.total is None else outcome.total.copy()
        self._last = replace(outcome, total=kept)
        return outcome

    # After the death of a rank.

    def _go_on(self, request: Request) -> Outcome:
        """Bring the round to an end with the ranks that are left, which may be at different points.

        A rank that has ended it tells the outcome to all. A rank that knows the masked sum tells
        that: some rank may have signed who is in it. If there is none, and all have masked, the
        masked sum is made of those that are left. Before all have masked, nobody can have signed,
        and the round begins anew.
        """
        ended, stages = self._progress().T
        if ended.min() < ended.max():
            is_ahead = self._ended == ended.max()
            outcome = self._told_outcome(int(ended.argmax()), is_ahead, request)
            if is_ahead:
                return self._begin(request)
            if self._attempt is not None and outcome.end in (End.REFUSED, End.MISMATCHED):
                raise SecurityError(
                    f"rank {ended.argmax()} tells of a masked sum that was refused, and all ranks "
                    "had begun it: the ranks do not run the same program. The round is lost"
                )
            return self._end(outcome)
        attempt = self._attempt
        if attempt is not None and isinstance(request, SumRequest):
            if stages.max() == 2:
                self._learn_masked_sum(attempt, int(stages.argmax()))
                return self._unmask(attempt, request)
            if stages.min() == 1:
                return self._add_up(attempt, request)
        return self._begin(request)

    def _progress(self) -> npt.NDArray[np.int64]:
        """Of each rank: rounds that it has ended; and in the next, 1 if masked, 2 if summed."""
        stage = 0 if self._attempt is None else 1 if self._attempt.total is None else 2
        return self.communicator.allgather(np.array([self._ended, stage], np.int64))

    def _learn_masked_sum(self, attempt: _Attempt, teller: int) -> None:
        total = np.empty_like(attempt.masked) if attempt.total is None else attempt.total
        flags = self._flags(attempt.included)
        self.communicator.broadcast(flags, root=teller)
        self.communicator.broadcast(total, root=teller)
        attempt.total, attempt.included = total, self._nodes_of(flags)  # whole, or as it was

    def _told_outcome(self, teller: int, is_ahead: bool, request: Request) -> Outcome:
        """What rank ``teller`` knows the last round to have come to."""
        known = self._last
        flags = self._flags(known.contributors)
        cause = known.cause.encode()[:_CAUSE_BYTES].ljust(_CAUSE_BYTES, b"\0")
        header = np.concatenate([_bytes(bytes([known.end])), flags, _bytes(cause)])
        self.communicator.broadcast(header, root=teller)
        end, flags = End(int(header[0])), header[1 : 1 + flags.size]
        if end is not End.SUMMED:
            text = header[1 + flags.size :].tobytes().rstrip(b"\0")
            return Outcome(end, text.decode(errors="replace"))
        if is_ahead and known.total is not None:
            total = known.total.copy()
        elif isinstance(request, SumRequest):
            point = self._point(request)
            total = np.empty(request.values.shape, point.sum_dtype)
        else:
            raise SecurityError(f"rank {teller} tells of a masked sum that this rank did not begin")
        content = total.reshape(-1)  # a view: the arrays here are whole
        self.communicator.broadcast(content, root=teller)
        return Outcome(end, total=total, contributors=self._nodes_of(flags))

    def _point(self, request: SumRequest) -> FixedPoint:
        return FixedPoint.of(request.values.dtype, self.communicator.size, request.limit)

    def _flags(self, nodes: Sequence[str]) -> Bytes:
        return np.array([node in nodes for node in self._everybody], np.uint8)

    def _nodes_of(self, flags: Bytes) -> tuple[str, ...]:
        return tuple(node for node, flag in zip(self._everybody, flags, strict=True) if flag)


def _problem_of(advertised: Mapping[int, bytes]) -> Outcome | None:
    """Why there is no sum of ranks that have published this, if there is none."""
    for _, told in sorted(advertised.items()):
        if told[:1] == _REFUSAL:
            return Outcome(End.REFUSED, told[1:].decode(errors="replace"))
    texts = {
        rank: told[1 + ADVERTISED_BYTES :].decode(errors="replace")
        for rank, told in sorted(advertised.items())
    }
    if len(set(texts.values())) > 1:
        listed = "; ".join(f"rank {rank}: {text}" for rank, text in texts.items())
        return Outcome(End.MISMATCHED, f"ranks called different masked sums: {listed}")
    return None


def _require_no_objection(nodes: Sequence[str], records: npt.NDArray[np.uint8]) -> None:
    for rank, record in enumerate(records):
        reason = record[SIGNATURE_BYTES:].tobytes().rstrip(b"\0").decode(errors="replace")
        if reason:
            raise SecurityError(f"rank {rank} ({nodes[rank]}) does not unmask this sum: {reason}")


def _object_name(number: int) -> str:
    return f"{_OBJECT_NAME}/{number}"


def _bytes(message: bytes) -> Bytes:
    return np.frombuffer(message, np.uint8)
