"""Masked sums of a communicator, whoever dies, whenever: no round is lost, and all agree on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from innet.errors import CollectiveError, SecurityError
from innet.masking import MaskedSum, MaskedTotal
from innet.masking.masked_round import MaskedRound
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.masking.dying_ranks import Death, Died, DyingCommunicator, World

NODES = ("h0", "h1", "h2", "h3", "h4")
THRESHOLD = 3
ROUNDS = 2
CALLS = 4  # of a round: publish, alltoall, allreduce, allgather; a barrier at the end of all


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


Revelation = tuple[tuple[bytes, ...], int, frozenset[int]]
"""An attempt, by what was advertised in it; who has revealed its shares; without which ranks."""


@contextmanager
def revelations() -> Iterator[list[Revelation]]:
    """Notes all shares that ranks reveal, whoever hears them."""
    noted: list[Revelation] = []
    reveal = MaskedRound.reveal

    def noting(part: MaskedRound, dropped: Collection[int]) -> bytes:
        shares = reveal(part, dropped)
        noted.append((tuple(part._advertised), part._rank, frozenset(dropped)))
        return shares

    with patch.object(MaskedRound, "reveal", noting):
        yield noted


def require_a_mask_left_on_each(revealed: list[Revelation]) -> None:
    """Of no rank are there enough shares of both secrets, if all were told to one."""
    for attempt in {attempt for attempt, _, _ in revealed}:
        for owner in range(len(attempt)):
            keys = {who for a, who, without in revealed if a == attempt and owner in without}
            seeds = {who for a, who, without in revealed if a == attempt and owner not in without}
            assert len(keys) < THRESHOLD or len(seeds) < THRESHOLD


@st.composite
def deaths(draw: st.DrawFn) -> list[Death]:
    """Two ranks die, at any of their calls, recovery's among them; any of the others hear."""
    some = st.sets(st.sampled_from(NODES))
    return [
        Death(node, draw(st.integers(0, 16)), draw(st.booleans()), draw(some))
        for node in draw(st.permutations(NODES))[:2]
    ]


@settings(max_examples=50, deadline=None)
@example([Death("h1", 2, True, ("h3",)), Death("h3", 4, True, ("h0",))])
@given(deaths())
def test_two_that_die_one_of_them_in_the_midst_of_recovery_do_not_either(dying):
    with revelations() as revealed:
        results = World(NODES, dying).run(two_rounds)
    require_agreement(results, {node for node in NODES if isinstance(results[node], Died)})
    require_a_mask_left_on_each(revealed)


def test_when_fewer_are_left_than_the_threshold_nothing_is_unmasked():
    deaths = [Death(node, 3, speaks=False) for node in ("h0", "h1", "h2")]
    results = World(NODES, deaths).run(two_rounds)
    for node in ("h3", "h4"):
        assert isinstance(results[node], SecurityError)
        assert "threshold is 3" in str(results[node])


def test_what_cannot_be_added_is_refused_before_anything_is_sent():
    def program(comm: DyingCommunicator) -> None:
        MaskedSum(comm, limit=1.0).allreduce([2.0])  # type: ignore[arg-type]

    world = World(("h0",), [])
    assert isinstance(world.run(program)["h0"], CollectiveError)
    assert world.calls == {"h0": 0}


@pytest.mark.parametrize("threshold", [0, 1, 2, 6])
def test_thresholds_of_no_majority_are_refused(threshold):
    result = World(NODES, []).run(lambda comm: MaskedSum(comm, threshold=threshold))  # type: ignore[arg-type]
    assert all(isinstance(error, CollectiveError) for error in result.values())


def test_over_a_network_the_switch_sees_no_rank_s_values_and_all_get_the_sum():
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
