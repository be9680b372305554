"""Makes the default process group again after the process of a rank has died (docs/faults.md)."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from ipaddress import IPv4Address

import numpy as np
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from innet.collectives import Communicator
from innet.errors import CollectiveError, DeadlineExceeded, RankFailed
from innet.torch_backend.process_group import InnetProcessGroup
from innet.worker import current_worker

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
