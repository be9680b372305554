"""Makes a process group among its ranks: at PyTorch's request, and again after a rank has died."""

from __future__ import annotations

import functools
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore, _DistributedBackendOptions
from torch.distributed import DistNetworkError, distributed_c10d
from torch.distributed.constants import default_pg_timeout

from innet.collectives import Communicator, init
from innet.collectives.joining import attach_if_asked
from innet.collectives.work import timeout_or
from innet.errors import CollectiveError, DeadlineExceeded, RankFailed
from innet.node.messages import named_rank
from innet.torch_backend.options import Options
from innet.torch_backend.patches import (
    guard_object_collectives,
    support_uneven_inputs,
    watch_communication_hooks,
    watch_front_end,
)
from innet.torch_backend.process_group import InnetProcessGroup
from innet.worker import Worker, current_worker

_POLL_S = 0.01
_CHECK_INTERVAL_S = 1.0
_JOB_KEY = "innet/job"
_RESTART_COUNT_VARIABLE = "TORCHELASTIC_RESTART_COUNT"


@dataclass(frozen=True, slots=True)
class Meeting:
    """The result of the rendezvous of a process group's ranks.

    Attributes:
        nodes: the host of each rank.
        generation: number of this group among those made with the same store, from 1; a group that
            is destroyed and made again has a new number.
        succeeded: ends the meeting once the group exists.
    """

    nodes: tuple[str, ...]
    generation: int
    succeeded: Callable[[], None]


RequireAll = Callable[[Sequence[int], Collection[str]], None]
"""Checks that missing ranks may still come, given the hosts of those that have."""


def meet(
    store: Store,
    rank: int,
    size: int,
    node: str,
    timeout_s: float,
    require_all: RequireAll = lambda _missing, _nodes: None,
) -> Meeting:
    """Publish in ``store`` that ``rank`` runs on ``node``, and wait for all ``size`` ranks.

    This polls the store: a connection to the store serves one caller at a time, and a blocking
    ``get`` would stop other threads of this process.

    After a failed attempt, ranks that try again meet ranks that try for the first time: each rank
    moves on to the highest generation that it reads.

    ``require_all`` is called every second while ranks are missing, and raises the error.

    Raises:
        DeadlineExceeded: ranks are missing after ``timeout_s``; the message names them.
    """
    next_check_s = time.monotonic() + _CHECK_INTERVAL_S
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
        if missing and time.monotonic() >= next_check_s:
            require_all(missing, nodes.values())
            next_check_s = time.monotonic() + _CHECK_INTERVAL_S
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
        EmulationError: this process was not started by ``innet run``, and INNET_NETWORK is not set;
            or the network has no worker for each rank.
        ControlError: the algorithm is unknown or does not fit the topology.
        DeadlineExceeded: ranks are missing.
        RankFailed: the process of a rank that is missing has ended.
    """
    options = _checked_options(pg_options)
    support_uneven_inputs()
    watch_front_end()
    watch_communication_hooks()
    guard_object_collectives()
    attach_if_asked(lambda: _arguments_of_attach(request))
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
        functools.partial(_require_all, worker, request),
    )
    _require_different_hosts(meeting.nodes)
    communicator = init(
        group=f"torch:{request.group_id}:{meeting.generation}",
        algorithm=options.algorithm,
        timeout_s=timeout_s,
        nodes=meeting.nodes,
    )
    meeting.succeeded()
    if dist.group.WORLD is None:  # this is the default group
        _keep_for_the_next(request.store, meeting.generation)
    return InnetProcessGroup(communicator, options, request.store)


_kept: dict[tuple[str, int], Store] = {}
_GROUPS_PER_GENERATION = 1 << 20


def _keep_for_the_next(store: Store, generation: int) -> None:
    """Let the default group be made again in the same store, while this process lives.

    Rank 0's store would end with its group. A rank that makes the next group before rank 0 has
    ended this one would meet nobody there. Names of groups are keys in the store, so PyTorch's
    count, which begins anew with each default group, must not give the names of earlier groups.
    """
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        _kept[store.host, store.port] = store
    if generation > 1:
        distributed_c10d._world.group_count += generation * _GROUPS_PER_GENERATION


def _require_all(
    worker: Worker,
    request: _DistributedBackendOptions,
    missing: Sequence[int],
    nodes: Collection[str],
) -> None:
    """Check that the ranks that have not come may still do so.

    Raises:
        RankFailed: the process of one has ended, and no other takes its place.
    """
    gone = worker.gone()
    world = dist.group.WORLD
    if isinstance(world, InnetProcessGroup):
        hosts = world.communicator.nodes
        ended = [hosts[request.global_ranks_in_group[rank]] for rank in missing]
    elif len(set(worker.job.ranks) - set(gone) | set(nodes)) < request.group_size:
        ended = [host for host in worker.job.ranks if host not in nodes]
    else:
        return
    for host in ended:
        if host in gone:
            why = gone[host] or "ended without joining the process group"
            rank = worker.job.ranks.index(host)
            raise RankFailed(named_rank(rank, host) + f" {why}", rank=rank)


def _arguments_of_attach(request: _DistributedBackendOptions) -> dict[str, Any]:
    """The ranks of the first group are those of the job."""
    timeout_s = request.timeout.total_seconds()
    return {
        "job": _agreed_job(request.store, request.group_rank, timeout_s),
        "rank": request.group_rank,
        "size": request.group_size,
        "timeout_s": timeout_s,
    }


def _agreed_job(store: Store, rank: int, timeout_s: float) -> str:
    """A text that the ranks of a store have in common, and no others.

    Ranks that `torchrun` has restarted meet in the store of the ranks before them.
    """
    key = f"{_JOB_KEY}.{os.environ.get(_RESTART_COUNT_VARIABLE, '0')}"
    if rank == 0:
        store.set(key, uuid.uuid4().hex)
    deadline_s = time.monotonic() + timeout_s
    while not store.check([key]):
        if time.monotonic() > deadline_s:
            raise DeadlineExceeded(
                f"rank 0 did not join the process group within {timeout_s:g} s (timeout= changes "
                "it). Check that it still runs."
            )
        time.sleep(_POLL_S)
    return store.get(key).decode()


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


_ANY_PORT = 0
_RETRY_PAUSE_S = 0.1
_LOCAL = "127.0.0.1"


def recover() -> None:
    """Make the default process group again after a rank has failed, by the job's policy.

    Operations that need the failed rank raise ``RankFailed``, which is a ``RuntimeError``;
    DistributedDataParallel raises a ``RuntimeError`` of its own. Every surviving rank calls this
    function. It destroys all process groups of this process: make DistributedDataParallel, device
    meshes and sub-groups again.

    * ``shrink``: a group of the survivors, with new numbers. RANK, WORLD_SIZE, MASTER_ADDR and
      MASTER_PORT in the environment change accordingly.
    * ``wait``: a group of the same ranks. The successor of the failed rank calls
      ``init_process_group("innet")`` as at the start.

    When the failure was reported, one rank may have completed an operation more than another: load
    a checkpoint, or send the state of one rank to all. Do so before you make
    DistributedDataParallel, which sends rank 0's weights to all: rank 0 may be a successor without
    weights.

    Raises:
        CollectiveError: the default group is of another backend, or no rank of it has failed.
        RankFailed: the policy is ``abort``, which is the default.
        DeadlineExceeded: a survivor or a successor is missing after the timeout.

    Example::

        try:
            train_step(model)
        except RuntimeError:
            innet.torch_backend.recover()  # raises if it was something else
            load_checkpoint(model.module, optimizer)
            model = DistributedDataParallel(model.module)
    """
    group = dist.group.WORLD
    if not isinstance(group, InnetProcessGroup):
        raise CollectiveError(
            f"the default process group is {group}; only groups of the innet backend can recover"
        )
    failed = group.communicator
    if failed.failure() is None:
        raise CollectiveError(
            "no rank of the default process group has failed; there is nothing to recover from"
        )
    if failed.on_death == "wait":
        dist.destroy_process_group()
        _meet_successor(group, failed.timeout_s)
        return
    survivors = failed.recover()
    dist.destroy_process_group()
    store = _common_store(survivors)
    survivors.close()  # the next group has its name
    os.environ.update(RANK=str(survivors.rank), WORLD_SIZE=str(survivors.size))
    dist.init_process_group(
        "innet",
        store=store,
        rank=survivors.rank,
        world_size=survivors.size,
        timeout=timedelta(seconds=failed.timeout_s),
        pg_options=group.options,
    )


def _common_store(survivors: Communicator) -> Store:
    """A store on the host of the survivors' rank 0: the process of the old store may have died."""
    place = np.zeros(2, np.int64)
    if survivors.rank == 0:
        address = current_worker().config.ip_address or _LOCAL
        # Without a socket of ours, the store listens on all addresses of the machine.
        listener = socket.create_server((address, _ANY_PORT))
        store = TCPStore(
            address,
            listener.getsockname()[1],
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        place[:] = int(IPv4Address(address)), store.port
    survivors.broadcast(place)
    address, port = str(IPv4Address(int(place[0]))), int(place[1])
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(port))
    return store if survivors.rank == 0 else TCPStore(address, port, is_master=False)


def _meet_successor(group: InnetProcessGroup, timeout_s: float) -> None:
    """Join the default group again; where the store died too, retry until it is back."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = max(deadline_s - time.monotonic(), 1.0)
        try:
            dist.init_process_group(
                "innet", timeout=timedelta(seconds=left_s), pg_options=group.options
            )
        except (dist.DistError, DeadlineExceeded, RankFailed):
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(_RETRY_PAUSE_S)
        else:
            group_now = dist.group.WORLD
            assert isinstance(group_now, InnetProcessGroup)
            group_now.communicator.timeout_s = timeout_s
            return
