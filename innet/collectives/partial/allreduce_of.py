"""Sums over the ranks that are ready in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from innet.collectives.arrays import Array, Output, as_input, output_like, reduction_type
from innet.collectives.operation import Operation, Wanted, describe
from innet.collectives.partial.coordinator import Rounds
from innet.collectives.partial.rounds import Decision, KOfN, Outcome, set_digits
from innet.collectives.runner import OperationRunner, Steps
from innet.collectives.transfers import Transfers
from innet.collectives.work import Work
from innet.errors import CollectiveError, DeadlineExceeded, MismatchError
from innet.plans.reference import reduce_operands

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

    def take(self) -> Array:
        """All there is, now that this rank is in."""
        if self._late is None:
            return as_input(self.array)
        everything = self._everything(self._late)
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

    def copy_own(self) -> None:
        """The sum of the others is to overwrite this round's own: keep a copy of it."""
        if self._late is not None:
            self.array = self.array.copy()

    def keep(self) -> None:
        """This rank is not in: all is left out."""
        if self._late is not None:
            self._late[...] = self._everything(self._late)

    def _everything(self, late: Array) -> Array:
        return _sum(late, self.array)


def _sum(first: Array, second: Array) -> Array:
    return reduce_operands([np.ascontiguousarray(first), np.ascontiguousarray(second)], "sum")


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
            if policy.k > runner.size:
                raise CollectiveError(
                    f"{policy} needs more than the {runner.size} ranks of the group"
                )
            contribution = _Contribution(array, late)
            output = output_like(out, array.shape, array.dtype)
            what = describe("allreduce_of", kind, array, k=policy.k)
            number = self._rounds.begin(policy, runner.timeout_s, what)
            steps = self._steps(number, contribution, kind, output, what)
            return runner.start_steps(steps, MOST_STEPS, what)

    def failing_rounds(self, count: int) -> Callable[[], None]:
        """Fails the next ``count`` rounds, unless they have begun."""
        return partial(self._rounds.fail_until, self._rounds.next + count)

    def close(self) -> None:
        """Stop deciding rounds."""
        self._rounds.close()

    def _steps(
        self, number: int, contribution: _Contribution, kind: str, output: Output, what: str
    ) -> Steps[PartialSum]:
        """Fetch who is in round ``number``; then publish, if this rank is, and fetch the sum."""
        nodes = self._runner.nodes
        decision = yield self._rounds.decision(number, what)
        _require_closed(decision, number, nodes, what)
        included = self._runner.rank in decision.ranks
        has_all = len(decision.ranks) == len(nodes)
        array = contribution.array
        variant = self._runner.variants.for_size(array.nbytes)
        positions = [variant.plan.ranks.index(nodes[member]) for member in decision.ranks]
        mine = contribution.take() if included else None
        if not included and np.may_share_memory(array, output.memory):
            contribution.copy_own()
        summing: Operation[Array] = Operation(
            what=what,
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


def _require_closed(decision: Decision, number: int, nodes: Sequence[str], what: str) -> None:
    """Raise the error of a round without a sum; it is named by its number among the rounds."""
    in_round = f"{what} in round {number}"
    if decision.outcome is Outcome.DISAGREEMENT:
        ranks = _listed(decision.ranks, nodes)
        raise MismatchError(
            f"{in_round}: {ranks} called it with different policies; give the same k and "
            "deadline_s on every rank",
            operation=what,
        )
    if decision.outcome is Outcome.IN_VAIN:
        missing = [rank for rank in range(len(nodes)) if rank not in decision.ranks]
        raise DeadlineExceeded(
            f"{in_round}: {len(decision.ranks)} of {len(nodes)} ranks called it in time, which are "
            f"fewer than k; missing: {_listed(missing, nodes)}",
            operation=what,
        )


def _listed(ranks: Sequence[int], nodes: Sequence[str]) -> str:
    return ", ".join(f"rank {rank} ({nodes[rank]})" for rank in ranks)
