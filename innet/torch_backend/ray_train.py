"""Ray Train over innet: the workers of an unmodified ``TorchTrainer`` are ranks of a network's job.

Each worker, an actor of Ray, attaches to a host of a network that is up (:func:`innet.attach`).
Ray starts, restarts and ends the workers; innet makes their process group.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ray
import torch.distributed as dist
from ray._common.network_utils import build_address
from ray.exceptions import GetTimeoutError, RayError
from ray.train import get_context
from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend
from ray.train.torch import TorchConfig, get_device
from ray.train.v2._internal.execution.worker_group import WorkerGroup

from innet.cluster.attachment import attach, detach
from innet.cluster.emulation.runs import RunRecord, find_run, network_of
from innet.errors import EmulationError
from innet.torch_backend.options import BACKEND_NAME
from innet.worker.current import fail_worker
from innet.worker.process_end import describe, is_of_another

_SHUTDOWN_TIMEOUT_S = 20.0
_JOINING_TIMEOUT_S = 30.0
_RETRY_S = 0.2
_STORE_SUFFIX = ".ray-store"


@dataclass
class InnetConfig(TorchConfig):
    """The ``torch_config`` of a ``TorchTrainer`` that trains over a network of ``innet up``.

    Of a network on several machines, each worker attaches to a host of its machine.

    Attributes:
        network: its name; ``None``: the only one that is up.

    Raises:
        EmulationError: there is no such network, or ``backend`` or ``init_method`` is given, which
            are innet's.

    Example::

        TorchTrainer(train, torch_config=InnetConfig(network="lab"),
                     scaling_config=ScalingConfig(num_workers=4)).fit()
    """

    backend: str | None = BACKEND_NAME
    network: str | None = None

    def __post_init__(self) -> None:
        """Find the network before Ray starts anything."""
        for name, value, own in (
            ("backend", self.backend, BACKEND_NAME),
            ("init_method", self.init_method, TorchConfig.init_method),
        ):
            if value != own:
                raise EmulationError(
                    f"InnetConfig takes no {name}, and was given {value!r}: ranks meet through a "
                    "file of the run, and innet makes their group. Leave it out, or use Ray's "
                    "TorchConfig"
                )
        self.network = network_of(find_run(self.network))

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that Ray calls after workers have started, and before they end."""
        return _InnetBackend

    @property
    def train_func_context(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
        """Surrounds the training function in each worker."""
        return _training


@contextlib.contextmanager
def _training() -> Iterator[None]:
    """Tells the other ranks at once when the training function of this one raises.

    Ray keeps the process of a rank that has failed, so nothing else would end their operations.
    """
    with TorchConfig().train_func_context():
        try:
            yield
        except BaseException as error:
            fail_worker(describe(error), of_another=is_of_another(error))
            raise


class _InnetBackend(Backend):
    """Makes the process group of the workers, and ends it."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: InnetConfig) -> None:
        """Let each worker attach and join the process group; a failed start leaves no worker."""
        try:
            self._start(worker_group, backend_config)
        except Exception:
            if isinstance(worker_group, WorkerGroup):  # otherwise Ray keeps its resources
                with contextlib.suppress(Exception):  # the one that was raised says more
                    worker_group.shutdown()
            raise

    def _start(self, worker_group: Any, backend_config: InnetConfig) -> None:
        assert backend_config.network is not None, "__post_init__ sets it"
        network, job = backend_config.network, uuid.uuid4().hex
        store = worker_group.execute_single(0, _store, network, job)
        size = len(worker_group)
        joining = [
            worker_group.execute_single_async(
                rank, _join, _Seat(network, job, store, rank, size, backend_config.timeout_s)
            )
            for rank in range(size)
        ]
        ray.get(joining)

    def on_shutdown(self, worker_group: Any, backend_config: InnetConfig) -> None:
        """Let each worker leave the group and its host; those that have died are gone already."""
        leaving = worker_group.execute_async(_leave)
        with contextlib.suppress(GetTimeoutError, RayError):
            ray.get(leaving, timeout=_SHUTDOWN_TIMEOUT_S)


@dataclass(frozen=True)
class _Seat:
    """A rank of a job, and where its ranks meet."""

    network: str
    job: str
    store: str
    rank: int
    size: int
    timeout_s: float


def _store(network: str, job: str) -> str:
    """Where the ranks meet, as rank 0 says.

    On one machine that is a file of the run, which only its user reads: a store that listens takes
    connections from other machines. On several, there is no other way.
    """
    record = _network_here(network)
    if record.mode == "cluster":
        address, port = get_address_and_port()
        return f"tcp://{build_address(address, port)}"
    return (record.run_dir / f"{job}{_STORE_SUFFIX}").as_uri()


def _network_here(network: str) -> RunRecord:
    """The network on this machine; Ray starts workers on a node before its agent has joined.

    Raises:
        EmulationError: this machine is none of the network.
    """
    deadline_s = time.monotonic() + _JOINING_TIMEOUT_S
    while True:
        try:
            record = find_run(network)
        except EmulationError as error:
            if time.monotonic() >= deadline_s:
                raise EmulationError(
                    f"a worker of Ray runs on {os.uname().nodename}, which is no machine of "
                    f"network {network}: {error}. Let Ray choose others: "
                    "ScalingConfig(label_selector=...)"
                ) from error
        else:
            if not record.is_stale or time.monotonic() >= deadline_s:
                return record
        time.sleep(_RETRY_S)


def _join(seat: _Seat) -> None:
    """Attach this worker to the network, and join the default process group."""
    context = get_context()
    os.environ.update(
        RANK=str(seat.rank),
        WORLD_SIZE=str(seat.size),
        LOCAL_RANK=str(context.get_local_rank()),
        LOCAL_WORLD_SIZE=str(context.get_local_world_size()),
        NODE_RANK=str(context.get_node_rank()),
        ACCELERATE_TORCH_DEVICE=str(get_device()),  # as Ray's own backend sets it
    )
    _network_here(seat.network)
    attach(seat.network, job=seat.job, rank=seat.rank, size=seat.size, timeout_s=seat.timeout_s)
    dist.init_process_group(
        BACKEND_NAME,
        init_method=seat.store,
        rank=seat.rank,
        world_size=seat.size,
        timeout=timedelta(seconds=seat.timeout_s),
    )


def _leave() -> None:
    """Leave the process group and the host. The network may have ended already."""
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        detach()
