"""Each operation in two forms: one waits for its end, the other returns its work."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from innet.collectives import Communicator, Work
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

OPERATIONS = [name for name in vars(Communicator) if f"i{name}" in vars(Communicator)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_help_shows_the_parameters_and_the_result_of_both_forms(name: str) -> None:
    waits, starts = getattr(Communicator, name), getattr(Communicator, f"i{name}")
    assert inspect.getdoc(waits) == inspect.getdoc(starts)
    signature = inspect.signature(waits)
    assert signature.parameters == inspect.signature(starts).parameters
    result = inspect.signature(starts).return_annotation
    assert result == f"Work[{signature.return_annotation}]"


def test_the_blocking_form_returns_the_result_and_the_other_form_its_work() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        one, other = cluster.communicators
        work = one.iallreduce(np.full(3, 2.0), op="prod")
        assert isinstance(work, Work)
        assert other.allreduce(np.full(3, 4.0), op="prod").tolist() == [8, 8, 8]
        assert work.wait().tolist() == [8, 8, 8]
