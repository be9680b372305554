"""One rank's place in a group: its plans, its timeout, how it recovers, how it leaves."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, get_args

from innet.collectives.completion import error_of_failure
from innet.collectives.runner import OperationRunner, Overflow
from innet.errors import CollectiveError, RankFailed
from innet.joint_close import JointlyClosed
from innet.node.messages import GroupFailure
from innet.plans import Plan
from innet.worker.job_file import OnDeath
from innet.worker.membership import Membership

_LEAST_TIMEOUT_S = 1e-3


def checked_policy(on_death: str) -> OnDeath:
    """``on_death``, checked.

    Raises:
        CollectiveError: there is no such policy.
    """
    for known in get_args(OnDeath):
        if on_death == known:
            policy: OnDeath = known
            return policy
    raise CollectiveError(
        f"there is no policy {on_death!r} for the death of a worker; take one of "
        f"{', '.join(get_args(OnDeath))}"
    )


class GroupMember(JointlyClosed):
    """A rank's place in a group, without operations: the base class of :class:`Communicator`.

    A subclass calls :meth:`_register` at the end of its constructor.

    Attributes:
        rank: this process's place in the group.
        size: number of ranks in the group.
        nodes: the host of each rank.
        attributes: what libraries keep with this communicator, each under a key of its own (as
            MPI's attribute caching).
        on_death: what :meth:`recover` does: ``abort``, ``shrink`` or ``wait``.
    """

    def __init__(
        self,
        runner: OperationRunner,
        on_death: OnDeath = "abort",
    ) -> None:
        """``runner`` runs the operations of this rank of the group."""
        self._runner = runner
        self._services = runner.services
        self._membership = runner.membership
        self._variants = runner.variants
        self.rank = runner.rank
        self.size = runner.size
        self.nodes = runner.nodes
        self.attributes: dict[str, Any] = {}
        self.on_death = on_death
        self._successor_of: Callable[[Membership], Self] | None = None

    def _register(self) -> None:
        """Let other threads end this object from now on: it must be complete."""
        self._membership.release = self._release
        self._services.before_close(self.close)

    # About the group.

    def explain(self, size_bytes: int) -> str:
        """Why an allreduce of ``size_bytes`` per rank uses its plan, in sentences."""
        return self._variants.explain(size_bytes)

    def plan_for(self, size_bytes: int) -> Plan:
        """The plan of a reduction of ``size_bytes`` per rank: who adds what, and where.

        Its expression, evaluated with :func:`innet.plans.evaluate_allreduce` in steps of
        :meth:`segment_bytes_of`, gives the result to the bit.
        """
        return self._variants.for_size(size_bytes).plan

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet of a small operation carries."""
        return self._runner.segment_bytes

    def segment_bytes_of(self, size_bytes: int) -> int:
        """Bytes of a full segment of a reduction of ``size_bytes`` per rank."""
        shards = len(self.plan_for(size_bytes).roots)
        return self._runner.segment_room.of(size_bytes, shards)

    def stats(self) -> dict[str, Any]:
        """Counters of this rank's node; see ``innet status``."""
        status: dict[str, Any] = self._runner.node.status()
        return status

    @property
    def timeout_s(self) -> float:
        """Deadline of the operations that start from now on, counted from their call.

        Collectives have more time by default where the slowest link needs it for their bytes.
        Setting this attribute sets the deadline of all operations. It must be above 0
        (CollectiveError).
        """
        return self._runner.timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._runner.timeout_s = timeout_s

    @property
    def overflow(self) -> Overflow:
        """What a sum of integers that leaves its type is: an error, or the sum modulo 2**n.

        ``raise`` (the default): :class:`~innet.errors.ReductionOverflow`, if the sum over all ranks
        does not fit, whatever partial sums on the way to it do. ``wrap``: as NumPy and PyTorch add,
        for checksums and the like. Products always wrap around. Setting this attribute counts for
        the operations that start from now on; another value raises a CollectiveError.
        """
        return self._runner.overflow

    @overflow.setter
    def overflow(self, overflow: Overflow) -> None:
        if overflow not in get_args(Overflow):
            raise CollectiveError(
                f"overflow={overflow!r} is unknown; take one of {', '.join(get_args(Overflow))}"
            )
        self._runner.overflow = overflow

    def allow_time_for_bytes(self, slowest_link_bps: float) -> None:
        """Give collectives a multiple of their planned time, where :attr:`timeout_s` is less.

        No algorithm sends the tensor more than once per rank, and back, over one link.
        """
        self._runner.allow_time_for_bytes(slowest_link_bps)

    # Recovery after the death of a rank (docs/faults.md).

    def succeed_with(self, successor_of: Callable[[Membership], Self]) -> None:
        """Let :meth:`shrink` and :meth:`restart` make communicators with ``successor_of``."""
        self._successor_of = successor_of

    def failure(self) -> RankFailed | None:
        """The failure that ended the group, as the controller knows it; ``None`` if none did."""
        from innet.worker import current_worker  # a simulation has none

        failure = current_worker().groups.failure_of(self._membership)
        return None if failure is None else RankFailed(failure.why, rank=failure.rank)

    def recover(self) -> Self:
        """Continue after a :class:`~innet.errors.RankFailed` as the group's policy says.

        ``abort`` raises an error that says why, ``shrink`` is :meth:`shrink`, ``wait`` is
        :meth:`restart`. Every surviving rank calls it.

        Example::

            comm = innet.init()
            step = load_checkpoint()
            while step < steps:
                try:
                    train(comm, step)
                    step += 1
                except RankFailed:
                    comm = comm.recover()
                    step = load_checkpoint()
        """
        if self.on_death == "shrink":
            return self.shrink()
        if self.on_death == "wait":
            return self.restart()
        known = self._membership.failure or self._membership.heard
        why, rank = known or GroupFailure("a rank of the group has failed")
        hint = "the policy is to abort; others are innet run --on-worker-death shrink and wait"
        raise error_of_failure(GroupFailure(f"{why}; {hint}", rank), "recover()")

    def shrink(self) -> Self:
        """The communicator of the survivors; this one is closed.

        Every surviving rank calls it, whatever error it got, and all get the same ranks: the
        survivors in their old order, with new numbers. It leaves out ranks that fail meanwhile and
        ranks that have left the group. The mean of a sum is over the new ``size``. (It is ULFM's
        ``MPI_Comm_shrink``: Bland et al. 2013, "Post-failure recovery of MPI communication
        capability".)

        Raises:
            ControlError: no rank of the group has failed or left, or the group's algorithm makes
                sums on a host whose process has ended.
            PlanError: the group's algorithm does not fit the survivors.
            DeadlineExceeded: some survivors did not call it in time; the message names them.
        """
        from innet.worker import current_worker  # a simulation has none

        groups, old = current_worker().groups, self._membership
        groups.require_failed(old)
        self.close()
        return self._successor(lambda left_s: groups.shrink(old, left_s))

    def restart(self) -> Self:
        """The communicator of the same hosts and ranks, with a successor of each that failed.

        This one is closed. Every surviving rank calls it; the successor, a new process on the host
        of the one that died, calls :func:`innet.init` with the arguments of the first time. It
        starts without its predecessor's memory, so all ranks load a checkpoint, or a survivor sends
        them the state.

        Raises:
            ControlError: no successor will be started.
            DeadlineExceeded: a successor did not join in time.
        """
        from innet.worker import current_worker  # a simulation has none

        groups, old = current_worker().groups, self._membership
        self.close()
        return self._successor(
            lambda left_s: groups.join(old.name, old.algorithm, old.nodes, left_s)
        )

    def expel(self, rank: int, why: str) -> None:
        """Give up a rank whose program hangs: its process is killed, and counts as failed.

        All groups it is in fail, and ``why`` stands in their errors. One rank's call is enough. A
        process that another launcher started (:func:`innet.attach`) is not killed.
        """
        from innet.worker import current_worker  # a simulation has none

        current_worker().expel(self.nodes[rank], f"was given up by {self._runner.name}: {why}")

    def _successor(self, join: Callable[[float], Membership]) -> Self:
        """The communicator of the group that ``join`` joins within a time in seconds.

        It joins again when another rank fails meanwhile, until the timeout has passed.
        """
        assert self._successor_of is not None, "joining sets it in every worker"
        deadline_s = time.monotonic() + self._runner.timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                successor = self._successor_of(join(max(left_s, _LEAST_TIMEOUT_S)))
                successor.overflow = self.overflow
                return successor
            except RankFailed:
                if time.monotonic() >= deadline_s:
                    raise

    # The end.

    def abort(self, why: str) -> None:
        """End what is under way here with an error that says ``why``, and leave at once.

        Unlike :meth:`close`, it does not wait: others may miss what they have not fetched yet.
        """
        if not self._runner.is_closed:
            self._stop(why)
            self._services.abandon_group(self._membership, why)

    def close(self) -> None:
        """Leave the group. This rank serves its contributions until all ranks have left.

        Others that wait for a collective which this rank has not called get a
        :class:`~innet.errors.RankFailed` at once.
        """
        if not self._runner.is_closed:
            self._stop()
            self._services.leave_group(self._membership)

    def _stop(self, why: str = "") -> None:
        """Start no more operations; fail those that others wait for, because of ``why``."""
        self._runner.is_closed = True
        self._services.no_more_before_close(self.close)
        failure = self._membership.failure
        if failure is not None:
            cause = failure.why  # the cause, not this rank that passes it on
        else:
            cause = f"{self._runner.name} left the group without calling this operation"
            cause += f": {why}" if why else ""
        self._refuse(cause)

    def _refuse(self, cause: str) -> None:
        """Answer requests for what this rank will not publish any more with an error."""
        for variant in self._variants.all:
            self._runner.node.end_producer(variant.own, self._runner.calls.next, cause)

    @abstractmethod
    def _release(self) -> None:
        """Free what the node keeps for the group; all ranks have left it."""
