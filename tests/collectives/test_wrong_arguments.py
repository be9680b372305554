"""A call with an argument of the wrong kind says which, and what to pass in its place."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.errors import CollectiveError, MismatchError, PeerError
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
def test_a_list_is_refused_with_how_to_make_an_array(comm, call):
    with pytest.raises(CollectiveError, match=r"a list is not a NumPy array; pass numpy.asarray"):
        call(comm)


def test_an_all_to_all_in_place_of_a_list_is_refused_the_same_way(comm):
    numbers = (1.0, 2.0)
    with pytest.raises(CollectiveError, match=r"a tuple is not a NumPy array; pass numpy.asarray"):
        comm.alltoall(numbers, out=numbers)


def test_an_unknown_operator_is_refused_with_the_known_ones(comm):
    with pytest.raises(CollectiveError, match="unknown combine='bogus'; a put can replace or sum"):
        comm.put("weights", 1, FLOATS, combine="bogus")


@pytest.mark.parametrize("value", [{"step": 1}, "text", 7, None, [b"a"]])
def test_an_object_without_bytes_is_refused_with_how_to_make_some(comm, value):
    with pytest.raises(CollectiveError, match=f"type {type(value).__name__} cannot be published"):
        comm.publish("state", value)


NAMES = {
    "publish": lambda comm: comm.publish(3, FLOATS),
    "fetch": lambda comm: comm.fetch(3, 1),
    "register": lambda comm: comm.register(3, FLOATS),
    "put": lambda comm: comm.put(3, 1, FLOATS),
    "get": lambda comm: comm.get(3, 1),
}


@pytest.mark.parametrize("call", NAMES.values(), ids=NAMES)
def test_a_name_that_is_not_text_is_refused_with_an_example(comm, call):
    with pytest.raises(CollectiveError, match="3 is not a name: a name is a str, such as 'model"):
        call(comm)


def test_a_number_in_place_of_a_policy_is_refused_with_the_policy_to_pass():
    with Cluster(load_topology("star:2"), timeout_s=10.0) as cluster:
        failed = cluster.run(lambda comm: comm.allreduce_of(FLOATS, 2))  # type: ignore[arg-type]
        assert all(isinstance(error, CollectiveError) for error in failed)
        assert any("2 is not a policy; pass innet.KOfN(k)" in str(error) for error in failed)
        results = cluster.run(lambda comm: comm.allreduce_of(FLOATS, innet.KOfN(2)).total)
        assert all((total == 2 * FLOATS).all() for total in results)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_a_masked_sum_without_a_usable_limit_is_refused_at_construction(comm, limit):
    with pytest.raises(CollectiveError, match="bounds nothing; give the largest magnitude"):
        innet.MaskedSum(comm, limit=limit, threshold=2)


READ_ONLY = np.ones(2)
READ_ONLY.flags.writeable = False
OBJECTS = np.array([None], object)
MESSAGES = {
    "to a rank that is none": (lambda comm: comm.isend(FLOATS, 2), "no rank 2; .* numbers 0 to 1"),
    "to a negative rank": (lambda comm: comm.isend(FLOATS, -1), "there is no rank -1"),
    "to a rank in quotes": (lambda comm: comm.isend(FLOATS, "1"), "there is no rank '1'"),
    "to a fraction": (lambda comm: comm.isend(FLOATS, 1.0), "there is no rank 1.0"),
    "to itself": (lambda comm: comm.isend(FLOATS, 0), "cannot send messages to itself"),
    "with a tag that is no number": (lambda comm: comm.isend(FLOATS, 1, tag="q"), "tag='q' is no"),
    "with a fraction as tag": (lambda comm: comm.irecv(FLOATS, 1, tag=1.0), "tag=1.0 is no whole"),
    "from any with such a tag": (lambda comm: comm.irecv_any(FLOATS, tag="q"), "tag='q' is no"),
    "of Python objects": (lambda comm: comm.isend(OBJECTS, 1), "object hold Python objects"),
    "from a rank that is none": (lambda comm: comm.irecv(FLOATS, 5), "there is no rank 5"),
    "from itself": (lambda comm: comm.irecv(FLOATS, 0), "cannot send messages to itself"),
    "into Python objects": (lambda comm: comm.irecv(OBJECTS, 1), "object hold Python objects"),
    "into a read-only array": (lambda comm: comm.irecv(READ_ONLY, 1), "read-only"),
    "in no time": (lambda comm: comm.irecv(FLOATS, 1, timeout_s=0), "a timeout of 0 s"),
    "from any into objects": (lambda comm: comm.irecv_any(OBJECTS), "object hold Python objects"),
}


@pytest.mark.parametrize(("call", "words"), MESSAGES.values(), ids=MESSAGES)
def test_an_impossible_message_is_refused_before_anything_is_sent(comm, call, words):
    with pytest.raises(CollectiveError, match=words):
        call(comm)


def test_the_receive_of_a_refused_message_fails_and_the_next_is_right():
    with Cluster(load_topology("star:2"), timeout_s=10.0) as cluster:
        first, second = cluster.communicators
        with pytest.raises(CollectiveError):
            first.isend(NUMBERS, 1)  # type: ignore[arg-type]
        with pytest.raises(PeerError, match=r"rank 0 \(h0\).*a list is not a NumPy array"):
            second.irecv(np.zeros(2, np.float32), 0).wait()
        first.isend(FLOATS, np.int64(1))  # type: ignore[arg-type]
        assert (second.irecv(np.zeros(2, np.float32), 0).wait() == FLOATS).all()


def test_a_message_of_another_length_is_a_mismatch_and_the_next_is_right():
    with Cluster(load_topology("star:2"), timeout_s=10.0) as cluster:
        first, second = cluster.communicators
        works = [first.isend(np.ones(size, np.float32), 1) for size in (3, 2)]
        with pytest.raises(MismatchError, match="has 3 elements, and 2 elements were expected"):
            second.irecv(np.zeros(2, np.float32), 0).wait()
        assert (second.irecv(np.zeros(2, np.float32), 0).wait() == FLOATS).all()
        for work in works:
            work.wait()
