"""The process groups of several ranks in one process, and values to compute with."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from innet.topology import load_topology
from innet.torch_backend.process_group import InnetProcessGroup
from tests.collectives.cluster import Cluster

SIZE = 4
Program = Callable[[InnetProcessGroup], Any]


class Ranks:
    """A process group for each rank, all in this process."""

    def __init__(self, cluster: Cluster) -> None:
        self.groups = [InnetProcessGroup(member) for member in cluster.communicators]

    def run(self, program: Program) -> list[Any]:
        """What the program returns, or raises, on each rank."""

        def guarded(group: InnetProcessGroup) -> Any:
            try:
                return program(group)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(self.groups)) as pool:
            return list(pool.map(guarded, self.groups))

    def close(self) -> None:
        with ThreadPoolExecutor(len(self.groups)) as pool:
            list(pool.map(InnetProcessGroup.shutdown, self.groups))


@contextmanager
def opened_ranks(size: int = SIZE, **options: Any) -> Iterator[Ranks]:
    """Ranks over a star of their own; ``options`` as of :class:`Cluster`."""
    with Cluster(load_topology(f"star:{size}"), **options) as cluster:
        ranks = Ranks(cluster)
        yield ranks
        ranks.close()


def values(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers: exact in every type, in any order of adding."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def everybody(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [values(rank, *shape, dtype=dtype) for rank in range(SIZE)]


def total(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return functools.reduce(operator.add, everybody(*shape, dtype=dtype))


def with_op(options: Any, op: Any) -> Any:
    options.reduceOp = op
    return options


def with_root(options: Any, root: int) -> Any:
    options.rootRank = root
    return options
