"""The ranks that hold parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch

from innet.collectives import Communicator
from innet.errors import CollectiveError
from innet.torch_backend.parameter_server.clocks import LEFT, Clocks, initial_clocks
from innet.torch_backend.parameter_server.sharding import (
    FlatParameters,
    clocks_name,
    shard_name,
    shards,
)
from innet.torch_backend.tensors import as_array

WORKER_TIMEOUT_S = 60.0
"""Time without a push after which the other workers go on without a worker."""


class Server:
    """Serves a shard of the parameters, in the background of this rank.

    Example::

        if comm.rank == 0:
            server = Server(model.parameters(), comm, workers=range(1, comm.size))
            server.wait_for_workers()
            server.read()  # the trained parameters, into the model
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        communicator: Communicator,
        *,
        servers: Sequence[int] = (0,),
        workers: Collection[int] | None = None,
        name: str = "parameters",
        worker_timeout_s: float = WORKER_TIMEOUT_S,
    ) -> None:
        """Start to serve; workers start from the values of ``parameters``.

        Args:
            parameters: all of them, in the same order on all servers and workers.
            communicator: of the servers and workers.
            servers: the ranks with a shard of the parameters, in the order of the shards.
            workers: the ranks that push; all by default.
            name: distinguishes several parameter servers of one group.
            worker_timeout_s: :meth:`wait_for_workers` does not wait for a worker that pushes
                nothing for this time.

        Raises:
            CollectiveError: this rank is no server, or the parameters cannot be served.
        """
        if communicator.rank not in servers:
            raise CollectiveError(
                f"rank {communicator.rank} is not among the servers {list(servers)}"
            )
        self._communicator = communicator
        self._flat = FlatParameters(parameters)
        self._servers = tuple(servers)
        self._name = name
        own = self._servers.index(communicator.rank)
        values = self._flat.empty()
        self._flat.read(values)
        part = values[shards(self._flat.size, len(self._servers))[own]].clone()
        if own == 0:
            everybody = range(communicator.size) if workers is None else workers
            clocks = initial_clocks(communicator.size, everybody)
            communicator.register(clocks_name(name), clocks)
        self._shard = communicator.register(shard_name(name, own), as_array(part))
        self._clocks = Clocks(communicator, name, self._servers[0], worker_timeout_s)

    @property
    def version(self) -> int:
        """Number of pushes that this server has added."""
        return self._shard.version

    def wait_for_workers(self) -> None:
        """Return when every worker has left: by ``Client.close``, or by the timeout."""
        self._clocks.wait_for(lambda ticks: bool((ticks == LEFT).all()))

    def read(self) -> None:
        """Copy the shards of all servers into this rank's parameters."""
        values = self._flat.empty()
        fetch_shards(self._communicator, self._name, self._servers, values)
        self._flat.write(values)


def fetch_shards(
    communicator: Communicator,
    name: str,
    servers: Sequence[int],
    into: torch.Tensor,
    behind: int = 0,
) -> tuple[int, ...]:
    """Fetch all shards at once; returns the version of each."""
    works = [
        communicator.iget(shard_name(name, shard), server, out=as_array(into[part]), behind=behind)
        for shard, (server, part) in enumerate(
            zip(servers, shards(len(into), len(servers)), strict=True)
        )
    ]
    return tuple(work.wait().version for work in works)
