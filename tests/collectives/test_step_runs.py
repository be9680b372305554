"""Collectives of several operations: their work ends, and other ranks learn, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from innet.collectives import Communicator, Work
from innet.collectives.operation import allreduce
from innet.collectives.runner import Steps
from innet.errors import Cancelled, PeerError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

WAIT_S = 20


@pytest.fixture
def pair() -> Iterator[list[Communicator]]:
    with Cluster(load_topology("star:2")) as cluster:
        yield cluster.communicators


def two_sums(comm: Communicator) -> Work[Any]:
    """Two allreduces as one collective, whose clean-up fails."""

    def steps() -> Steps[Any]:
        try:
            yield allreduce(comm._variants, np.ones(4), "sum", None)
            return (yield allreduce(comm._variants, np.ones(4), "sum", None))
        finally:
            raise RuntimeError("the clean-up failed")

    with comm.collective("two sums", numbers=2):
        return comm._runner.start_steps(steps(), 2, "two sums")


def test_a_cancelled_collective_ends_on_all_ranks_even_if_its_clean_up_fails(
    pair: list[Communicator],
) -> None:
    cancelling, other = pair
    work = two_sums(cancelling)
    work.cancel()
    with pytest.raises(Cancelled):
        work.wait(WAIT_S)
    other.iallreduce(np.ones(4)).cancel()
    with pytest.raises(PeerError, match="two sums failed"):
        other.iallreduce(np.ones(4)).wait(WAIT_S)


def test_a_failed_collective_ends_although_its_node_has_stopped(
    pair: list[Communicator], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the node has stopped")

    work = two_sums(pair[0])
    monkeypatch.setattr(pair[0]._runner.calls, "fail", refuse)
    work.cancel()
    with pytest.raises(Cancelled):
        work.wait(WAIT_S)


def test_a_complete_collective_ends_even_if_its_spare_numbers_cannot_be_released(
    pair: list[Communicator], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_numbers: range) -> None:
        raise OSError("the node has stopped")

    def start(comm: Communicator) -> Work[Any]:
        def steps() -> Steps[Any]:
            return (yield allreduce(comm._variants, np.ones(4), "sum", None))

        monkeypatch.setattr(comm._runner, "release", refuse)
        with comm.collective("one sum of two", numbers=2):
            return comm._runner.start_steps(steps(), 2, "one sum of two")

    for work in [start(comm) for comm in pair]:
        assert work.wait(WAIT_S).tolist() == [2] * 4
