"""A worker of a parameter server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from innet.collectives import Communicator, Work
from innet.errors import CollectiveError
from innet.joint_close import JointlyClosed
from innet.torch_backend.parameter_server.clocks import LEFT, Clocks
from innet.torch_backend.parameter_server.server import WORKER_TIMEOUT_S, fetch_shards
from innet.torch_backend.parameter_server.sharding import FlatParameters, shard_name, shards
from innet.torch_backend.tensors import as_array


class Client(JointlyClosed):
    """Pulls parameters from the servers and pushes the updates of this worker.

    Servers add every push, one after the other. A pull fetches one version of each shard; shards of
    different servers may have different versions.

    Example::

        client = Client(model.parameters(), comm, staleness=4)
        for inputs, targets in batches:
            client.pull()
            loss_of(model(inputs), targets).backward()
            optimizer.step()
            client.push()  # the change of this step, in the background
        client.close()

    Attributes:
        pushes: number of pushes that this worker has begun: its clock.
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        communicator: Communicator,
        *,
        servers: Sequence[int] = (0,),
        name: str = "parameters",
        staleness: int | None = None,
        behind: int = 0,
        worker_timeout_s: float = WORKER_TIMEOUT_S,
    ) -> None:
        """Connect; nothing is fetched before the first :meth:`pull`.

        Args:
            parameters: pulls write them, pushes read them; in the servers' order.
            communicator: of the servers and workers.
            servers: as for :class:`Server`.
            name: as for :class:`Server`.
            staleness: a pull waits while this worker is more than this many pushes ahead of the
                slowest; ``None``: it never waits.
            behind: a pull accepts cached parameters that are up to this many pushes older than the
                newest, if another worker has fetched them.
            worker_timeout_s: pulls no longer wait for a worker that pushes nothing for this time.

        Raises:
            CollectiveError: ``staleness`` or ``behind`` is negative, or there are no servers.
        """
        if not servers:
            raise CollectiveError("servers=() keep no parameters; name at least one rank")
        for option, pushes in (("staleness", staleness), ("behind", behind)):
            if pushes is not None and pushes < 0:
                raise CollectiveError(
                    f"{option}={pushes} would wait for pushes that no worker makes; 0 is strictest"
                )
        self._communicator = communicator
        self._flat = FlatParameters(parameters)
        self._servers = tuple(servers)
        self._name = name
        self._staleness = staleness
        self._behind = behind
        self._clocks = Clocks(communicator, name, self._servers[0], worker_timeout_s)
        self._pulled = self._flat.empty()
        self._delta = self._flat.empty()
        self._under_way: list[Work[int]] = []
        self._closed = False
        self.pushes = 0

    def pull(self) -> tuple[int, ...]:
        """Fetch the servers' parameters into this worker's; returns the version of each shard.

        The parameters contain this worker's own pushes.

        Raises:
            DeadlineExceeded: a server does not answer.
            RankFailed: a rank has failed.
        """
        self._finish_push()
        if self._staleness is not None:
            needed = self.pushes - self._staleness
            self._clocks.wait_for(lambda ticks: bool(ticks.min() >= needed))
        versions = fetch_shards(
            self._communicator, self._name, self._servers, self._pulled, self._behind
        )
        self._flat.write(self._pulled)
        return versions

    def push(self, delta: Sequence[torch.Tensor] | None = None, *, scale: float = 1.0) -> None:
        """Add ``delta``, times ``scale``, to the servers' parameters.

        Returns at once; the next pull, push or :meth:`close` waits for the push and raises its
        error.

        Args:
            delta: a tensor for each parameter; by default the change of this worker's parameters
                since the last pull or push.
            scale: for instance one over the number of workers.
        """
        self._finish_push()
        if delta is None:
            self._flat.read(self._delta)
            changed = self._delta - self._pulled
            self._pulled, self._delta = self._delta, self._pulled
        else:
            self._flat.flatten(delta, self._delta)
            changed = self._delta.clone()
        changed.mul_(scale)
        parts = shards(self._flat.size, len(self._servers))
        self._under_way = [
            self._communicator.iput(
                shard_name(self._name, shard), server, as_array(changed[part]), combine="sum"
            )
            for shard, (server, part) in enumerate(zip(self._servers, parts, strict=True))
        ]
        self.pushes += 1

    def close(self) -> None:
        """Leave: pulls of other workers no longer wait for this one. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._finish_push()
        self._clocks.set(self._communicator.rank, LEFT)

    def _finish_push(self) -> None:
        """Wait for the push, then advance the clock: who reads the clock finds the sum."""
        under_way, self._under_way = self._under_way, []
        for work in under_way:
            work.wait()
        if under_way:
            self._clocks.set(self._communicator.rank, self.pushes)
