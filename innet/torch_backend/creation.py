"""From PyTorch's request for a process group to a communicator among the job's ranks."""

from __future__ import annotations

import itertools
from datetime import timedelta

from torch._C._distributed_c10d import _DistributedBackendOptions
from torch.distributed.constants import default_pg_timeout

from innet.collectives import init
from innet.errors import CollectiveError
from innet.torch_backend.options import Options
from innet.torch_backend.process_group import InnetProcessGroup
from innet.worker import Worker, current_worker

# Every rank makes its groups in the same order, so the numbers agree; a name is never used twice
# in a process's life, because caches may still hold what an earlier group published under it.
_group_numbers = itertools.count()


def create_process_group(
    request: _DistributedBackendOptions, pg_options: object
) -> InnetProcessGroup:
    """Join a new group of all the job's ranks.

    Args:
        request: rank, size and timeout, as PyTorch hands them over.
        pg_options: :class:`Options`, or ``None`` for its defaults.

    Raises:
        CollectiveError: the group is not the job's world, or the options are of another kind.
        EmulationError: this process was not started by ``innet run``.
        PlanError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: some ranks did not come.
    """
    options = _checked_options(pg_options)
    worker = current_worker()
    if worker.trace is not None:
        from innet.trace.training_phases import trace_training_phases

        trace_training_phases(worker.trace)
    _require_world(request, worker)
    communicator = init(
        group=f"torch{next(_group_numbers)}",
        algorithm=options.algorithm,
        timeout_s=_timeout_s(request.timeout),
    )
    return InnetProcessGroup(communicator)


def _checked_options(pg_options: object) -> Options:
    if pg_options is None:
        return Options()
    if isinstance(pg_options, Options):
        return pg_options
    raise CollectiveError(
        f"pg_options is a {type(pg_options).__name__}; the innet backend takes "
        "innet.torch_backend.Options, such as Options(algorithm='ring')"
    )


def _require_world(request: _DistributedBackendOptions, worker: Worker) -> None:
    size = len(worker.job.ranks)
    if request.group_size != size:
        raise CollectiveError(
            f"the innet backend has groups of all {size} ranks of the job, not of "
            f"{request.group_size}: give new_group() no ranks, and init_process_group() no "
            "world_size; or make groups of some ranks with backend='gloo'"
        )
    if request.group_rank != worker.rank:
        raise CollectiveError(
            f"this process is rank {worker.rank} of the job ({worker.config.node}), not "
            f"{request.group_rank}: leave rank= and the environment's RANK as innet run set them"
        )


def _timeout_s(timeout: timedelta) -> float | None:
    """PyTorch fills in 30 minutes when nobody said anything: then innet's own default holds."""
    return None if timeout == default_pg_timeout else timeout.total_seconds()
