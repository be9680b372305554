"""No time is not the default's time: it is refused, and the group stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from innet.collectives import Communicator
from innet.errors import CollectiveError, PeerError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


@pytest.fixture(scope="module")
def communicators() -> Iterator[list[Communicator]]:
    with Cluster(load_topology("star:2")) as cluster:
        yield cluster.communicators


CALLS: dict[str, Callable[[Communicator, float], object]] = {
    "recv": lambda comm, timeout_s: comm.irecv(np.zeros(1), 1, timeout_s=timeout_s),
    "fetch": lambda comm, timeout_s: comm.ifetch("model", 1, timeout_s=timeout_s),
    "get": lambda comm, timeout_s: comm.iget("array", 1, timeout_s=timeout_s),
    "put": lambda comm, timeout_s: comm.iput("array", 1, np.zeros(1), timeout_s=timeout_s),
    "attribute": lambda comm, timeout_s: setattr(comm, "timeout_s", timeout_s),
}


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), "5"])
@pytest.mark.parametrize("call", CALLS)
def test_an_invalid_timeout_is_refused(
    communicators: list[Communicator], call: str, timeout_s: Any
) -> None:
    asked = communicators[0]
    before_s = asked.timeout_s
    with pytest.raises(CollectiveError, match=r"leaves an operation no time|no number of seconds"):
        CALLS[call](asked, timeout_s)
    assert asked.timeout_s == before_s
    works = [communicator.ibarrier() for communicator in communicators]
    for work in works:
        work.wait()


def test_a_barrier_with_an_invalid_timeout_is_refused_on_all_ranks(
    communicators: list[Communicator],
) -> None:
    with pytest.raises(CollectiveError, match="leaves an operation no time"):
        communicators[0].ibarrier(timeout_s=0.0)
    with pytest.raises(PeerError, match=r"^barrier\(\) .*rank 0 .* no time"):
        communicators[1].barrier()
    works = [communicator.ibarrier() for communicator in communicators]
    for work in works:
        work.wait()
