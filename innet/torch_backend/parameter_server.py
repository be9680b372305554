"""A parameter server for asynchronous SGD, in the manner of DistBelief's Downpour.

Workers add their updates to the server's parameters and fetch the parameters at any time, without
waiting for each other; with bounded staleness, no worker runs too far ahead of the slowest (stale
synchronous parallel). Any rank can be a :class:`Server`, of which each holds a shard of the
parameters; a :class:`Client` is a worker.

Sources: J. Dean et al., "Large Scale Distributed Deep Networks" (NIPS 2012), section 4.1; Q. Ho et
al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server" (NIPS 2013).
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from innet.collectives import Communicator, Work
from innet.errors import CollectiveError, DeadlineExceeded
from innet.joint_close import JointlyClosed
from innet.torch_backend.tensors import as_array

__all__ = ["Client", "Server"]


class FlatParameters:
    """The tensors of a model in their order, as one vector.

    Attributes:
        size: elements of all tensors.
        dtype: of all tensors.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        """``parameters`` may be a generator, such as ``model.parameters()``.

        Raises:
            CollectiveError: the list is empty, types differ, or a parameter is not on the CPU.
        """
        self._tensors = list(parameters)
        kinds = {(tensor.dtype, tensor.device.type) for tensor in self._tensors}
        if len(kinds) != 1 or next(iter(kinds))[1] != "cpu":
            named = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise CollectiveError(
                "a parameter server takes parameters of one type, in the CPU's memory; got "
                f"{named or 'none'}"
            )
        self.size = sum(tensor.numel() for tensor in self._tensors)
        self.dtype = self._tensors[0].dtype

    def empty(self) -> torch.Tensor:
        """A vector for them."""
        return torch.zeros(self.size, dtype=self.dtype)

    def read(self, into: torch.Tensor) -> None:
        """Copy the parameters into a vector."""
        self.flatten(self._tensors, into)

    def flatten(self, tensors: Sequence[torch.Tensor], into: torch.Tensor) -> None:
        """Copy tensors of the parameters' shapes into a vector.

        Raises:
            CollectiveError: the shapes differ.
        """
        shapes = [tuple(tensor.shape) for tensor in self._tensors]
        if [tuple(tensor.shape) for tensor in tensors] != shapes:
            raise CollectiveError(
                "the tensors to push must have the shapes of the parameters, in their order: one "
                f"for each of {len(shapes)}"
            )
        first = 0
        for tensor in tensors:
            into[first : first + tensor.numel()].copy_(tensor.detach().reshape(-1))
            first += tensor.numel()

    def write(self, vector: torch.Tensor) -> None:
        """Copy a vector into the parameters."""
        first = 0
        with torch.no_grad():
            for tensor in self._tensors:
                part = vector[first : first + tensor.numel()]
                tensor.copy_(part.view(tensor.shape))
                first += tensor.numel()


def shards(size: int, servers: int) -> list[slice]:
    """Contiguous parts of a vector of ``size`` elements, of about equal size.

    >>> shards(10, 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    ends = [size * number // servers for number in range(servers + 1)]
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def shard_name(name: str, shard: int) -> str:
    """Name of the registered array of one shard."""
    return f"{name}/shard/{shard}"


def clocks_name(name: str) -> str:
    """Name of the registered array of the workers' clocks, on the first server."""
    return f"{name}/clocks"


Ticks = npt.NDArray[np.int64]

LEFT = np.iinfo(np.int64).max
"""The clock of a worker that has left: no pull waits for it."""

_log = logging.getLogger(__name__)


def initial_clocks(ranks: int, workers: Collection[int]) -> Ticks:
    """Zero for the workers; :data:`LEFT` for the other ranks."""
    ticks = np.full(ranks, LEFT, np.int64)
    ticks[list(workers)] = 0
    return ticks


class Clocks:
    """The clocks of all workers, as one rank reads and advances them."""

    def __init__(
        self, communicator: Communicator, name: str, server: int, worker_timeout_s: float
    ) -> None:
        """A worker that pushes nothing for ``worker_timeout_s`` counts as dead."""
        self._communicator = communicator
        self._name = clocks_name(name)
        self._server = server
        self._worker_timeout_s = worker_timeout_s
        self._slowest: tuple[list[int], int] = ([], 0)
        self._slowest_since_s = 0.0

    def set(self, rank: int, ticks: int) -> None:
        """Set the clock of ``rank``."""
        self._communicator.put(
            self._name, self._server, np.array([ticks], np.int64), rows=slice(rank, rank + 1)
        )

    def wait_for(self, enough: Callable[[Ticks], bool]) -> None:
        """Wait until ``enough(clocks)``; makes workers leave that push nothing for too long."""
        at_least = 0
        while True:
            try:
                ticks, version = self._communicator.get(
                    self._name,
                    self._server,
                    at_least=at_least,
                    timeout_s=self._worker_timeout_s,
                )
            except DeadlineExceeded:
                # No clock advanced, or the server does not answer: then this raises.
                ticks, version = self._communicator.get(self._name, self._server)
            if enough(ticks):
                return
            self._dismiss_silent(ticks)
            at_least = version + 1

    def _dismiss_silent(self, ticks: Ticks) -> None:
        """Make the slowest workers leave if their clocks have not advanced for the timeout.

        Staleness never blocks the slowest workers; other workers may be silent because they wait.
        """
        now_s = time.monotonic()
        slowest = [rank for rank, tick in enumerate(ticks.tolist()) if tick == ticks.min()]
        if (slowest, ticks.min()) != self._slowest:
            self._slowest = (slowest, ticks.min())
            self._slowest_since_s = now_s
        elif ticks.min() != LEFT and now_s - self._slowest_since_s >= self._worker_timeout_s:
            for rank in slowest:
                _log.warning(
                    "rank %d has pushed nothing for %.1f s; the other workers go on without it",
                    rank,
                    now_s - self._slowest_since_s,
                )
                self.set(rank, LEFT)


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
            CollectiveError: this rank is not a server, or the parameters cannot be served.
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
        """Wait for the push, then advance the clock: readers of the clock find the sum."""
        under_way, self._under_way = self._under_way, []
        for work in under_way:
            work.wait()
        if under_way:
            self._clocks.set(self._communicator.rank, self.pushes)
