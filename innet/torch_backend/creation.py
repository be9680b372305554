"""From PyTorch's request for a process group to a communicator among its ranks."""

from __future__ import annotations

from datetime import timedelta

from torch._C._distributed_c10d import _DistributedBackendOptions
from torch.distributed.constants import default_pg_timeout

from innet.collectives import init
from innet.collectives.timeouts import timeout_or
from innet.errors import CollectiveError
from innet.torch_backend.front_end import watch_front_end
from innet.torch_backend.object_collectives import guard_object_collectives
from innet.torch_backend.options import Options
from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.rendezvous import meet
from innet.torch_backend.uneven_inputs import support_uneven_inputs
from innet.worker import current_worker


def create_process_group(
    request: _DistributedBackendOptions, pg_options: object
) -> InnetProcessGroup:
    """Join a new group of the ranks that PyTorch names.

    Which rank runs where is PyTorch's business (``innet run``, ``torchrun`` and ``init_method``
    number them each in their way), so the ranks tell each other their hosts through the store.

    Args:
        request: store, rank, size, name and timeout, as PyTorch hands them over.
        pg_options: :class:`Options`, or ``None`` for its defaults.

    Raises:
        CollectiveError: two ranks run on one host, the options are of another kind, or the timeout
            is not above 0.
        EmulationError: this process was not started by ``innet run``.
        ControlError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: some ranks did not come.
    """
    options = _checked_options(pg_options)
    support_uneven_inputs()
    watch_front_end()
    guard_object_collectives()
    worker = current_worker()
    if worker.trace is not None:
        from innet.telemetry.trace.training_phases import trace_training_phases

        trace_training_phases(worker.trace)
    timeout_s = chosen_timeout_s(request.timeout, worker.settings.collectives.timeout_s)
    meeting = meet(
        request.store,
        request.group_rank,
        request.group_size,
        worker.config.node,
        timeout_s,
    )
    _require_different_hosts(meeting.nodes)
    communicator = init(
        group=f"torch:{request.group_id}:{meeting.generation}",
        algorithm=options.algorithm,
        timeout_s=timeout_s,
        nodes=meeting.nodes,
    )
    meeting.succeeded()
    return InnetProcessGroup(communicator, options, request.store)


def _require_different_hosts(nodes: tuple[str, ...]) -> None:
    for rank, node in enumerate(nodes):
        if node in nodes[:rank]:
            raise CollectiveError(
                f"ranks {nodes.index(node)} and {rank} both run on {node}, and a host holds one "
                "rank: start one process on each host"
            )


def _checked_options(pg_options: object) -> Options:
    if pg_options is None:
        return Options()
    if isinstance(pg_options, Options):
        return pg_options
    raise CollectiveError(
        f"pg_options is a {type(pg_options).__name__}; the innet backend takes "
        "innet.torch_backend.Options, such as Options(algorithm='ring')"
    )


def chosen_timeout_s(timeout: timedelta, setting_s: float | None) -> float:
    """The program's timeout, or else the setting, or else PyTorch's default.

    PyTorch fills its default of 30 minutes in when the program says nothing.
    """
    given_s = timeout.total_seconds()
    if timeout == default_pg_timeout and setting_s is not None:
        given_s = setting_s
    return timeout_or(given_s, given_s)
