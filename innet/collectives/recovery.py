"""How the surviving ranks go on when the process of a rank has died (docs/faults.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from innet.collectives.completion import error_of_failure
from innet.collectives.runner import OperationRunner
from innet.errors import CollectiveError, RankFailed
from innet.node.messages import GroupFailure
from innet.worker.job_file import OnDeath
from innet.worker.membership import Membership

if TYPE_CHECKING:
    from innet.collectives.communicator import Communicator

_LEAST_TIMEOUT_S = 1e-3


def checked_policy(on_death: str) -> OnDeath:
    """``on_death``, checked.

    Raises:
        CollectiveError: it is no policy.
    """
    for known in get_args(OnDeath):
        if on_death == known:
            policy: OnDeath = known
            return policy
    raise CollectiveError(
        f"there is no policy {on_death!r} for the death of a worker; take one of "
        f"{', '.join(get_args(OnDeath))}"
    )


class Recovery:
    """Replaces a communicator once a rank of its group has failed; calls are documented there."""

    def __init__(self, runner: OperationRunner, close: Callable[[], None]) -> None:
        """``close`` closes the communicator."""
        self._runner = runner
        self._membership = runner.membership
        self._close = close
        self._communicator_of: Callable[[Membership], Communicator] | None = None

    def succeed_with(self, communicator_of: Callable[[Membership], Communicator]) -> None:
        """Let :meth:`shrink` and :meth:`restart` make communicators with ``communicator_of``."""
        self._communicator_of = communicator_of

    def failure(self) -> RankFailed | None:
        """What ended the group, as the controller knows it."""
        from innet.worker import current_worker  # a simulation has none

        failure = current_worker().groups.failure_of(self._membership)
        return None if failure is None else RankFailed(failure.why, rank=failure.rank)

    def recover(self, on_death: OnDeath) -> Communicator:
        """Go on as the policy says."""
        if on_death == "shrink":
            return self.shrink()
        if on_death == "wait":
            return self.restart()
        known = self._membership.failure or self._membership.heard
        why, rank = known or GroupFailure("a rank of the group has failed")
        hint = "the policy is to abort; others are innet run --on-worker-death shrink and wait"
        raise error_of_failure(GroupFailure(f"{why}; {hint}", rank), "recover()")

    def shrink(self) -> Communicator:
        """Join the group of the survivors."""
        from innet.worker import current_worker  # a simulation has none

        worker = current_worker()
        worker.groups.require_failed(self._membership)
        self._close()
        return self._successor(lambda left_s: worker.groups.shrink(self._membership, left_s))

    def restart(self) -> Communicator:
        """Join the group of the same hosts, with a successor of each rank that failed."""
        from innet.worker import current_worker  # a simulation has none

        worker, old = current_worker(), self._membership
        self._close()
        return self._successor(
            lambda left_s: worker.groups.join(old.name, old.algorithm, old.nodes, left_s)
        )

    def expel(self, rank: int, why: str) -> None:
        """Let a rank count as failed."""
        from innet.worker import current_worker  # a simulation has none

        node = self._runner.nodes[rank]
        current_worker().expel(node, f"was given up by {self._runner.name}: {why}")

    def _successor(self, join: Callable[[float], Membership]) -> Communicator:
        """The communicator of the group that ``join`` joins within a time in seconds.

        It joins again when another rank fails meanwhile, until the timeout has passed.
        """
        assert self._communicator_of is not None, "joining sets it in every worker"
        deadline_s = time.monotonic() + self._runner.timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                return self._communicator_of(join(max(left_s, _LEAST_TIMEOUT_S)))
            except RankFailed:
                if time.monotonic() >= deadline_s:
                    raise
