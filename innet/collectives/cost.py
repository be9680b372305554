"""What a part of a job costs: time, and bytes on the hosts' links."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from innet.collectives.communicator import Communicator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a piece of work that all ranks did together.

    Attributes:
        seconds: wall time of the rank that took longest.
        busiest_link_bytes: in the busier direction of the host's link that carried the most.
    """

    seconds: float
    busiest_link_bytes: int


def measure(comm: Communicator, work: Callable[[], T]) -> tuple[T, Cost]:
    """Do ``work`` on all ranks at once; its result here, and its cost, the same on every rank.

    Every rank calls it with the same work. Waiting for each other before and after is not counted.

    Example::

        total, cost = innet.measure(comm, lambda: comm.allreduce(gradient))
    """
    comm.barrier()
    bytes_before = _link_bytes(comm)
    began_s = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began_s
    comm.barrier()  # answers to other ranks are part of the work
    bytes_here = _link_bytes(comm) - bytes_before
    slowest_s = comm.allreduce(np.array([seconds]), "max")
    return result, Cost(float(slowest_s[0]), int(comm.allreduce(bytes_here, "max").max()))


def _link_bytes(comm: Communicator) -> npt.NDArray[np.int64]:
    links = comm.stats()["links"]
    return np.array([sum(link[way] for link in links) for way in ("bytes_in", "bytes_out")])
