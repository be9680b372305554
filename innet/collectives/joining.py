"""Functions beside the communicator: a worker's program joins a group, and measures work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from innet.collectives.communicator import Communicator
from innet.collectives.group import Variants
from innet.collectives.group_member import checked_policy
from innet.collectives.runner import OperationRunner
from innet.collectives.work import timeout_or
from innet.worker import Membership, Worker, current_worker
from innet.worker.job_file import NETWORK_VARIABLE, OnDeath

if TYPE_CHECKING:
    from innet.plans import PlanChooser

DEFAULT_GROUP = "g0"


def init(
    *,
    group: str = DEFAULT_GROUP,
    algorithm: str | None = None,
    timeout_s: float | None = None,
    nodes: Sequence[str] | None = None,
    on_death: OnDeath | None = None,
) -> Communicator:
    """Join a group of the job's ranks and get its communicator.

    Every member calls it with the same arguments; it returns when all have called it and serve
    their names. A process may be in any number of groups at once. The failure of a process ends the
    groups that it is in, and no others.

    Args:
        group: name of the group; groups with a common member need different ones.
        algorithm: ``inc``, ``ring``, ``ps``, ``halving-doubling`` or ``auto``, with options behind
            a colon such as ``ps:server=h3``; by default what ``innet run --algorithm`` chose.
        timeout_s: how long to wait for the other ranks, and each operation's deadline; by default
            the setting ``collectives.timeout_s``, and without it 5 minutes, or more for operations
            that the network is slow for (:meth:`Communicator.timeout_s`).
        nodes: the host of each of the group's ranks: any of the job's hosts in any order; by
            default all of them, in the order of the job's ranks. A host with several workers stands
            for those of the job.
        on_death: what :meth:`Communicator.recover` does when a rank's process has died: ``abort``,
            ``shrink`` or ``wait``; by default what ``innet run --on-worker-death`` chose.

    Raises:
        EmulationError: this process was not started by ``innet run``, and is not attached.
        CollectiveError: this process's host is not among ``nodes``, or in a group of that name; or
            ``timeout_s`` is not above 0, or there is no such policy.
        ControlError: ranks gave different arguments; every rank gets the error at once.
        PlanError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: some ranks did not join in time; the message names them.
        RankFailed: a rank joined and failed before all were ready.

    Example::

        import innet, numpy as np
        comm = innet.init()
        total = comm.allreduce(np.full(4, comm.rank, np.float32))
        if comm.rank in (3, 1):
            pair = innet.init(group="pair", nodes=[comm.nodes[3], comm.nodes[1]])
            pair.broadcast(total, root=0)  # from rank 3 of the job, rank 0 of this group
    """
    attach_if_asked()
    worker = current_worker()
    patience_s = timeout_or(timeout_s, worker.settings.collectives.usual_timeout_s)
    policy = worker.job.on_worker_death if on_death is None else checked_policy(on_death)
    algorithm = algorithm or worker.default_algorithm()
    members = None if nodes is None else worker.ranks_on(nodes)
    return _communicator(
        worker, worker.groups.join(group, algorithm, members, patience_s), timeout_s, policy
    )


def attach_if_asked(arguments: Callable[[], Mapping[str, Any]] = dict) -> None:
    """Attach to the network in INNET_NETWORK, unless this process is a worker already.

    Args:
        arguments: returns those of :func:`innet.attach`; it is called only before that.
    """
    if os.environ.get(NETWORK_VARIABLE):
        from innet.cluster.attachment import attach, should_attach  # few processes need it

        if should_attach():
            attach(**arguments())


def _communicator(
    worker: Worker, membership: Membership, given_s: float | None, on_death: OnDeath
) -> Communicator:
    """``given_s``: the timeout, where the program says it."""
    settings = worker.settings.collectives
    timeout_s = timeout_or(given_s, settings.usual_timeout_s)
    variants = Variants(membership, _chooser(worker, membership))
    runner = OperationRunner(worker, membership, variants, timeout_s)
    communicator = Communicator(runner, on_death)
    communicator.succeed_with(lambda successor: _communicator(worker, successor, given_s, on_death))
    slowest_bps = worker.job.slowest_link_bps
    if given_s is None and settings.timeout_s is None and slowest_bps is not None:
        communicator.allow_time_for_bytes(slowest_bps)
    try:
        worker.groups.await_ready(membership, timeout_s)
    except BaseException as error:
        communicator.abort(f"group {membership.name!r} was not formed: {error}")
        raise
    return communicator


def _chooser(worker: Worker, membership: Membership) -> PlanChooser | None:
    """Chooses a plan by size, with the algorithm ``auto``."""
    if membership.algorithm != "auto":
        return None
    from innet.plans import PlanChooser  # plans and topologies take long to import

    return PlanChooser(
        worker.topology(),
        membership.positions,
        processor=worker.job.processor,
        load=membership.load,
    )


def present_nodes() -> tuple[str, ...]:
    """The job's hosts with a worker that has not failed, in the order of the job's ranks.

    A worker is present once it has called :func:`init` for the first time (or this function).

    Raises:
        EmulationError: this process was not started by ``innet run``.
    """
    return current_worker().present()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of work that all ranks did together.

    Attributes:
        seconds: wall time of the rank that took longest.
        busiest_link_bytes: in the busier direction of the host's link that carried the most.
    """

    seconds: float
    busiest_link_bytes: int


def measure(comm: Communicator, work: Callable[[], T]) -> tuple[T, Cost]:
    """Do ``work`` on all ranks at once; its result here, and its cost, the same on every rank.

    Every rank calls it with the same work. Waiting for each other before and after is not counted.

    Example::

        total, cost = innet.measure(comm, lambda: comm.allreduce(gradient))
    """
    comm.barrier()
    bytes_before = _link_bytes(comm)
    began_s = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began_s
    comm.barrier()  # answers to other ranks are part of the work
    bytes_here = _link_bytes(comm) - bytes_before
    slowest_s = comm.allreduce(np.array([seconds]), "max")
    return result, Cost(float(slowest_s[0]), int(comm.allreduce(bytes_here, "max").max()))


def _link_bytes(comm: Communicator) -> npt.NDArray[np.int64]:
    links = comm.stats()["links"]
    return np.array([sum(link[way] for link in links) for way in ("bytes_in", "bytes_out")])
