"""How the ranks that are left go on when the process of one has died (docs/faults.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from innet.collectives.failures import error_of_failure
from innet.errors import CollectiveError, RankFailed
from innet.worker.job_file import OnDeath
from innet.worker.membership import Membership

if TYPE_CHECKING:
    from innet.collectives.communicator import Communicator

_LEAST_TIMEOUT_S = 1e-3


def checked_policy(on_death: str) -> OnDeath:
    """``on_death``, which is one.

    Raises:
        CollectiveError: it is not.
    """
    for known in get_args(OnDeath):
        if on_death == known:
            policy: OnDeath = known
            return policy
    raise CollectiveError(
        f"there is no policy {on_death!r} for the death of a worker; take one of "
        f"{', '.join(get_args(OnDeath))}"
    )


class RecoveryCalls:
    """What a communicator can be replaced by once a rank of its group has failed.

    Attributes:
        on_death: what :meth:`recover` does: ``abort``, ``shrink`` or ``wait``.
    """

    timeout_s: float
    rank: int
    nodes: tuple[str, ...]

    def __init__(
        self, membership: Membership, on_death: OnDeath, close: Callable[[], None]
    ) -> None:
        self._place = membership
        self._close_failed = close
        self.on_death = on_death
        self._communicator_of: Callable[[Membership], Communicator] | None = None

    def succeed_with(self, communicator_of: Callable[[Membership], Communicator]) -> None:
        """Let :meth:`shrink` and :meth:`restart` make communicators with ``communicator_of``."""
        self._communicator_of = communicator_of

    def failure(self) -> RankFailed | None:
        """What ended the group, as the controller knows it; ``None`` when nothing has."""
        from innet.worker import current_worker  # a simulation has none

        failure = current_worker().failure_of(self._place)
        return None if failure is None else RankFailed(failure[0], rank=failure[1])

    def recover(self) -> Communicator:
        """Go on after a :class:`~innet.errors.RankFailed` as the group's policy says.

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
        known = self._place.failure or self._place.heard
        why, rank = known or ("a rank of the group has failed", None)
        hint = "the policy is to abort; others are innet run --on-worker-death shrink and wait"
        raise error_of_failure((f"{why}; {hint}", rank), "recover()")

    def shrink(self) -> Communicator:
        """The communicator of those who are left; this one is closed.

        Every surviving rank calls it, whatever it was told of the failure, and all get the same
        ranks: the survivors in their old order, numbered anew. A rank that fails meanwhile is left
        out as well, and so are those that have left the group. The mean of a sum is over the new
        ``size``. (It is ULFM's ``MPI_Comm_shrink``: Bland et al. 2013, "Post-failure recovery of
        MPI communication capability".)

        Raises:
            ControlError: no rank of the group has failed or left, or the group's algorithm makes
                sums on a host whose process is gone.
            PlanError: the group's algorithm does not fit the survivors.
            DeadlineExceeded: some survivors did not come; the message names them.
        """
        from innet.worker import current_worker  # a simulation has none

        worker = current_worker()
        worker.require_failed(self._place)
        self._close_failed()
        return self._successor(lambda left_s: worker.shrink_group(self._place, left_s))

    def restart(self) -> Communicator:
        """The communicator of the same hosts and ranks, with a successor of each that failed.

        This one is closed. Every surviving rank calls it; the successor, a new process on the host
        of the one that died, calls :func:`innet.init` with the arguments of the first time. It has
        nothing of its predecessor's memory, so all ranks go on from a checkpoint, or are sent the
        state by one that survived.

        Raises:
            ControlError: no successor will come.
            DeadlineExceeded: none came in time.
        """
        from innet.worker import current_worker  # a simulation has none

        worker, old = current_worker(), self._place
        self._close_failed()
        return self._successor(
            lambda left_s: worker.join_group(old.name, old.algorithm, old.nodes, left_s)
        )

    def _successor(self, join: Callable[[float], Membership]) -> Communicator:
        """The communicator of the group that ``join`` joins within a time in seconds.

        It joins again when another rank fails meanwhile, until ``timeout_s`` have passed.
        """
        assert self._communicator_of is not None, "joining sets it in every worker"
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                return self._communicator_of(join(max(left_s, _LEAST_TIMEOUT_S)))
            except RankFailed:
                if time.monotonic() >= deadline_s:
                    raise

    def expel(self, rank: int, why: str) -> None:
        """Give up a rank whose program hangs: its process is ended, and counts as failed.

        All groups it is in fail, and ``why`` stands in their errors. One rank's call is enough.
        """
        from innet.worker import current_worker  # a simulation has none

        me = f"rank {self.rank} ({self.nodes[self.rank]})"
        current_worker().expel(self.nodes[rank], f"was given up by {me}: {why}")
