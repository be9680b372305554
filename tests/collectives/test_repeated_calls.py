"""An allreduce that repeats an earlier one gives what the first one gives, also when it fails."""

from __future__ import annotations

import _thread
import threading

import ml_dtypes
import numpy as np
import pytest

from innet.errors import CollectiveError, DeadlineExceeded, MismatchError, RankFailed
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

SEGMENT_BYTES = 512
RANKS = 4
REPEATS = 5
"""The first call of a kind is described to the node, the second prepared, the others repeat it."""


def values(rank, step, dtype=np.float32, elements=200):
    return (np.arange(elements) % 7 + rank + 10 * step).astype(dtype)


def sum_of(step, dtype=np.float32, elements=200):
    return np.add.reduce([values(rank, step, dtype, elements) for rank in range(RANKS)])


def repeat(comm):
    for step in range(REPEATS):
        assert np.array_equal(comm.allreduce(values(comm.rank, step)), sum_of(step))


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
@pytest.mark.parametrize("place", ["new", "given", "in place"])
@pytest.mark.parametrize(
    ("dtype", "elements"),
    [(np.float32, 200), (np.int64, 1), (np.float16, 5), (np.complex64, 4), (ml_dtypes.bfloat16, 7)],
)
def test_each_repetition_sums_its_own_arrays(cluster_of, algorithm, place, dtype, elements):
    def program(comm):
        given = np.empty(elements, dtype)
        kept = []
        for step in range(REPEATS):
            mine = values(comm.rank, step, dtype, elements)
            out = {"new": None, "given": given, "in place": mine}[place]
            result = comm.allreduce(mine, out=out)
            assert out is None or result is out
            if place != "in place":
                assert np.array_equal(mine, values(comm.rank, step, dtype, elements))
            kept.append(result if out is None else result.copy())
        return kept

    for kept in cluster_of(algorithm).run(program):
        for step, result in enumerate(kept):
            assert np.array_equal(result, sum_of(step, dtype, elements))


def test_repetitions_with_other_arrays_are_checked_like_first_calls(cluster_of):
    def program(comm):
        repeat(comm)
        mine = values(comm.rank, 7)
        strided = np.repeat(mine, 2)[::2]
        assert np.array_equal(comm.allreduce(strided), sum_of(7))
        read_only = np.empty_like(mine)
        read_only.flags.writeable = False
        with pytest.raises(CollectiveError, match="read-only"):
            comm.allreduce(mine, out=read_only)
        with pytest.raises(CollectiveError, match="the result has"):
            comm.allreduce(mine, out=np.empty(3, np.float32))
        for _ in range(REPEATS):
            with pytest.raises(CollectiveError, match="unknown reduction"):
                comm.allreduce(mine, "mean")
        swapped = mine.astype(">f4")
        with pytest.raises(CollectiveError, match="big-endian"):
            comm.allreduce(swapped)
        assert np.array_equal(comm.allreduce(mine), sum_of(7))
        return "right"

    assert cluster_of("inc").run(program) == ["right"] * RANKS


def test_a_repetition_that_fails_on_one_rank_fails_on_all_and_the_next_call_is_right(cluster_of):
    def program(comm):
        repeat(comm)
        op = "mean" if comm.rank == 1 else "sum"
        for step in range(REPEATS):
            with pytest.raises(CollectiveError, match="unknown reduction"):
                comm.allreduce(values(comm.rank, step), op)
        repeat(comm)
        return "right"

    assert cluster_of("inc").run(program) == ["right"] * RANKS


def test_a_repetition_that_differs_on_one_rank_is_a_mismatch_once(cluster_of):
    def program(comm):
        repeat(comm)
        elements = 201 if comm.rank == 2 else 200
        for _ in range(REPEATS):
            with pytest.raises(MismatchError):
                comm.allreduce(np.ones(elements, np.float32))
        repeat(comm)
        return "right"

    assert cluster_of("inc").run(program) == ["right"] * RANKS


def test_a_repetition_names_the_rank_that_does_not_call():
    with Cluster(load_topology("star:4"), timeout_s=1.0) as cluster:

        def program(comm):
            repeat(comm)
            if comm.rank != 3:
                with pytest.raises(DeadlineExceeded, match=r"rank 3 \(h3\).*timeout of 1 s"):
                    comm.allreduce(values(comm.rank, 0))
            return "right"

        assert cluster.run(program) == ["right"] * RANKS


def test_a_repetition_in_a_failed_group_raises_its_failure():
    with Cluster(load_topology("star:4")) as cluster:
        cluster.run(repeat)
        for comm in cluster.communicators:
            cluster.fail(comm, "rank 3 (h3) died", 3)
            with pytest.raises(RankFailed, match="died"):
                comm.allreduce(values(comm.rank, 0))


def test_an_interrupt_ends_a_repetition_and_the_next_call_is_right(cluster_of):
    cluster = cluster_of("inc")
    cluster.run(repeat)
    interrupted = threading.Event()
    mine, *others = cluster.communicators
    results = {}

    def take_part(comm):
        if comm.rank == 3:
            interrupted.wait()
        results[comm.rank] = comm.allreduce(values(comm.rank, 1))
        results[comm.rank, "next"] = comm.allreduce(values(comm.rank, 2))

    def interrupt():
        while not cluster.status("h0")["operations"]:
            pass
        _thread.interrupt_main()

    threads = [threading.Thread(target=take_part, args=[comm]) for comm in others]
    threads.append(threading.Thread(target=interrupt))
    for thread in threads:
        thread.start()
    out = np.zeros(200, np.float32)
    with pytest.raises(KeyboardInterrupt):
        mine.allreduce(values(0, 1), out=out)
    left = out.copy()
    interrupted.set()
    assert np.array_equal(mine.allreduce(values(0, 2)), sum_of(2))
    for thread in threads:
        thread.join()
    assert np.array_equal(out, left), "an interrupted call writes into the caller's array"
    for rank in (1, 2, 3):
        assert np.array_equal(results[rank], sum_of(1))
        assert np.array_equal(results[rank, "next"], sum_of(2))
