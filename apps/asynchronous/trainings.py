"""The same training twice: synchronous, and over a parameter server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from asynchronous.comparison import Curve, Progress, Pulls
from asynchronous.task import Task, Worker
from innet.collectives import Communicator
from innet.torch_backend.parameter_server import Client, Server


def train_synchronously(task: Task, rank: int) -> Curve:
    """DistributedDataParallel: every step lasts as long as the slowest rank's. All ranks call."""
    model = DistributedDataParallel(task.model())
    optimizer = task.optimizer(model)
    worker = Worker(task, rank, model)
    curve = Curve("synchronous")
    dist.barrier()
    evaluator = Worker(task, rank, model.module)
    progress = Progress(curve, evaluator.evaluate, task.worker_steps, task.evaluate_s)
    while worker.steps * task.ranks < task.worker_steps:
        if rank == 0:
            progress.report(worker.steps * task.ranks)
        optimizer.zero_grad()
        worker.gradients()
        optimizer.step()
    if rank == 0:
        progress.report(worker.steps * task.ranks, last=True)
    curve.worker_steps = [worker.steps] * task.ranks
    return curve


@dataclass(frozen=True)
class ServerOptions:
    """How the parameters are served: by the first ranks, which train as well.

    Attributes:
        servers: ranks with a part of the parameters.
        staleness, behind: as :class:`innet.torch_backend.parameter_server.Client` takes them.
    """

    servers: int
    staleness: int | None
    behind: int


def train_asynchronously(
    task: Task, communicator: Communicator, options: ServerOptions
) -> tuple[Curve, Pulls]:
    """Each worker at its own pace, until all together have done their steps. All ranks call."""
    rank = communicator.rank
    model = task.model()
    servers = tuple(range(options.servers))
    server = None
    if rank in servers:
        server = Server(model.parameters(), communicator, servers=servers)
    client = Client(
        model.parameters(),
        communicator,
        servers=servers,
        staleness=options.staleness,
        behind=options.behind,
    )
    optimizer = task.optimizer(model)
    worker = Worker(task, rank, model)
    curve = Curve("asynchronous")
    communicator.barrier()
    sent_before = _sent_bytes(communicator)
    progress = Progress(curve, worker.evaluate, task.worker_steps, task.evaluate_s)
    while (pushed := min(client.pull())) < task.worker_steps:
        if rank == 0:
            progress.report(pushed)
        optimizer.zero_grad()
        worker.gradients()
        optimizer.step()
        client.push(scale=1 / task.ranks)
    client.close()
    if rank == 0 and server is not None:
        server.wait_for_workers()
        server.read()
        progress.report(server.version, last=True)
    counts = communicator.allgather(
        np.array([worker.steps, _sent_bytes(communicator) - sent_before], np.int64)
    )
    curve.worker_steps = counts[:, 0].tolist()
    return curve, _pulls(curve.worker_steps, counts[: options.servers, 1], model_bytes(task))


def model_bytes(task: Task) -> int:
    """Bytes of all parameters."""
    return sum(parameter.nbytes for parameter in task.model().parameters())


def _pulls(worker_steps: list[int], sent_bytes: np.ndarray, size_bytes: int) -> Pulls:
    """Each worker pulls once more than it steps; a server's own part stays on its host."""
    servers = len(sent_bytes)
    fetched = sum(
        (steps + 1) * size_bytes * (servers - (rank < servers)) // servers
        for rank, steps in enumerate(worker_steps)
    )
    return Pulls(fetched, int(sent_bytes.sum()))


def _sent_bytes(communicator: Communicator) -> int:
    """Bytes that this host has sent so far."""
    return sum(link["bytes_out"] for link in communicator.stats()["links"])
