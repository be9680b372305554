"""Sums without the last ranks: one set and one value for all, and nothing lost or counted twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import innet
from innet.errors import CollectiveError, MismatchError, ReductionOverflow
from innet.plans import Plan, evaluate_allreduce
from innet.plans.reference import reduce_operands

SEGMENT_BYTES = 256
RANKS = 4
ELEMENTS = 150
PATIENT = innet.KOfN(RANKS)


def contribution(rank: int, step: int, dtype: type) -> np.ndarray:
    """Sums of these depend on the order of adding, unless they are integers."""
    random = np.random.default_rng((rank, step))
    numbers = random.standard_normal(ELEMENTS) * 10.0 ** random.integers(-3, 4, ELEMENTS)
    return numbers.astype(dtype)


def expected_totals(
    plan: Plan, sets: Sequence[Sequence[int]], dtype: type
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The total of each step, and what is left out of each rank's at the end."""
    late: list[np.ndarray] = [np.zeros(ELEMENTS, dtype) for _ in range(RANKS)]
    totals = []
    for step, members in enumerate(sets):
        given_by = [
            reduce_operands([late[rank], contribution(rank, step, dtype)], "sum")
            for rank in range(RANKS)
        ]
        element_bytes = np.dtype(dtype).itemsize
        totals.append(
            evaluate_allreduce(plan, given_by, "sum", SEGMENT_BYTES // element_bytes, members)
        )
        late = [
            np.zeros(ELEMENTS, dtype) if rank in members else given_by[rank]
            for rank in range(RANKS)
        ]
    return totals, late


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pauses_ms=st.lists(
        st.lists(st.sampled_from([0, 0, 0, 1, 4, 12]), min_size=6, max_size=6),
        min_size=RANKS,
        max_size=RANKS,
    ),
    k=st.integers(1, RANKS),
    deadline_ms=st.sampled_from([0, 0, 2]),
    dtype=st.sampled_from([np.float32, np.int64, np.float16]),
)
def test_all_ranks_get_the_same_sets_and_bits_and_no_contribution_is_lost(
    cluster_of, algorithm, pauses_ms, k, deadline_ms, dtype
):
    cluster = cluster_of(algorithm)
    policy = innet.KOfN(k, deadline_ms / 1000)

    def train(comm):
        late = np.zeros(ELEMENTS, dtype)
        parts = []
        for step, pause_ms in enumerate(pauses_ms[comm.rank]):
            time.sleep(pause_ms / 1000)  # how long this rank computes
            parts.append(comm.allreduce_of(contribution(comm.rank, step, dtype), policy, late=late))
        return parts, late

    results = cluster.run(train)
    parts_of = [parts for parts, _ in results]
    sets = [part.contributors for part in parts_of[0]]
    assert all(len(members) >= k for members in sets)
    totals, late = expected_totals(cluster.plan, sets, dtype)
    for rank, (parts, left_out) in enumerate(results):
        for step, part in enumerate(parts):
            assert part.contributors == sets[step]
            assert part.included == (rank in part.contributors)
            assert part.total.tobytes() == totals[step].tobytes()
        assert left_out.tobytes() == late[rank].tobytes()
    if dtype is np.int64:
        steps = range(len(pauses_ms[0]))
        everything = sum(contribution(r, s, dtype) for r in range(RANKS) for s in steps)
        applied = sum(part.total for part in parts_of[0]) + sum(left for _, left in results)
        assert (applied == everything).all()


@pytest.mark.parametrize("straggler", range(RANKS))
def test_a_rank_that_calls_after_the_end_gets_the_same_result(cluster_of, straggler):
    """Also the rank whose host decides: its program takes no part in that."""
    ended = threading.Barrier(RANKS)

    def program(comm):
        policy = innet.KOfN(RANKS - 1)
        parts = [comm.allreduce_of(np.ones(ELEMENTS, np.float32), PATIENT)]
        if comm.rank == straggler:
            ended.wait(timeout=240)
        parts += [comm.allreduce_of(np.full(ELEMENTS, 1 + comm.rank), policy) for _ in range(2)]
        if comm.rank != straggler:
            ended.wait(timeout=240)
        parts.append(comm.allreduce_of(np.ones(ELEMENTS, np.float32), PATIENT))
        return parts

    others = tuple(rank for rank in range(RANKS) if rank != straggler)
    for parts in cluster_of("inc").run(program):
        assert [part.contributors for part in parts] == [(0, 1, 2, 3), others, others, (0, 1, 2, 3)]
        assert (parts[1].total == sum(1 + rank for rank in others)).all()
        assert parts[1].mean()[0] == sum(1 + rank for rank in others) / 3


def test_a_contribution_offered_until_it_is_included_counts_once(cluster_of):
    """Backup workers that catch up: ranks call as often as there are rounds, and compute less."""
    rounds = 12

    def train(comm):
        applied, computed, number = [], 0, 0
        while number < rounds:
            time.sleep(0.02 if comm.rank == 3 else 0.002)
            mine = np.array([10**6 * comm.rank + computed])
            computed += 1
            included = False
            while not included and number < rounds:
                part = comm.allreduce_of(mine, innet.KOfN(3, 0.001))
                applied.append((part.contributors, int(part.total[0])))
                included, number = part.included, number + 1
        return applied, computed, included

    results = cluster_of("inc").run(train)
    for applied, computed, _included in results:
        assert applied == results[0][0]
        assert computed <= rounds
    given_by = [
        [10**6 * rank + i for i in range(computed if included else computed - 1)]
        for rank, (_, computed, included) in enumerate(results)
    ]
    assert sum(total for _, total in results[0][0]) == sum(map(sum, given_by))


def test_many_rounds_in_flight_beside_other_collectives(cluster_of):
    def program(comm):
        ones = np.ones(ELEMENTS, np.float32)
        works = []
        for _ in range(5):
            works.append(comm.iallreduce_of(ones, PATIENT))
            works.append(comm.iallreduce(ones))
            works.append(comm.iallreduce_of(ones, innet.KOfN(1), "max"))
        return [work.wait() for work in works]

    for results in cluster_of("halving-doubling").run(program):
        assert all((part.total == RANKS).all() for part in results[::3])
        assert all((total == RANKS).all() for total in results[1::3])
        assert all((part.total == 1).all() for part in results[2::3])


def test_different_arguments_raise_mismatch_errors(cluster_of):
    def policies(comm):
        comm.allreduce_of(np.ones(3), innet.KOfN(3 + comm.rank % 2, 60.0))

    def types(comm):
        comm.allreduce_of(np.ones(3, np.float32 if comm.rank else np.float64), PATIENT)

    for program, words in ((policies, "different policies"), (types, "sum.f")):
        errors = cluster_of("inc").run(program)
        assert all(isinstance(error, MismatchError) for error in errors), errors
        assert all(words in str(error) for error in errors)


def test_excluded_integers_do_not_overflow(cluster_of):
    ended = threading.Barrier(RANKS)

    def program(comm):
        most = np.full(3, np.iinfo(np.int8).max, np.int8)
        late = np.zeros_like(most)
        comm.allreduce_of(late.copy(), PATIENT, late=late)
        if comm.rank == 1:
            ended.wait(timeout=240)
        for _ in range(2):
            mine = most if comm.rank == 1 else np.zeros_like(most)
            comm.allreduce_of(mine, innet.KOfN(RANKS - 1), late=late)
        if comm.rank != 1:
            ended.wait(timeout=240)

    others = cluster_of("ps").run(program)
    assert isinstance(others.pop(1), ReductionOverflow)
    assert others == [None] * (RANKS - 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c, x: c.allreduce_of(x, innet.KOfN(9)), "more than the 4 ranks"),
        (lambda c, x: innet.KOfN(0), "k must be at least 1"),
        (lambda c, x: innet.KOfN(1, float("nan")), "deadline_s not below 0"),
        (lambda c, x: c.allreduce_of(x, PATIENT, late=np.zeros(4)), "late= must be"),
        (lambda c, x: c.allreduce_of(x, PATIENT, "max", late=x), "fits op='sum'"),
        (lambda c, x: c.allreduce_of(x, PATIENT, out=np.zeros(2)), "out= has shape"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(cluster_of, call, words):
    with pytest.raises(CollectiveError, match=words):
        call(cluster_of("inc").communicators[0], np.zeros(3))
