"""A call with an argument of the wrong kind says which, and what to pass in its place."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.errors import CollectiveError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

NUMBERS = [1.0, 2.0]
FLOATS = np.ones(2, np.float32)

CALLS = {
    "allreduce": lambda comm: comm.allreduce(NUMBERS),
    "allreduce_q8": lambda comm: comm.allreduce_q8(NUMBERS),
    "allreduce_q8 lost=": lambda comm: comm.allreduce_q8(FLOATS, lost=NUMBERS),
    "allreduce_blocks": lambda comm: comm.allreduce_blocks(NUMBERS),
    "allreduce_of": lambda comm: comm.allreduce_of(NUMBERS, innet.KOfN(2)),
    "reduce": lambda comm: comm.reduce(NUMBERS),
    "reduce_scatter": lambda comm: comm.reduce_scatter(NUMBERS),
    "allgather": lambda comm: comm.allgather(NUMBERS),
    "broadcast": lambda comm: comm.broadcast(NUMBERS),
    "gather": lambda comm: comm.gather(NUMBERS),
    "scatter": lambda comm: comm.scatter(NUMBERS),
    "alltoall": lambda comm: comm.alltoall(NUMBERS),
    "send": lambda comm: comm.send(NUMBERS, 1),
    "recv": lambda comm: comm.recv(NUMBERS, 1),
    "register": lambda comm: comm.register("weights", NUMBERS),
    "put": lambda comm: comm.put("weights", 1, NUMBERS),
    "get": lambda comm: comm.get("weights", 1, out=NUMBERS),
    "fetch": lambda comm: comm.fetch("model", 1, out=NUMBERS),
    "out=": lambda comm: comm.allreduce(FLOATS, out=NUMBERS),
}


@pytest.fixture(scope="module")
def comm():
    with Cluster(load_topology("star:2")) as cluster:
        yield cluster.communicators[0]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_list_is_answered_with_how_to_make_an_array_of_it(comm, call):
    with pytest.raises(CollectiveError, match=r"a list is no NumPy array; pass numpy.asarray"):
        call(comm)


def test_an_unknown_way_to_combine_is_answered_with_those_that_there_are(comm):
    with pytest.raises(CollectiveError, match="unknown combine='bogus'; a put can replace or sum"):
        comm.put("weights", 1, FLOATS, combine="bogus")


@pytest.mark.parametrize("value", [{"step": 1}, "text", 7, None, [b"a"]])
def test_an_object_without_bytes_is_answered_with_how_to_make_some(comm, value):
    with pytest.raises(CollectiveError, match=f"a {type(value).__name__} cannot be published"):
        comm.publish("state", value)
