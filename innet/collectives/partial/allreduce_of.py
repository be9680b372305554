"""Sums over the ranks that are ready in time: each announces itself, rank 0's host decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from innet._native import _core
from innet.collectives.arrays import (
    Array,
    Bytes,
    Output,
    as_input,
    is_same_memory,
    output_like,
    reduction_type,
    require_array,
)
from innet.collectives.operation import Operation, Wanted, describe
from innet.collectives.partial.rounds import (
    READY_BYTES,
    Decided,
    KOfN,
    RoundDecision,
    RoundOutcome,
    RoundTable,
    Terms,
    decision_bytes,
    set_digits,
)
from innet.collectives.runner import OperationRunner, Steps
from innet.collectives.transfers import Inbox, Transfers
from innet.collectives.work import Work
from innet.errors import CollectiveError, DeadlineExceeded, MismatchError, RankFailed
from innet.node.messages import named_ranks
from innet.plans.reference import reduce_operands, require_in_range
from innet.worker.background import Alarm, Background

READY_KIND = "/ready"
SET_KIND = "/set"
ROUNDS_KEPT = 256
"""More than a rank can be behind: ``collectives.operations_in_flight`` is at most 64."""
_NO_PATIENCE_S = 0.0

COORDINATOR = 0
"""The rank whose host decides. When its process dies, the group ends: no other may ever decide."""


class Coordinator:
    """Decides the members of each round and publishes them, in the background of rank 0.

    The program of rank 0 takes no part: it may be the one that is late.
    """

    def __init__(
        self,
        transfers: Transfers,
        size: int,
        background: Background,
        now_s: Callable[[], float],
    ) -> None:
        """``now_s`` is the clock of ``background``."""
        self._transfers = transfers
        self._size = size
        self._background = background
        self._now_s = now_s
        self._table = RoundTable(size)
        self._alarm = Alarm(background, self._on_time)
        self._inbox = Inbox(transfers, background, now_s, READY_KIND, READY_BYTES)
        background.post(lambda: self._inbox.open(size, self._on_ready, on_left=self._on_left))

    def close(self) -> None:
        """Decide no more."""
        self._background.close()
        self._inbox.close()

    def _on_time(self) -> None:
        self._publish(self._table.decide(self._now_s()))

    def _on_ready(self, rank: int, number: int, record: Bytes) -> None:
        decided = self._table.ready(rank, number, Terms.decode(record), self._now_s())
        self._inbox.listen(rank, self._table.next_for(number + 1))
        self._publish(decided)

    def _on_left(self, rank: int) -> None:
        self._publish(self._table.leave(rank, self._now_s()))

    def leave(self) -> None:
        """The program of this rank calls no more rounds; those of the others are decided still."""
        self._background.post(lambda: self._on_left(COORDINATOR))

    def _publish(self, decided: list[Decided]) -> None:
        for number, decision in decided:
            what = f"who is in round {number}"
            content = decision.encode(self._size)
            self._transfers.publish(SET_KIND, number, content, what, kept=ROUNDS_KEPT)
        for rank, number in self._inbox.awaited.items():
            if self._table.is_decided(number):
                self._inbox.skip_to(rank, self._table.next_for(number))
        self._alarm.set(self._table.next_deadline_s())


class Rounds:
    """Numbers the rounds that this rank calls, and announces that it is ready for them."""

    def __init__(self, runner: OperationRunner, transfers: Transfers) -> None:
        self._runner = runner
        self._transfers = transfers
        self._next = 0
        self._coordinator: Coordinator | None = None
        first = runner.variants.first
        self._coordinator_targets = _core.Targets(
            [(f"{first.prefix}/rounds/{COORDINATOR}", f"/n/{first.nodes[COORDINATOR]}", False)]
        )

    @property
    def next(self) -> int:
        """The number of the next round."""
        return self._next

    def begin(self, policy: KOfN, timeout_s: float, what: str) -> int:
        """Announce that this rank is ready for the next round; the number of that round."""
        number = self._next
        self._announce(number, Terms(policy, timeout_s), what)
        self._next = number + 1
        return number

    def fail_until(self, end: int) -> None:
        """Close the rounds before ``end``, whose calls failed here before they began.

        A round that was begun closes by its policy. The sums have this rank's failures in place of
        its contributions.
        """
        for number in range(self._next, end):
            self._next = number + 1
            with suppress(CollectiveError):  # an interrupt ended the call that began it
                what = f"round {number}, which failed"
                self._announce(number, Terms(None, _NO_PATIENCE_S), what)

    def _announce(self, number: int, terms: Terms, what: str) -> None:
        if self._runner.rank == COORDINATOR and self._coordinator is None:
            services = self._runner.services
            self._coordinator = Coordinator(
                self._transfers,
                self._runner.size,
                services.background("innet-rounds"),
                services.now_s,
            )
        self._transfers.publish(READY_KIND, number, terms.encode(), what, kept=ROUNDS_KEPT)

    def decision(self, number: int, what: str) -> Operation[RoundDecision]:
        """Fetch the decision of round ``number``."""
        content = np.empty(decision_bytes(self._runner.size), np.uint8)
        return Operation(
            what=what,
            variant=self._runner.variants.first,
            kind=SET_KIND.strip("/"),
            number=number,
            elements=content.size,
            block_bytes=content.size,
            wants=(Wanted(self._coordinator_targets, content),),
            finish=lambda: RoundDecision.decode(content, self._runner.size),
            synchronising=False,
        )

    def leave(self) -> bool:
        """Call no more rounds; whether this rank's host decides those of the others."""
        if self._coordinator is None:
            return False
        self._coordinator.leave()
        return True

    def close(self) -> None:
        """Stop deciding, where this rank's host does."""
        if self._coordinator is not None:
            self._coordinator.close()


MOST_STEPS = 2


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A reduction and whose contributions are in it: both are the same on every rank.

    Attributes:
        total: the reduction, of the shape and type of the contributions.
        contributors: the ranks in it, ascending.
        included: whether this rank is one of them.
    """

    total: Array
    contributors: tuple[int, ...]
    included: bool

    def mean(self) -> Array:
        """``total`` over the number of contributors, in a new array."""
        mean: Array = self.total / self.total.dtype.type(len(self.contributors))
        return mean


class _Contribution:
    """One rank's contribution to a round, with those that earlier rounds left out.

    Args:
        array: this round's own.
        late: what was left out so far; becomes what is left out after this round. ``None``: what
            is left out is dropped.

    Raises:
        CollectiveError: ``late`` does not fit ``array``.
    """

    def __init__(self, array: Array, late: Array | None) -> None:
        if late is not None:
            require_array(late)
            if np.may_share_memory(late, array):
                raise CollectiveError("late= and the contribution share memory; pass two arrays")
        if late is not None and not (
            late.shape == array.shape and late.dtype == array.dtype and late.flags.writeable
        ):
            raise CollectiveError(
                f"late= must be a writable array of the shape {array.shape} and the type "
                f"{array.dtype} of the contribution; it has {late.shape} and {late.dtype}"
            )
        self.array = array
        self._late = late
        self._taken: Array | None = None

    def published(self, included: bool, memory: Array) -> Array | None:
        """This rank's contribution with its late parts; ``None`` if it is not ``included``.

        ``memory`` is that of the sum, which may overwrite this round's own contribution.
        """
        if self._late is None:
            return as_input(self.array) if included else None
        if not included:
            if np.may_share_memory(self.array, memory):
                self.array = self.array.copy()
            return None
        everything = _sum(self._late, self.array)
        self._taken = self._late.copy()
        self._late[...] = 0
        return everything

    def give_back(self) -> None:
        """The round ended without a sum: what earlier rounds left out is left out again."""
        if self._late is None or self._taken is None:
            return
        if self._late.any():  # a later round, under way meanwhile, left something out
            self._late[...] = _sum(self._late, self._taken)
        else:
            self._late[...] = self._taken

    def keep(self) -> None:
        """This rank is not in: all is left out."""
        if self._late is not None:
            self._late[...] = _sum(self._late, self.array)


def _sum(first: Array, second: Array) -> Array:
    require_in_range([first, second])
    return reduce_operands([first, second], "sum")


@dataclass(frozen=True, slots=True)
class _RoundCall:
    """A call of one rank.

    Attributes:
        number: of its round among the rounds, on the wire.
        seq: of the call in its group, which messages state.
        what: the call, for people.
    """

    number: int
    seq: int
    what: str


class PartialReductions:
    """The reductions of one communicator that do not wait for the last rank."""

    def __init__(self, runner: OperationRunner, transfers: Transfers) -> None:
        self._runner = runner
        self._rounds = Rounds(runner, transfers)

    def allreduce_of(
        self, array: Array, policy: KOfN, op: str, *, out: Array | None, late: Array | None
    ) -> Work[PartialSum]:
        """Start a reduction over the ranks that are ready in time."""
        runner = self._runner
        with runner.calls.call("allreduce_of", MOST_STEPS, False, self.failing_rounds(1)):
            kind = f"{op}.{reduction_type(array, op)}"
            if late is not None and op != "sum":
                raise CollectiveError(
                    f"late= is added to what follows, which fits op='sum', not {op!r}"
                )
            if not isinstance(policy, KOfN):
                raise CollectiveError(
                    f"{policy!r} is not a policy; pass innet.KOfN(k), where k is a number of ranks"
                )
            if policy.k > runner.size:
                raise CollectiveError(
                    f"{policy} needs more than the {runner.size} ranks of the group"
                )
            contribution = _Contribution(array, late)
            output = output_like(out, array.shape, array.dtype)
            if not is_same_memory(output.memory, as_input(array)):
                output.keep_apart_from(array)
            what = describe("allreduce_of", kind, array, k=policy.k)
            number = self._rounds.begin(policy, runner.timeout_s, what)
            call = _RoundCall(number, runner.calls.next, what)
            steps = self._steps(call, contribution, kind, output)
            return runner.start_steps(steps, MOST_STEPS, what)

    def failing_rounds(self, count: int) -> Callable[[], None]:
        """Fails the next ``count`` rounds, unless they have begun."""
        return partial(self._rounds.fail_until, self._rounds.next + count)

    def leave(self) -> bool:
        """Call no more rounds; whether this rank's host decides those of the others."""
        return self._rounds.leave()

    def close(self) -> None:
        """Stop deciding rounds."""
        self._rounds.close()

    def _steps(
        self, call: _RoundCall, contribution: _Contribution, kind: str, output: Output
    ) -> Steps[PartialSum]:
        """Fetch the decision of the round, publish if this rank is in, and fetch the sum."""
        nodes = self._runner.nodes
        decision = yield self._rounds.decision(call.number, call.what)
        _require_closed(decision, call, nodes)
        included = self._runner.rank in decision.ranks
        has_all = len(decision.ranks) == len(nodes)
        array = contribution.array
        variant = self._runner.variants.for_size(array.nbytes)
        positions = [variant.plan.ranks.index(nodes[member]) for member in decision.ranks]
        mine = contribution.published(included, output.memory)
        summing: Operation[Array] = Operation(
            what=call.what,
            variant=variant,
            kind=kind if has_all else f"{kind}.of-{set_digits(positions)}",
            elements=array.size,
            block_bytes=array.nbytes,
            publishes=mine,
            wants=(Wanted(variant.roots, output.memory),),
            finish=output.finish,
            in_place=mine is not None and np.may_share_memory(mine, output.memory),
            synchronising=has_all,
        )
        try:
            total = yield summing
        except BaseException:
            contribution.give_back()
            raise
        if not included:
            contribution.keep()
        return PartialSum(total, decision.ranks, included)


def _require_closed(decision: RoundDecision, call: _RoundCall, nodes: Sequence[str]) -> None:
    """Raise the error of a round without a sum."""
    if decision.outcome is RoundOutcome.LEFT:
        raise RankFailed(
            f"{named_ranks(decision.ranks, nodes)} left the group without calling this operation",
            operation=call.what,
            seq=call.seq,
            rank=decision.ranks[0],
        )
    if decision.outcome is RoundOutcome.DISAGREEMENT:
        ranks = named_ranks(decision.ranks, nodes)
        raise MismatchError(
            f"{ranks} called it with different policies; give the same k and deadline_s on every "
            "rank",
            operation=call.what,
            seq=call.seq,
        )
    if decision.outcome is RoundOutcome.IN_VAIN:
        missing = [rank for rank in range(len(nodes)) if rank not in decision.ranks]
        raise DeadlineExceeded(
            f"{len(decision.ranks)} of {len(nodes)} ranks called it in time, which are fewer than "
            f"k; missing: {named_ranks(missing, nodes)}",
            operation=call.what,
            seq=call.seq,
        )
