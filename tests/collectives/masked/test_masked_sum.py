"""Masked sums of a communicator, whoever dies, whenever: no round is lost, and all agree on it."""

from __future__ import annotations

import threading
from collections.abc import Collection
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from innet.collectives.masked import MaskedSum, MaskedTotal
from innet.errors import CollectiveError, MismatchError, SecurityError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.collectives.masked.dying_ranks import Death, Died, World

NODES = ("h0", "h1", "h2", "h3", "h4")
THRESHOLD = 3
ROUNDS = 2
CALLS = 6  # of a round: publish and five exchanges; at last a barrier


def values_of(node: str, number: int) -> np.ndarray:
    return np.full(6, (NODES.index(node) + 1) * 10**number)


def two_rounds(comm: Any) -> list[MaskedTotal]:
    node = comm.nodes[comm.rank]
    results = []
    with MaskedSum(comm, limit=1000, threshold=THRESHOLD) as sums:
        for number in range(ROUNDS):
            result = sums.allreduce(values_of(node, number))
            results.append(MaskedTotal(result.total.copy(), result.contributors))
            result.total.fill(-1)  # as a caller may
    return results


def require_agreement(results: dict[str, Any], dead: Collection[str]) -> None:
    """All that are left have the same sums, of whom they say."""
    left = [results[node] for node in NODES if node not in dead]
    for number in range(ROUNDS):
        first = left[0][number]
        assert {result[number].contributors for result in left} == {first.contributors}
        expected = np.add.reduce([values_of(node, number) for node in first.contributors])
        for result in left:
            assert (result[number].total == expected).all()
        assert set(first.contributors) >= set(NODES) - set(dead)


MOMENTS = [
    pytest.param(call, speaks, heard_by, id=f"call{call}-{'after' if speaks else 'before'}-{who}")
    for call, (speaks, who, heard_by) in product(
        range(CALLS * ROUNDS + 1),
        [
            (False, "nobody", ()),
            (True, "nobody", ()),
            (True, "one", ("h3",)),
            (True, "all", NODES),
        ],
    )
]


@pytest.mark.parametrize(("call", "speaks", "heard_by"), MOMENTS)
def test_a_rank_that_dies_does_not_lose_the_round(call, speaks, heard_by):
    world = World(NODES, [Death("h1", call, speaks, heard_by)])
    results = world.run(two_rounds)
    assert isinstance(results["h1"], Died)
    require_agreement(results, {"h1"})


@st.composite
def deaths(draw: st.DrawFn) -> list[Death]:
    """Two ranks die, at any of their calls, recovery's among them; any of the others hear."""
    some = st.sets(st.sampled_from(NODES))
    return [
        Death(node, draw(st.integers(0, 20)), draw(st.booleans()), draw(some))
        for node in draw(st.permutations(NODES))[:2]
    ]


@settings(max_examples=50, deadline=None)
@example([Death("h1", 2, True, ("h3",)), Death("h3", 4, True, ("h0",))])
@given(deaths())
def test_two_deaths_one_of_them_during_recovery_do_not_lose_the_round(dying):
    results = World(NODES, dying).run(two_rounds)
    require_agreement(results, {node for node in NODES if isinstance(results[node], Died)})


def test_nothing_is_unmasked_when_fewer_ranks_than_the_threshold_remain():
    deaths = [Death(node, 3, speaks=False) for node in ("h0", "h1", "h2")]
    results = World(NODES, deaths).run(two_rounds)
    for node in ("h3", "h4"):
        assert isinstance(results[node], SecurityError)
        assert "threshold is 3" in str(results[node])
        assert "so 2 of 5 ranks may die. Start more ranks" in str(results[node])


def test_the_error_of_a_lost_round_states_how_many_deaths_it_tolerates_and_how_to_change_that():
    """Of three ranks none may die by default."""

    def program(comm: Any) -> Any:
        return MaskedSum(comm).allreduce([1])

    results = World(NODES[:3], [Death("h2", 2)]).run(program)
    for node in ("h0", "h1"):
        assert isinstance(results[node], SecurityError)
        assert "so none of 3 ranks may die" in str(results[node])
        assert "MaskedSum a threshold= of at least 2" in str(results[node])


def two_side_by_side(comm: Any) -> list[MaskedTotal]:
    """Sums of two objects in turns, with another one made and closed between them."""
    node = comm.nodes[comm.rank]
    coarse = MaskedSum(comm, limit=1000, threshold=THRESHOLD)
    fine = MaskedSum(comm, limit=10, threshold=THRESHOLD)
    results = [coarse.allreduce(values_of(node, 0))]
    with MaskedSum(coarse.communicator, limit=1000, threshold=THRESHOLD) as short:
        results.append(short.allreduce(values_of(node, 1)))
    results.append(fine.allreduce(values_of(node, 0) / 10))
    results.append(coarse.allreduce(values_of(node, 0)))
    fine.close()
    coarse.close()
    assert fine.communicator is coarse.communicator
    return results


@settings(max_examples=40, deadline=None)
@example([])
@given(deaths())
def test_two_concurrent_masked_sums_survive_any_deaths(dying):
    results = World(NODES, dying).run(two_side_by_side)
    left = [results[node] for node in NODES if not isinstance(results[node], Died)]
    for place, (number, divisor) in enumerate([(0, 1), (1, 1), (0, 10), (0, 1)]):
        (contributors,) = {result[place].contributors for result in left}
        expected = np.add.reduce([values_of(node, number) for node in contributors]) / divisor
        for result in left:
            assert np.abs(result[place].total - expected).max() < 1e-6


def test_two_concurrent_masked_sums_over_a_network():
    def program(comm: Any) -> list[float]:
        first, second = MaskedSum(comm, limit=10.0), MaskedSum(comm, limit=1000)
        sums = [first.allreduce(np.ones(3)), second.allreduce([comm.rank]), first.allreduce([0.5])]
        second.close()
        first.close()
        with MaskedSum(comm, limit=10.0) as third:
            sums.append(third.allreduce([2.0]))
        return [float(result.total[0]) for result in sums]

    with Cluster(load_topology("star:3")) as cluster:
        assert cluster.run(program) == [[3.0, 3.0, 1.5, 6.0]] * 3


CANNOT_BE_ADDED = [
    pytest.param([2.0, 0.0], "magnitude 2 is beyond limit=1", id="limit"),
    pytest.param([np.nan, 0.0], "is beyond limit=1", id="NaN"),
    pytest.param(["a", "b"], "have no masked sum", id="type"),
    pytest.param([[1.0], [1.0, 2.0]], "shape", id="ragged"),
]


@pytest.mark.parametrize(("bad", "cause"), CANNOT_BE_ADDED)
def test_an_invalid_input_of_one_rank_fails_on_all_and_the_next_sum_is_right(bad, cause):
    """The error names the rank and the cause, and nobody waits for a deadline."""

    def program(comm: Any) -> tuple[str, list[float], float]:
        sums = MaskedSum(comm, limit=1.0)
        with pytest.raises((CollectiveError, ValueError)) as failed:
            sums.allreduce(bad if comm.rank == 1 else [0.25, 0.5])
        sums.close()
        total = sums.allreduce([0.25, 0.5]).total
        return str(failed.value), list(total), float(comm.allreduce(np.ones(1))[0])

    with Cluster(load_topology("star:3"), timeout_s=600) as cluster:
        results = cluster.run(program)
    for rank, (told, masked, plain) in enumerate(results):
        assert cause in told
        assert rank == 1 or told.startswith("rank 1 (h1) takes no part in a masked sum: ")
        assert (masked, plain) == ([0.75, 1.5], 3.0)


def test_a_refusal_reaches_the_other_ranks_while_one_is_late():
    """Rank 1 comes only when ranks 0 and 2 have their error; the next sum is right on all."""
    told_the_others = threading.Barrier(3)

    def program(comm: Any) -> tuple[str, float]:
        sums = MaskedSum(comm, limit=1.0)
        if comm.rank == 1:
            told_the_others.wait(60)
        with pytest.raises(CollectiveError) as failed:
            sums.allreduce([2.0 if comm.rank == 2 else 0.5])
        if comm.rank != 1:
            told_the_others.wait(60)
        return str(failed.value), float(sums.allreduce([0.5]).total[0])

    with Cluster(load_topology("star:3"), timeout_s=600) as cluster:
        results = cluster.run(program)
    for told, total in results:
        assert "magnitude 2 is beyond limit=1" in told
        assert total == 1.5


def test_different_arguments_raise_on_all_ranks_and_are_named():
    def program(comm: Any) -> tuple[str, list[float]]:
        sums = MaskedSum(comm, limit=1.0 if comm.rank else 2.0)
        with pytest.raises(MismatchError) as failed:
            sums.allreduce(np.ones(2 + comm.rank // 2, np.float32))
        return str(failed.value), list(MaskedSum(comm, limit=4.0).allreduce([comm.rank]).total)

    with Cluster(load_topology("star:3"), timeout_s=600) as cluster:
        results = cluster.run(program)
    assert {tuple(total) for _, total in results} == {(3.0,)}
    (told,) = {told for told, _ in results}
    assert "rank 0: sum 0 of float32 of shape (2,), limit=2.0" in told
    assert "rank 2: sum 0 of float32 of shape (3,), limit=1.0" in told


@st.composite
def failing_calls(draw: st.DrawFn) -> dict[str, set[int]]:
    """For each node, which of its calls have a value beyond the limit."""
    return {node: draw(st.sets(st.integers(0, 3), max_size=2)) for node in NODES}


@settings(max_examples=60, deadline=None)
@example(
    {node: {2} if node == "h4" else set() for node in NODES}, [Death("h0", 15), Death("h1", 1)]
)
@given(failing_calls(), deaths())
def test_no_rank_gets_a_wrong_sum_whichever_calls_fail_and_ranks_die(failing, dying):
    def program(comm: Any) -> list[MaskedTotal | str]:
        node = comm.nodes[comm.rank]
        results: list[MaskedTotal | str] = []
        with MaskedSum(comm, limit=1000, threshold=THRESHOLD) as sums:
            for number in range(4):
                values = values_of(node, number % 2)
                try:
                    results.append(
                        sums.allreduce(values * 10**6 if number in failing[node] else values)
                    )
                except CollectiveError as error:
                    results.append(str(error))
        return results

    results = World(NODES, dying).run(program)
    left = {node: result for node, result in results.items() if not isinstance(result, Died)}
    for number in range(4):
        failed = {node for node in NODES if number in failing[node]}
        got = {node: result[number] for node, result in left.items()}
        if any(isinstance(result, str) for result in got.values()):
            assert all(isinstance(result, str) for result in got.values())
            assert failed
            continue
        assert not failed & set(left)
        (contributors,) = {result.contributors for result in got.values()}
        expected = np.add.reduce([values_of(node, number % 2) for node in contributors])
        assert all((result.total == expected).all() for result in got.values())


@pytest.mark.parametrize("threshold", [0, 1, 2, 6])
def test_thresholds_below_a_majority_are_refused(threshold):
    result = World(NODES, []).run(lambda comm: MaskedSum(comm, threshold=threshold))  # type: ignore[arg-type]
    for error in result.values():
        assert isinstance(error, CollectiveError)
        assert "Give MaskedSum a threshold of 3 to 5" in str(error)
        assert "5 - t ranks may die" in str(error)


def test_the_switch_sees_no_values_of_a_rank_and_all_ranks_get_the_sum():
    arrays = [
        np.random.default_rng(rank).normal(size=(2, 700)).astype(np.float32) for rank in range(3)
    ]
    seen = bytearray()

    def overhear(datagram: bytes) -> list[bytes]:
        seen.extend(datagram)
        return [datagram]

    taps = {("h1", "s0"): overhear}
    with Cluster(load_topology("star:3"), tamper=taps) as cluster:
        results = cluster.run(lambda comm: MaskedSum(comm, limit=8.0).allreduce(arrays[comm.rank]))
        adds = cluster.status("s0")["reducer"]["reductions_completed"]
    for result in results:
        assert result.total.shape == (2, 700)
        assert (result.total == results[0].total).all()
        assert np.abs(result.total - np.add.reduce(arrays)).max() < 1e-6
        assert result.contributors == ("h0", "h1", "h2")
    assert adds > 0
    assert arrays[1].tobytes()[:16] not in seen
