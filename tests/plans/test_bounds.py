"""Bytes on links and the bounds in time, against the formulas of the textbooks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.plans import bound_s, bytes_per_link, make_plan, textbook_bound_s
from innet.topology import Topology, load_topology

MIB = 1 << 20
RATE_BPS = 1e9


@pytest.mark.parametrize("algorithm", ["inc", "ps", "ring", "halving-doubling"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 32])
def test_the_bound_of_a_star_is_that_of_the_textbook(
    algorithm: str, ranks: int, star: Callable[..., Topology]
) -> None:
    topology = star(ranks)
    walked_s = bound_s(make_plan(algorithm, topology), topology, 16 * MIB)
    assert walked_s == pytest.approx(textbook_bound_s(algorithm, ranks, 16 * MIB, RATE_BPS))


@pytest.mark.parametrize("ranks", [3, 7, 33])
def test_a_ring_of_any_size_has_its_bound(ranks: int, star: Callable[..., Topology]) -> None:
    topology = star(ranks)
    carried = bytes_per_link(make_plan("ring", topology), topology, ranks * MIB)
    down = [carried["s0", host] for host in topology.hosts]
    assert down == pytest.approx([2 * (ranks - 1) * MIB] * ranks)


def test_halving_doubling_needs_the_same_bytes_of_every_host(
    star: Callable[..., Topology],
) -> None:
    topology = star(8)
    carried = bytes_per_link(make_plan("halving-doubling", topology), topology, 8 * MIB)
    # Up: half the tensor, a quarter, an eighth to its partners, then its own block to all at once.
    assert {carried[host, "s0"] for host in topology.hosts} == {(4 + 2 + 1 + 1) * MIB}
    assert {carried["s0", host] for host in topology.hosts} == {(4 + 2 + 1 + 7) * MIB}


def test_the_network_multicasts_the_answer_of_a_parameter_server(
    star: Callable[..., Topology],
) -> None:
    topology = star(8)
    carried = bytes_per_link(make_plan("ps", topology), topology, MIB)
    assert carried["s0", "h0"] == 7 * MIB
    assert carried["h0", "s0"] == MIB


def test_two_spines_halve_the_load_of_each_uplink(leaf_spine: Callable[..., Topology]) -> None:
    topology = leaf_spine(4, 4, 2)
    carried = bytes_per_link(make_plan("inc", topology), topology, MIB)
    assert {carried[f"leaf{i}", f"spine{j}"] for i in range(4) for j in range(2)} == {MIB / 2}
    assert {carried[f"spine{j}", f"leaf{i}"] for i in range(4) for j in range(2)} == {MIB / 2}
    assert {carried[host, f"leaf{int(host[1:]) // 4}"] for host in topology.hosts} == {MIB}


def test_the_slowest_link_determines_the_bound(thin_middle: Topology) -> None:
    plan = make_plan("ps", thin_middle)
    # Four of the server's seven operands come over the middle, at a tenth of the rate.
    assert bound_s(plan, thin_middle, MIB) == pytest.approx(4 * MIB * 8 / (RATE_BPS / 10))


def test_links_without_a_rate_have_no_bound(star: Callable[..., Topology]) -> None:
    topology = star(4).with_overrides(rate_bps=None)
    assert bound_s(make_plan("ring", topology), topology, MIB) == 0.0


@given(st.from_type(Topology), st.integers(1, 100_000))
def test_every_segment_of_every_rank_is_sent_once(topology: Topology, size_bytes: int) -> None:
    plan = make_plan("inc", topology)
    if plan.size == 1 or plan.roots[0].node in plan.ranks:
        return
    carried = bytes_per_link(plan, topology, size_bytes, segment_bytes=1000)
    for host in plan.ranks:
        gates = list(topology.graph()[host])
        assert sum(carried.get((host, gate), 0) for gate in gates) == size_bytes
        assert sum(carried.get((gate, host), 0) for gate in gates) == size_bytes


def test_few_segments_load_few_shards(star: Callable[..., Topology]) -> None:
    topology = star(4)
    carried = bytes_per_link(make_plan("ring", topology), topology, 1500, segment_bytes=1000)
    # Segment 0 (1000 bytes) goes 1, 2, 3, 0 and segment 1 (500 bytes) goes 2, 3, 0, 1; then all
    # fetch both results from ranks 0 and 1.
    assert [carried[f"h{rank}", "s0"] for rank in range(4)] == [1500, 1500, 1500, 1500]
    assert [carried["s0", f"h{rank}"] for rank in range(4)] == [2000, 1500, 2500, 3000]


def test_the_bounds_quoted_by_comparisons_are_right() -> None:
    def bound(algorithm: str) -> float:
        return round(textbook_bound_s(algorithm, 8, 16 * MIB, 200e6), 2)

    assert bound("inc") == 0.67
    assert bound("ring") == bound("gloo-ring") == 1.17
    assert bound("ps") == 4.70
    assert bound("gloo-gather-broadcast") == 6.71
    assert bound("tcp-gather-broadcast") == 9.40


def test_an_unknown_formula_names_the_known_ones() -> None:
    with pytest.raises(PlanError, match=r"no bound is known for 'nccl'; known are .*gloo-ring"):
        textbook_bound_s("nccl", 8, MIB, RATE_BPS)


@given(
    hosts=st.integers(2, 9),
    rails=st.integers(1, 5),
    workers=st.integers(1, 3),
    size_bytes=st.integers(1, 64 * MIB),
)
def test_each_rail_carries_its_share_within_a_segment(hosts, rails, workers, size_bytes) -> None:
    segment_bytes = 8192
    topology = load_topology(f"rails:{hosts}x{rails}").with_workers(workers)
    topology = topology.with_overrides(rate_bps=RATE_BPS)
    plan = make_plan("inc", topology)
    plan.validate()
    carried = bytes_per_link(plan, topology, size_bytes, segment_bytes=segment_bytes)
    for host in topology.machines:
        for rail in (f"r{number}" for number in range(rails)):
            for link in ((host, rail), (rail, host)):
                share_bytes = carried.get(link, 0.0)
                assert abs(share_bytes - size_bytes / rails) <= segment_bytes
    assert bound_s(plan, topology, size_bytes) == pytest.approx(8 * size_bytes / rails / RATE_BPS)
