"""A call that fails on one rank is an error for all who need it, and the next call is right."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import innet
from innet.collectives.call_sequence import CallSequence
from innet.errors import (
    CollectiveError,
    InnetError,
    MismatchError,
    PeerError,
    RankFailed,
    ReductionOverflow,
)

SEGMENT_BYTES = 512
RANKS = 4
ELEMENTS = 200
_BEGIN = (inspect.unwrap(CallSequence.call).__code__, CallSequence.take_single.__code__)
"""Yield or return once the call has its numbers."""

HUGE = np.array([2**62, 2**62, 2**62], np.int64)
EVERY_ALGORITHM = ["inc", "ring", "halving-doubling", "ps"]

Call = Callable[[Any, int], Any]
"""What a rank does in a step: the communicator, the step."""


def values(rank: int, step: int) -> np.ndarray:
    return np.arange(ELEMENTS, dtype=np.float32) + 10 * rank + 1000 * step


def sum_of(step: int) -> np.ndarray:
    total: np.ndarray = np.add.reduce([values(rank, step) for rank in range(RANKS)])
    return total


def read_only() -> np.ndarray:
    array = np.zeros(ELEMENTS, np.float32)
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Collective:
    """One to try.

    Attributes:
        call: as it should be called.
        expected: what ``(rank, step)`` gets of it.
        failing: ways to call it that fail before they contribute.
        needs: whether ``rank`` needs what ``failed`` contributes.
    """

    call: Call
    expected: Callable[[int, int], Any]
    failing: Sequence[Call]
    needs: Callable[[int, int], bool] = lambda rank, failed: True


def from_root(rank: int, failed: int) -> bool:
    return failed == 1


def to_root(rank: int, failed: int) -> bool:
    return rank == 1


def scatter(comm: Any, step: int) -> np.ndarray:
    rows = np.stack([values(rank, step) for rank in range(RANKS)])
    out = np.empty((1, ELEMENTS), np.float32)
    row: np.ndarray = comm.scatter(rows if comm.rank == 1 else None, root=1, out=out)
    return row


def pairs(rank: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys in part those of other ranks, and their values."""
    keys = np.arange(rank, rank + 50, dtype=np.int64)
    return keys, np.full(50, step + 1, np.int64)


def united(step: int) -> np.ndarray:
    vector = np.zeros(100, np.int64)
    for rank in range(RANKS):
        keys, numbers = pairs(rank, step)
        vector[keys] += numbers
    return vector


def by_key(comm: Any, step: int) -> np.ndarray:
    keys, numbers = comm.reduce_by_key(*pairs(comm.rank, step))
    vector = np.zeros(100, np.int64)
    vector[keys] = numbers
    return vector


def partial(comm: Any, step: int, **how: Any) -> np.ndarray:
    policy = how.pop("policy", innet.KOfN(RANKS))
    array = how.pop("array", values(comm.rank, step))
    total: np.ndarray = comm.allreduce_of(array, policy, **how).total
    return total


COLLECTIVES = {
    "allreduce": Collective(
        lambda comm, step: comm.allreduce(values(comm.rank, step)),
        lambda rank, step: sum_of(step),
        [
            lambda comm, step: comm.allreduce(values(0, step), op="median"),
            lambda comm, step: comm.allreduce([1.0, 2.0]),
            lambda comm, step: comm.allreduce(np.array(["a"], object)),
            lambda comm, step: comm.allreduce(values(0, step), out=read_only()),
            lambda comm, step: comm.allreduce(values(0, step), out=np.empty(3)),
        ],
    ),
    "allreduce_q8": Collective(
        lambda comm, step: comm.allreduce_q8(np.full(64, 127.0, np.float32)),
        lambda rank, step: np.full(64, 127.0 * RANKS),
        [
            lambda comm, step: comm.allreduce_q8(np.ones(64)),
            lambda comm, step: comm.allreduce_q8(np.ones(64, np.float32), lost=np.ones(3)),
        ],
    ),
    "reduce": Collective(
        lambda comm, step: comm.reduce(values(comm.rank, step), root=1),
        lambda rank, step: sum_of(step) if rank == 1 else None,
        [
            lambda comm, step: comm.reduce(values(0, step), root=RANKS),
            lambda comm, step: comm.reduce(values(0, step), root=1, op="median"),
        ],
        to_root,
    ),
    "reduce_scatter": Collective(
        lambda comm, step: comm.reduce_scatter(values(comm.rank, step)),
        lambda rank, step: np.split(sum_of(step), RANKS)[rank],
        [lambda comm, step: comm.reduce_scatter(np.ones(RANKS + 1, np.float32))],
    ),
    "allgather": Collective(
        lambda comm, step: comm.allgather(values(comm.rank, step)),
        lambda rank, step: np.stack([values(peer, step) for peer in range(RANKS)]),
        [lambda comm, step: comm.allgather(values(0, step), out=read_only())],
    ),
    "broadcast": Collective(
        lambda comm, step: comm.broadcast(values(comm.rank, step), root=1),
        lambda rank, step: values(1, step),
        [
            lambda comm, step: comm.broadcast(np.array([None]), root=1),
            lambda comm, step: comm.broadcast(values(0, step), root=-1),
        ],
        from_root,
    ),
    "gather": Collective(
        lambda comm, step: comm.gather(values(comm.rank, step), root=1),
        lambda rank, step: (
            np.stack([values(peer, step) for peer in range(RANKS)]) if rank == 1 else None
        ),
        [lambda comm, step: comm.gather(np.array([None]), root=1)],
        to_root,
    ),
    "scatter": Collective(
        scatter,
        lambda rank, step: values(rank, step)[None],
        [lambda comm, step: comm.scatter(None, root=1)],
        from_root,
    ),
    "alltoall": Collective(
        lambda comm, step: comm.alltoall(values(comm.rank, step)),
        lambda rank, step: np.concatenate(
            [np.split(values(peer, step), RANKS)[rank] for peer in range(RANKS)]
        ),
        [lambda comm, step: comm.alltoall(np.ones(RANKS + 1, np.float32))],
    ),
    "barrier": Collective(
        lambda comm, step: comm.barrier(),
        lambda rank, step: None,
        [lambda comm, step: comm.ibarrier(timeout_s=-1.0).wait()],
    ),
    "reduce_by_key": Collective(
        by_key,
        lambda rank, step: united(step),
        [
            lambda comm, step: comm.reduce_by_key(np.zeros(3, np.int64), HUGE),
            lambda comm, step: comm.reduce_by_key(np.array([-1]), np.ones(1)),
            lambda comm, step: comm.reduce_by_key(np.array([1]), np.ones(1), root=RANKS),
        ],
    ),
    "allreduce_sparse": Collective(
        lambda comm, step: comm.allreduce_sparse(*pairs(comm.rank, step), 100),
        lambda rank, step: united(step),
        [
            lambda comm, step: comm.allreduce_sparse(np.array([100]), np.ones(1, np.int64), 100),
            lambda comm, step: comm.allreduce_sparse(np.zeros(3, np.int64), HUGE, 100),
        ],
    ),
    "allreduce_blocks": Collective(
        lambda comm, step: comm.allreduce_blocks(values(comm.rank, step)),
        lambda rank, step: sum_of(step),
        [
            lambda comm, step: comm.allreduce_blocks(np.ones(64)),
            lambda comm, step: comm.allreduce_blocks(values(0, step), out=read_only()),
        ],
    ),
    "allreduce_of": Collective(
        partial,
        lambda rank, step: sum_of(step),
        [
            lambda comm, step: partial(comm, step, policy=innet.KOfN(RANKS + 1)),
            lambda comm, step: partial(comm, step, op="median"),
            lambda comm, step: partial(comm, step, array=HUGE, late=HUGE.copy()),
        ],
    ),
    "collective": Collective(
        lambda comm, step: comm.allreduce(values(comm.rank, step)),
        lambda rank, step: sum_of(step),
        [lambda comm, step: prepared_badly(comm)],
    ),
}


def prepared_badly(comm: Any) -> None:
    with comm.collective("logarithms"):
        comm.allreduce(np.array([int("a")]))


def interrupted(call: Call, line: int) -> Call:
    """``call`` with a KeyboardInterrupt at a line of it, as Python would raise Ctrl-C's."""

    def interrupt(comm: Any, step: int) -> Any:
        left, begun = line, False

        def trace(frame: Any, event: str, _argument: Any) -> Any:
            nonlocal left, begun
            if "innet/collectives" not in frame.f_code.co_filename:
                return None
            if frame.f_code.co_name == "__del__":
                return None  # Python drops what a finalizer raises: the call would go on
            # Before the call has its number, an interrupt may as well have come before the call.
            begun = begun or (event == "return" and frame.f_code in _BEGIN)
            if event == "line" and begun:
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            return call(comm, step)
        finally:
            sys.settrace(None)

    return interrupt


def outcome(call: Call, comm: Any, step: int) -> Any:
    try:
        return call(comm, step)
    except (InnetError, KeyboardInterrupt, ValueError) as error:
        return error


def is_right(result: Any, expected: Any) -> bool:
    if expected is None or result is None:
        return result is expected
    return isinstance(result, np.ndarray) and np.array_equal(result, expected)


def assert_nobody_was_misled(
    results: Sequence[Any], collective: Collective, failed: int, step: int, *, surely: bool = True
) -> None:
    """Who needs the failed rank has an error that names it; the others have what is due.

    Unless ``surely``, it may have failed after it had contributed: then all is due.
    """
    contributed = not surely and any(
        not isinstance(result, BaseException) and collective.needs(rank, failed)
        for rank, result in enumerate(results)
        if rank != failed
    )
    for rank, result in enumerate(results):
        if rank == failed:
            continue
        if collective.needs(rank, failed) and not contributed:
            assert isinstance(result, CollectiveError), f"rank {rank}: {result!r}"
            assert f"rank {failed} (h" in str(result), f"rank {rank}: {result}"
        else:
            assert is_right(result, collective.expected(rank, step)), f"rank {rank}: {result!r}"


failures = st.lists(
    st.tuples(
        st.sampled_from(sorted(COLLECTIVES)),
        st.integers(0, RANKS - 1),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(failures=failures)
def test_failed_calls_mislead_no_rank(cluster_of, algorithm, failures):
    """Each step fails on one rank; every rank goes on with the next one and with a sum."""
    cluster = cluster_of(algorithm)

    def program(comm):
        results = []
        for step, (name, failed, way) in enumerate(failures):
            collective = COLLECTIVES[name]
            call = collective.call
            if comm.rank == failed:
                call = collective.failing[way % len(collective.failing)]
            results.append(outcome(call, comm, step))
            results.append(comm.allreduce(values(comm.rank, step)))
        return results

    by_rank = cluster.run(program)
    for step, (name, failed, _) in enumerate(failures):
        results, sums = ([rank_has[2 * step + i] for rank_has in by_rank] for i in range(2))
        assert isinstance(results[failed], (InnetError, ValueError))
        assert_nobody_was_misled(results, COLLECTIVES[name], failed, step)
        assert all(is_right(total, sum_of(step)) for total in sums)


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller line number says no more
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(sorted(COLLECTIVES)),
    failed=st.integers(0, RANKS - 1),
    line=st.integers(1, 120),
)
def test_an_interrupted_call_misleads_no_rank(cluster_of, algorithm, name, failed, line):
    collective = COLLECTIVES[name]

    def program(comm):
        call = collective.call
        if comm.rank == failed:
            call = interrupted(call, line)
        return (
            outcome(call, comm, 0),
            outcome(collective.call, comm, 1),
            comm.allreduce(values(comm.rank, 2)),
        )

    first, second, third = zip(*cluster_of(algorithm).run(program), strict=True)
    assert_nobody_was_misled(first, collective, failed, 0, surely=False)
    for rank in range(RANKS):
        assert is_right(second[rank], collective.expected(rank, 1)), second[rank]
        assert is_right(third[rank], sum_of(2))


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_an_overflow_in_the_pairs_of_one_rank_raises_on_every_rank(cluster_of, algorithm):
    def program(comm):
        numbers = HUGE if comm.rank == 0 else np.ones(3, np.int64)
        overflow = outcome(lambda c, _: c.reduce_by_key(np.zeros(3, np.int64), numbers), comm, 0)
        return overflow, comm.reduce_by_key(np.array([5]), np.array([comm.rank + 1]))

    for overflow, (keys, sums) in cluster_of(algorithm).run(program):
        assert isinstance(overflow, ReductionOverflow)
        assert keys.tolist() == [5]
        assert sums.tolist() == [1 + 2 + 3 + 4]


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_sparse_vectors_of_different_sizes_are_a_mismatch_on_every_rank(cluster_of, algorithm):
    def program(comm):
        size = 200 if comm.rank == 2 else 100
        differing = outcome(
            lambda c, _: c.allreduce_sparse(np.array([size - 1]), np.ones(1), size), comm, 0
        )
        return differing, comm.allreduce_sparse(np.array([comm.rank]), np.ones(1), RANKS)

    for differing, alike in cluster_of(algorithm).run(program):
        assert isinstance(differing, MismatchError)
        assert "100" in str(differing)
        assert "200" in str(differing)
        assert alike.tolist() == [1.0] * RANKS


def test_a_failed_round_leaves_the_late_contribution_unchanged(cluster_of):
    """Rank 1's own contribution overflows; the others had taken theirs from what was late."""

    def program(comm):
        late = np.full(3, 2**62 if comm.rank == 1 else comm.rank, np.int64)
        mine = np.full(3, 2**62 if comm.rank == 1 else 10, np.int64)
        before = late.copy()
        policy = innet.KOfN(RANKS)
        failed = outcome(lambda c, _: c.allreduce_of(mine, policy, late=late), comm, 0)
        unchanged = np.array_equal(late, before)
        late[...] = comm.rank
        total = comm.allreduce_of(np.ones(3, np.int64), policy, late=late).total
        return failed, unchanged, total, late

    for failed, unchanged, total, late in cluster_of("inc").run(program):
        assert isinstance(failed, ReductionOverflow)
        assert unchanged
        assert total.tolist() == [RANKS + 0 + 1 + 2 + 3] * 3
        assert late.tolist() == [0, 0, 0]


def test_a_block_that_fails_before_its_round_still_counts_as_a_round(cluster_of):
    """Without a place, rank 1 would be one round behind from then on, and in none of them."""

    def preparing(comm, step):
        with comm.collective("prepared", numbers=2, synchronising=False, rounds=1):
            if step == 0 and comm.rank == 1:
                raise ValueError("damaged")
            return partial(comm, step)

    def program(comm):
        return outcome(preparing, comm, 0), [partial(comm, step) for step in (1, 2)]

    for rank, (failed, totals) in enumerate(cluster_of("inc").run(program)):
        assert isinstance(failed, ValueError if rank == 1 else PeerError), failed
        for step, total in enumerate(totals, start=1):
            assert np.array_equal(total, sum_of(step))


def test_the_receive_of_a_failed_send_fails_and_later_messages_match(cluster_of):
    def program(comm):
        if comm.rank == 0:
            refused = outcome(lambda c, _: c.send(np.array([None]), to=1), comm, 0)
            comm.send(np.array([7.0]), to=1)
            return refused, None
        if comm.rank == 1:
            return tuple(outcome(lambda c, _: c.recv(np.empty(1), source=0), comm, 0) for _ in "ab")
        return None, None

    (refused, _), (first, second), *_ = cluster_of("inc").run(program)
    assert isinstance(refused, CollectiveError)
    assert isinstance(first, PeerError)
    assert first.rank == 0
    assert "rank 0 (h0): send(to=1, tag=0) failed" in str(first)
    assert second.tolist() == [7.0]


def test_the_message_of_a_failed_receive_is_not_delivered_to_the_next(cluster_of):
    def program(comm):
        if comm.rank == 0:
            for number in (1.0, 2.0):
                comm.send(np.array([number]), to=1)
            return None
        if comm.rank == 1:
            refused = outcome(lambda c, _: c.recv(read_only(), source=0), comm, 0)
            return refused, comm.recv(np.empty(1), source=0)
        return None

    _, (refused, received), *_ = cluster_of("inc").run(program)
    assert isinstance(refused, CollectiveError)
    assert received.tolist() == [2.0]


def test_a_block_fails_all_the_calls_that_it_has_not_made(cluster_of):
    def program(comm):
        def both():
            with comm.collective("two sums", numbers=2):
                first = comm.allreduce(values(comm.rank, 0))
                if comm.rank == 3:
                    raise ValueError("no second part")
                return first + comm.allreduce(values(comm.rank, 1))

        return outcome(lambda c, _: both(), comm, 0), comm.allreduce(values(comm.rank, 2))

    for rank, (ended, total) in enumerate(cluster_of("inc").run(program)):
        assert isinstance(ended, ValueError if rank == 3 else PeerError)
        assert "no second part" in str(ended)
        assert is_right(total, sum_of(2))


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("fails_after", range(3))
def test_a_block_with_broadcasts_fails_wherever_the_group_synchronises(
    cluster_of, before, fails_after
):
    """After every so many broadcasts a barrier takes a number, on all ranks at the same place."""

    def program(comm):
        def block():
            with comm.collective("spread, spread and add", numbers=3):
                for made in range(2):
                    if comm.rank == 3 and made == fails_after:
                        raise ValueError("nothing to spread")
                    comm.broadcast(values(0, 0))
                if comm.rank == 3:
                    raise ValueError("nothing to add")
                return comm.allreduce(values(comm.rank, 0))

        for _ in range(before):
            comm.broadcast(values(0, 0))
        failed = outcome(lambda c, _: block(), comm, 0)
        return failed, [comm.allreduce(values(comm.rank, step)) for step in range(4)]

    for rank, (failed, totals) in enumerate(cluster_of("inc").run(program)):
        assert isinstance(failed, ValueError if rank == 3 else PeerError)
        assert all(is_right(total, sum_of(step)) for step, total in enumerate(totals))


def test_a_block_that_fails_because_of_a_dead_rank_reports_that_rank(cluster_of):
    """They recover from a death, not from a failed call, whoever heard of it first."""

    def program(comm):
        try:
            with comm.collective("steps", numbers=2):
                if comm.rank == 0:
                    why = "rank 3 (h3) has died"
                    raise RankFailed(why, operation="allreduce()", seq=0, rank=3)
                comm.allreduce(values(comm.rank, 0))
        except RankFailed as error:
            died = error.rank
        return died, is_right(comm.allreduce(values(comm.rank, 1)), sum_of(1))

    assert cluster_of("inc").run(program) == [(3, True)] * RANKS


def test_a_block_that_makes_fewer_calls_on_one_rank_is_an_error_on_the_others(cluster_of):
    """And the next call is right: the block has used the same numbers on all ranks."""

    def program(comm):
        error = None
        try:
            with comm.collective("steps", numbers=3):
                comm.barrier()
                if comm.rank != 1:
                    comm.barrier()
        except PeerError as told:
            error = str(told)
        return error, is_right(comm.allreduce(values(comm.rank, 1)), sum_of(1))

    for rank, (error, right) in enumerate(cluster_of("inc").run(program)):
        assert right
        assert (error is None) == (rank == 1)
        assert error is None or "rank 1 (h1): steps" in error
