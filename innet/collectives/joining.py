"""From a worker process to a communicator: joining a group, and who is there to join with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from innet.collectives.communicator import Communicator
from innet.collectives.group import Variants
from innet.collectives.recovery import checked_policy
from innet.collectives.timeouts import timeout_or
from innet.errors import RankFailed
from innet.plans import PlanChooser
from innet.worker import Membership, Worker, current_worker
from innet.worker.job_file import OnDeath

DEFAULT_GROUP = "g0"
_LEAST_TIMEOUT_S = 1e-3


def init(
    *,
    group: str = DEFAULT_GROUP,
    algorithm: str | None = None,
    timeout_s: float | None = None,
    nodes: Sequence[str] | None = None,
    on_death: OnDeath | None = None,
) -> Communicator:
    """Join a group of the job's ranks and get its communicator.

    Every member calls it with the same arguments; it returns when all have, and each answers for
    its names. A process may be in any number of groups at once. The failure of a process ends the
    groups that it is in, and no others.

    Args:
        group: name of the group; groups with a common member need different ones.
        algorithm: ``inc``, ``ring``, ``ps``, ``halving-doubling`` or ``auto``, with options behind
            a colon such as ``ps:server=h3``; by default what ``innet run --algorithm`` chose.
        timeout_s: how long to wait for the other ranks, and each operation's deadline; by default
            the setting ``collectives.timeout_s``.
        nodes: the host of each of the group's ranks: any of the job's hosts in any order; by
            default all of them, in the order of the job's ranks.
        on_death: what :meth:`Communicator.recover` does when a rank's process has died: ``abort``,
            ``shrink`` or ``wait``; by default what ``innet run --on-worker-death`` chose.

    Raises:
        EmulationError: this process was not started by ``innet run``.
        CollectiveError: this process's host is not among ``nodes``, or in a group of that name; or
            ``timeout_s`` is not above 0, or there is no such policy.
        PlanError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: some ranks did not come; the message names them.
        RankFailed: one came and failed before all were ready.

    Example::

        import innet, numpy as np
        comm = innet.init()
        total = comm.allreduce(np.full(4, comm.rank, np.float32))
        if comm.rank in (3, 1):
            pair = innet.init(group="pair", nodes=[comm.nodes[3], comm.nodes[1]])
            pair.broadcast(total, root=0)  # from rank 3 of the job, rank 0 of this group
    """
    worker = current_worker()
    timeout_s = timeout_or(timeout_s, worker.settings.collectives.timeout_s)
    policy = worker.job.on_worker_death if on_death is None else checked_policy(on_death)
    algorithm = algorithm or worker.default_algorithm()
    return _communicator(
        worker, worker.join_group(group, algorithm, nodes, timeout_s), timeout_s, policy
    )


def shrink(
    failed: Membership, close: Callable[[], None], timeout_s: float, on_death: OnDeath
) -> Communicator:
    """A communicator of those who are left; see :meth:`Communicator.shrink`.

    ``close`` leaves the group that has failed, once it is known to have.
    """
    worker = current_worker()
    worker.require_failed(failed)
    close()

    def attempt(left_s: float) -> Communicator:
        membership = worker.shrink_group(failed, left_s)
        return _communicator(worker, membership, timeout_s, on_death)

    return _unless_another_fails(attempt, timeout_s)


def restart(failed: Membership, timeout_s: float, on_death: OnDeath) -> Communicator:
    """A communicator of the same hosts as before; see :meth:`Communicator.restart`."""
    worker = current_worker()

    def attempt(left_s: float) -> Communicator:
        membership = worker.join_group(failed.name, failed.algorithm, failed.nodes, left_s)
        return _communicator(worker, membership, timeout_s, on_death)

    return _unless_another_fails(attempt, timeout_s)


def _communicator(
    worker: Worker, membership: Membership, timeout_s: float, on_death: OnDeath
) -> Communicator:
    algorithm, name = membership.algorithm, membership.name
    chooser = PlanChooser(worker.topology(), membership.positions) if algorithm == "auto" else None
    variants = Variants(membership, chooser)
    communicator = Communicator(worker, membership, variants, timeout_s, on_death)
    try:
        worker.await_ready(membership, timeout_s)
    except BaseException as error:
        communicator.abort(f"group {name!r} did not come about: {error}")
        raise
    return communicator


def _unless_another_fails(
    attempt: Callable[[float], Communicator], timeout_s: float
) -> Communicator:
    """What ``attempt`` makes; it is made again when a rank fails meanwhile, until the deadline."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return attempt(max(left_s, _LEAST_TIMEOUT_S))
        except RankFailed:
            if time.monotonic() >= deadline_s:
                raise


def present_nodes() -> tuple[str, ...]:
    """The job's hosts with a worker that has not failed, in the order of the job's ranks.

    A worker is present once it has called :func:`init` for the first time (or this function).

    Raises:
        EmulationError: this process was not started by ``innet run``.
    """
    return current_worker().present()
