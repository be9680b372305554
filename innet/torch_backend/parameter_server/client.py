"""A worker's side."""

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
    """Pulls parameters from the servers and pushes what this worker has learned.

    Pushes are added one after the other, none is lost, and each part of the parameters that a pull
    fetches is of one version; parts on different servers may be of different ones.

    Example::

        client = Client(model.parameters(), comm, staleness=4)
        for inputs, targets in batches:
            client.pull()
            loss_of(model(inputs), targets).backward()
            optimizer.step()
            client.push()  # what the step has changed, in the background
        client.close()

    Attributes:
        pushes: how many pushes this worker has begun: its clock.
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
            parameters: what pulls fill and pushes read; in the servers' order.
            communicator: of the servers and workers.
            servers: as the servers were given them.
            name: as the servers were given it.
            staleness: a pull waits while this worker is more than so many pushes ahead of the
                slowest; ``None``: it never waits.
            behind: a pull is content with parameters that are so many pushes older than the newest
                if another worker has fetched them: then they come out of a cache.
            worker_timeout_s: a worker that pushes nothing for so long is not waited for.

        Raises:
            CollectiveError: ``staleness`` or ``behind`` is negative, or there are no servers.
        """
        if not servers:
            raise CollectiveError("servers=() keep no parameters; name at least one rank")
        for option, pushes in (("staleness", staleness), ("behind", behind)):
            if pushes is not None and pushes < 0:
                raise CollectiveError(
                    f"{option}={pushes} would wait for pushes that nobody makes; 0 is the strictest"
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
        """Fetch the servers' parameters into this worker's; the version of each part.

        It contains this worker's own pushes.

        Raises:
            DeadlineExceeded: a server does not answer.
            RankFailed: a rank is gone.
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

        Returns when it is under way; the next pull, push or :meth:`close` waits until it is done,
        and raises what went wrong.

        Args:
            delta: a tensor for each parameter; by default what this worker's parameters have
                changed since the last pull or push.
            scale: such as one over the number of workers.
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
        """Leave: nobody waits for this worker any more. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._finish_push()
        self._clocks.set(self._communicator.rank, LEFT)

    def _finish_push(self) -> None:
        """Wait for the push under way, and only then move the clock: who sees it finds the sum."""
        under_way, self._under_way = self._under_way, []
        for work in under_way:
            work.wait()
        if under_way:
            self._clocks.set(self._communicator.rank, self.pushes)
