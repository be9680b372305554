"""The calls of a communicator that do not wait for the last rank."""

from __future__ import annotations

from innet.collectives.arrays import Array, output_like, reduction_type
from innet.collectives.call_sequence import StartCollective
from innet.collectives.group import Variants
from innet.collectives.operation import describe
from innet.collectives.partial.allreduce_of import (
    MOST_STEPS,
    Contribution,
    PartialSum,
    allreduce_of,
)
from innet.collectives.partial.policy import KOfN
from innet.collectives.partial.rounds import Rounds
from innet.collectives.staged import StartSteps
from innet.collectives.work import Work
from innet.errors import CollectiveError


class PartialCalls:
    """Reductions over the ranks that are ready in time."""

    timeout_s: float
    rank: int
    size: int
    nodes: tuple[str, ...]

    def __init__(
        self,
        variants: Variants,
        rounds: Rounds,
        start: StartSteps,
        collective: StartCollective,
    ) -> None:
        self._partial_variants = variants
        self._rounds = rounds
        self._start_round = start
        self._partial_call = collective

    def iallreduce_of(
        self,
        array: Array,
        policy: KOfN,
        op: str = "sum",
        *,
        out: Array | None = None,
        late: Array | None = None,
    ) -> Work[PartialSum]:
        """Start an :meth:`allreduce_of`; ``array`` and ``late`` stay as they are until its end."""
        with self._partial_call("allreduce_of", numbers=MOST_STEPS, synchronising=False, rounds=1):
            kind = f"{op}.{reduction_type(array, op)}"
            if late is not None and op != "sum":
                raise CollectiveError(
                    f"late= is added to what follows, which fits op='sum', not {op!r}"
                )
            if policy.k > self.size:
                raise CollectiveError(
                    f"{policy} needs more than the {self.size} ranks of the group"
                )
            contribution = Contribution(array, late)
            output = output_like(out, array.shape, array.dtype)
            what = describe("allreduce_of", kind, array, k=policy.k)
            number = self._rounds.begin(policy, self.timeout_s, what)
            steps = allreduce_of(
                self._partial_variants,
                self.nodes,
                self.rank,
                self._rounds,
                number,
                contribution,
                kind,
                output,
                what,
            )
            return self._start_round(steps, MOST_STEPS, what)

    def allreduce_of(
        self,
        array: Array,
        policy: KOfN,
        op: str = "sum",
        *,
        out: Array | None = None,
        late: Array | None = None,
    ) -> PartialSum:
        """Reduce over the ranks that are ready in time; all ranks get the result and who is in it.

        Every rank calls it as any other collective. A rank that comes too late for a round gets the
        round's result at once, and its contribution is not in it. It can call again right away with
        the same array, until that is included; or go on, and give what was left out with its next.

        Args:
            array: as for :meth:`allreduce`; not changed by anybody until the end.
            policy: when to go on without the others; the same on every rank.
            op: as for :meth:`allreduce`.
            out: where the result goes.
            late: what earlier rounds have left out of this rank's contributions, at first zeros, of
                the shape and type of ``array``. It is added to ``array``, and becomes zeros when
                this rank is in the round, or else all that is left out now. Nothing is lost or
                counted twice: the sum of all totals and of every rank's ``late`` is that of all
                arrays, exactly for integers, and but for rounding for others. For ``sum`` only.
                A call that raises leaves it as it was.

        Raises:
            CollectiveError: the policy needs more ranks than there are, or ``late`` does not fit.
            DeadlineExceeded: fewer than ``k`` ranks came in time; the message names the others.
            MismatchError: ranks called with different policies, shapes or types.
            RankFailed, ReductionOverflow: as :meth:`allreduce`.

        Example::

            late = np.zeros_like(gradient)
            part = comm.allreduce_of(gradient, innet.KOfN(k=7, deadline_s=0.05), late=late)
            weights -= rate * part.mean()
        """
        return self.iallreduce_of(array, policy, op, out=out, late=late).wait_or_cancel()
