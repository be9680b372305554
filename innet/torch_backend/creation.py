"""From PyTorch's request for a process group to a communicator among its ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import Store, _DistributedBackendOptions
from torch.distributed import DistNetworkError
from torch.distributed.constants import default_pg_timeout

from innet.collectives import init
from innet.collectives.work import timeout_or
from innet.errors import CollectiveError, DeadlineExceeded
from innet.torch_backend.options import Options
from innet.torch_backend.patches import (
    guard_object_collectives,
    support_uneven_inputs,
    watch_front_end,
)
from innet.torch_backend.process_group import InnetProcessGroup
from innet.worker import current_worker

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Meeting:
    """What the ranks of a process group know of each other.

    Attributes:
        nodes: the host of each rank.
        generation: number of this group among those made with the same store, from 1; a group that
            is destroyed and made again has a new number.
        succeeded: ends the meeting once the group exists.
    """

    nodes: tuple[str, ...]
    generation: int
    succeeded: Callable[[], None]


def meet(store: Store, rank: int, size: int, node: str, timeout_s: float) -> Meeting:
    """Publish in ``store`` that ``rank`` runs on ``node``, and wait for all ``size`` ranks.

    This polls the store: a connection to the store serves one caller at a time, and a blocking
    ``get`` would stop other threads of this process.

    After a failed attempt, ranks that try again meet ranks that try for the first time: each rank
    moves on to the highest generation that it reads.

    Raises:
        DeadlineExceeded: ranks are missing after ``timeout_s``; the message names them.
    """
    notices = _Notices(store, rank, node)
    deadline_s = time.monotonic() + timeout_s
    nodes = {rank: node}
    while len(nodes) < size:
        for peer in sorted(set(range(size)) - set(nodes)):
            generation, where = notices.of(peer)
            if generation > notices.generation:
                notices.post(generation)
                nodes = {rank: node}  # entries of the generation before do not count
            if generation == notices.generation:
                nodes[peer] = where
        missing = [peer for peer in range(size) if peer not in nodes]
        if missing and time.monotonic() > deadline_s:
            raise DeadlineExceeded(
                f"ranks {', '.join(map(str, missing))} of {size} did not join the process group "
                f"within {timeout_s:g} s (timeout= changes it). Check that every rank still runs "
                "and calls init_process_group() or new_group() with the same arguments."
            )
        if missing:
            time.sleep(_POLL_S)
    return Meeting(tuple(nodes[peer] for peer in range(size)), notices.generation, notices.done)


class _Notices:
    """The entry of each rank in the store: its generation and its host.

    Attributes:
        generation: in this rank's own entry.
    """

    def __init__(self, store: Store, rank: int, node: str) -> None:
        self._store = store
        self._rank = rank
        self._node = node
        self._made_key = f"innet/{rank}/made"
        made = int(store.get(self._made_key)) if store.check([self._made_key]) else 0
        self.post(made + 1)

    def post(self, generation: int) -> None:
        self.generation = generation
        self._store.set(f"innet/{self._rank}", f"{generation} {self._node}")

    def of(self, peer: int) -> tuple[int, str]:
        """Generation and node of a rank; generation 0 before it has written an entry."""
        key = f"innet/{peer}"
        if not self._store.check([key]):
            return 0, ""
        generation, _, node = self._store.get(key).decode().partition(" ")
        return int(generation), node

    def done(self) -> None:
        """End the meeting of this generation: this rank has read all entries."""
        # The rank that serves the store may have exited; then no rank meets there again.
        with suppress(DistNetworkError):
            self._store.set(self._made_key, str(self.generation))
            # Ranks that meet for the next group must not take this entry for one of theirs.
            self.post(0)


def create_process_group(
    request: _DistributedBackendOptions, pg_options: object
) -> InnetProcessGroup:
    """Join a new group of the ranks that PyTorch names.

    ``innet run``, ``torchrun`` and ``init_method`` number ranks in different ways, so the ranks
    exchange their hosts through the store.

    Args:
        request: PyTorch's store, rank, size, name and timeout.
        pg_options: :class:`Options`, or ``None`` for its defaults.

    Raises:
        CollectiveError: two ranks run on one host, the options are of another kind, or the timeout
            is not above 0.
        EmulationError: this process was not started by ``innet run``.
        ControlError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: ranks are missing.
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
    """The program's timeout, else the setting, else PyTorch's default of 30 minutes.

    PyTorch passes its default when the program passes none.
    """
    given_s = timeout.total_seconds()
    if timeout == default_pg_timeout and setting_s is not None:
        given_s = setting_s
    return timeout_or(given_s, given_s)
