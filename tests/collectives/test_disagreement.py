"""Ranks that call different things get an error that shows both sides, on every rank."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from innet.errors import (
    Cancelled,
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    ReductionOverflow,
)
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(load_topology("star:3"), timeout_s=10.0) as opened:
        yield opened


def assert_everyone_gets(results, kind, *texts):
    for rank, result in enumerate(results):
        assert isinstance(result, kind), f"rank {rank}: {result!r}"
        for text in texts:
            assert text in str(result), f"rank {rank}: {result}"


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce([1.0, 2.0]),
        lambda comm: comm.allgather(3.0),
        lambda comm: comm.broadcast((1, 2), root=0),
        lambda comm: comm.allreduce(np.ones(2), out=[0.0, 0.0]),
    ],
    ids=["list", "number", "tuple", "out"],
)
def test_other_objects_than_arrays_are_refused_with_advice(cluster, call):
    results = cluster.run(call)
    assert_everyone_gets(results, CollectiveError, "is not a NumPy array; pass numpy.asarray")


def test_different_lengths(cluster):
    results = cluster.run(
        lambda comm: comm.allreduce(np.ones(100 if comm.rank == 1 else 90, np.float32))
    )
    assert_everyone_gets(results, MismatchError, "100", "90")


def test_different_lengths_with_different_numbers_of_segments(cluster):
    results = cluster.run(
        lambda comm: comm.allreduce(np.ones(100_000 if comm.rank == 1 else 10, np.float32))
    )
    assert_everyone_gets(results, MismatchError)


def test_different_types(cluster):
    results = cluster.run(
        lambda comm: comm.allreduce(np.ones(10, np.float64 if comm.rank == 2 else np.float32))
    )
    assert_everyone_gets(results, MismatchError, "f32", "f64")


def test_different_operations(cluster):
    results = cluster.run(
        lambda comm: comm.allreduce(np.ones(10), op="max" if comm.rank == 0 else "sum")
    )
    assert_everyone_gets(results, MismatchError, "max", "sum")


def test_different_collectives(cluster):
    results = cluster.run(
        lambda comm: comm.allgather(np.ones(10)) if comm.rank == 0 else comm.allreduce(np.ones(10))
    )
    assert_everyone_gets(results, MismatchError, "allgather")


ONES = np.ones(100, np.float32)
DIFFERENT_ROOTS = {
    "broadcast": lambda comm, root: comm.broadcast(ONES.copy(), root=root),
    "reduce": lambda comm, root: comm.reduce(ONES, root=root),
    "gather": lambda comm, root: comm.gather(ONES, root=root),
    "scatter": lambda comm, root: comm.scatter(
        np.tile(ONES, 3) if comm.rank == root else None, root=root, out=np.empty(100, np.float32)
    ),
}


@pytest.mark.parametrize("call", DIFFERENT_ROOTS.values(), ids=DIFFERENT_ROOTS)
def test_different_roots(cluster, call):
    """A rank that waits learns of it at once, the others in the next call that all wait for."""
    results = cluster.run(lambda comm: call(comm, 2 if comm.rank == 1 else 0))
    errors = [result for result in results if isinstance(result, Exception)]
    assert errors
    for error in errors:
        assert isinstance(error, MismatchError), error
        assert_everyone_gets([error], MismatchError, "root=0", "root=2", "(h")
    results = cluster.run(lambda comm: comm.allreduce(ONES))
    assert_everyone_gets(
        results, MismatchError, "root=0", "root=2", "rank ", "in an earlier call", "call it again"
    )
    results = cluster.run(lambda comm: comm.allreduce(ONES))
    assert all((result == 3).all() for result in results)


SYNCHRONISING = {
    "allreduce": lambda comm: comm.allreduce(ONES),
    "allreduce_q8": lambda comm: comm.allreduce_q8(ONES.copy()),
    "reduce_scatter": lambda comm: comm.reduce_scatter(np.ones(3, np.float32)),
    "allgather": lambda comm: comm.allgather(ONES),
    "alltoall": lambda comm: comm.alltoall(np.ones(3, np.float32)),
    "barrier": lambda comm: comm.barrier(),
    "reduce_by_key": lambda comm: comm.reduce_by_key(np.arange(3), np.ones(3)),
}


@pytest.mark.parametrize("call", SYNCHRONISING.values(), ids=SYNCHRONISING)
@pytest.mark.parametrize("before", [0, 20], ids=["one call", "after others"])
def test_different_roots_of_a_broadcast_fail_the_next_synchronising_call(cluster, call, before):
    """Each root has what it needs, and so has rank 2: its broadcast succeeds."""

    def different(comm):
        for _ in range(before):
            comm.broadcast(ONES.copy(), root=2)
        return comm.broadcast(ONES * comm.rank, root=1 if comm.rank == 1 else 0)

    values = cluster.run(different)
    assert [value[0] for value in values] == [0, 1, 0]
    results = cluster.run(call)
    assert_everyone_gets(
        results, MismatchError, "in an earlier call", "root=0", "root=1", "call it again"
    )
    again = cluster.run(call)
    assert not any(isinstance(result, Exception) for result in again)


def test_equal_roots_do_not_fail_the_next_calls(cluster):
    def program(comm):
        for root in (0, 1, 2, 0):
            comm.broadcast(ONES.copy(), root=root)
        sums = []
        for step in range(100):
            comm.broadcast(ONES.copy(), root=step % 3)
            sums.append(comm.allreduce(ONES)[0])
        return sums

    assert cluster.run(program) == [[3] * 100] * 3


def test_different_roots_of_a_reduction_by_key(cluster):
    keys = np.arange(5)
    results = cluster.run(
        lambda comm: comm.reduce_by_key(keys, np.ones(5), root=1 if comm.rank == 2 else 0)
    )
    assert_everyone_gets(results, MismatchError, "root=0", "root=1")


def test_a_broadcast_on_one_rank_and_a_barrier_on_the_others_mismatch(cluster):
    results = cluster.run(
        lambda comm: comm.broadcast(ONES.copy(), root=0) if comm.rank == 2 else comm.barrier()
    )
    assert_everyone_gets(results, MismatchError, "broadcast", "barrier", "(h")


def test_an_allgather_of_different_lengths_names_the_ranks(cluster):
    results = cluster.run(lambda comm: comm.allgather(ONES[: 90 if comm.rank == 1 else 100]))
    assert_everyone_gets(results, MismatchError, "(90,)", "(100,)")
    assert "rank 1 (h1) called" in str(results[0])
    assert "(h0) called" in str(results[1]) or "(h2) called" in str(results[1])
    assert "rank 1 (h1) called" in str(results[2])


@pytest.mark.parametrize("any_source", [False, True], ids=["one source", "any source"])
@pytest.mark.parametrize(
    ("memory", "texts"),
    [(np.empty(100), ["recv(f64", "send(f32"]), (np.empty(90, np.float32), ["90", "100"])],
    ids=["type", "size"],
)
def test_a_receive_of_the_wrong_size_fails_on_both_sides(cluster, any_source, memory, texts):
    """The send has ended by then, because it was buffered: its rank logs a warning."""
    warned = threading.Event()
    warnings: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        warnings.append(record.getMessage())
        warned.set()
        return True

    logger = logging.getLogger("innet.collectives.point_to_point")
    logger.addFilter(note)

    def exchange(comm):
        if comm.rank == 0:
            comm.send(ONES, to=1)
            comm.send(2 * ONES, to=1)
            return warned.wait(timeout=60)
        if comm.rank == 2:
            return None
        with pytest.raises(MismatchError) as failed:
            comm.recv_any(memory) if any_source else comm.recv(memory, 0)
        following = np.empty(100, np.float32)
        comm.recv(following, 0)
        assert (following == 2).all()
        return str(failed.value)

    try:
        results = cluster.run(exchange)
    finally:
        logger.removeFilter(note)
    assert results[0] is True, results
    for text in texts:
        assert text in results[1]
    assert "rank 1 (h1) called recv(" in warnings[0]


def test_overflow_raises_on_all_ranks(cluster):
    results = cluster.run(lambda comm: comm.allreduce(np.full(10, 2**30, np.int32)))
    assert_everyone_gets(results, ReductionOverflow)


def test_an_absent_rank_is_named():
    with Cluster(load_topology("star:3"), timeout_s=1.5) as cluster:
        results = cluster.run(lambda comm: None if comm.rank == 2 else comm.allreduce(np.ones(10)))
        assert_everyone_gets(results[:2], DeadlineExceeded, "2", "allreduce")


def test_a_cancelled_operation_ends_on_its_rank(cluster):
    def give_up(comm):
        if comm.rank != 0:
            return None
        work = comm.iallreduce(np.ones(10))
        work.cancel()
        return work.exception()

    results = cluster.run(give_up)
    assert isinstance(results[0], Cancelled)


def test_an_operation_after_a_failed_one_is_right(cluster):
    cluster.run(lambda comm: comm.allreduce(np.ones(10 + comm.rank, np.float32)))
    results = cluster.run(lambda comm: comm.allreduce(np.ones(10, np.float32)))
    assert all((result == 3).all() for result in results)


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce(np.ones(3), op="median"),
        lambda comm: comm.allreduce(np.ones(3, np.complex64), op="max"),
        lambda comm: comm.allreduce(np.ones(3), op="bxor"),
        lambda comm: comm.allreduce(np.array(["a"], object)),
        lambda comm: comm.allreduce(np.ones(3), out=np.ones(4)),
        lambda comm: comm.reduce_scatter(np.ones(4)),
        lambda comm: comm.broadcast(np.ones(3), root=3),
        lambda comm: comm.scatter(None, root=0),
        lambda comm: comm.send(np.ones(3), to=comm.rank),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(cluster, call):
    assert_everyone_gets(cluster.run(call), CollectiveError)
    results = cluster.run(lambda comm: comm.allreduce(np.ones(3)))
    assert all((result == 3).all() for result in results)
