"""The reduction over those who are in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from innet.collectives.arrays import Array, Output, as_input
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted
from innet.collectives.partial.records import Decision, Outcome, set_digits
from innet.collectives.partial.rounds import Rounds
from innet.collectives.staged import Steps
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


class Contribution:
    """What one rank gives to a round, with what earlier rounds left out.

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

    def keep(self) -> None:
        """This rank is not in: all is left out."""
        if self._late is not None:
            self._late[...] = self._everything(self._late)

    def _everything(self, late: Array) -> Array:
        return _sum(late, self.array)


def _sum(first: Array, second: Array) -> Array:
    return reduce_operands([np.ascontiguousarray(first), np.ascontiguousarray(second)], "sum")


def allreduce_of(
    variants: Variants,
    nodes: Sequence[str],
    rank: int,
    rounds: Rounds,
    number: int,
    contribution: Contribution,
    kind: str,
    output: Output,
    what: str,
) -> Steps[PartialSum]:
    """The steps of one rank: hear who is in, then publish what is mine, if I am, and fetch.

    Args:
        variants: plans of the group.
        nodes: of each rank.
        rank: of this process.
        rounds: of this rank.
        number: of the round that it is ready for.
        contribution: of this rank.
        kind: such as ``sum.f32``.
        output: where the reduction goes.
        what: for people.
    """
    decision = yield rounds.decision(number, what)
    _require_closed(decision, number, nodes, what)
    included = rank in decision.ranks
    everybody = len(decision.ranks) == len(nodes)
    array = contribution.array
    variant = variants.for_size(array.nbytes)
    positions = [variant.plan.ranks.index(nodes[member]) for member in decision.ranks]
    mine = contribution.take() if included else None
    summing: Operation[Array] = Operation(
        what=what,
        variant=variant,
        kind=kind if everybody else f"{kind}.of-{set_digits(positions)}",
        elements=array.size,
        block_bytes=array.nbytes,
        publishes=mine,
        wants=(Wanted(variant.roots, output.memory),),
        finish=output.finish,
        in_place=mine is not None and np.may_share_memory(mine, output.memory),
        synchronising=everybody,
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
    if decision.outcome is Outcome.DISAGREEMENT:
        raise MismatchError(
            f"ranks {_listed(decision.ranks)} came to round {number} with different policies; "
            "give the same k and deadline_s on every rank",
            operation=what,
            seq=number,
        )
    if decision.outcome is Outcome.IN_VAIN:
        missing = [
            f"rank {rank} ({node})" for rank, node in enumerate(nodes) if rank not in decision.ranks
        ]
        raise DeadlineExceeded(
            f"{len(decision.ranks)} ranks came in time, and the policy needs more; missing: "
            f"{', '.join(missing)}",
            operation=what,
            seq=number,
        )


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
