"""The automatic choice: the cheapest plan, the same one everywhere, with reasons."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from innet.plans import PlanChooser, make_plan
from innet.plans.cost import CostModel
from innet.topology import Topology

KIB, MIB = 1 << 10, 1 << 20


@given(st.from_type(Topology), st.sampled_from([1, KIB, MIB, 64 * MIB]))
def test_no_other_plan_is_cheaper(topology: Topology, size_bytes: int) -> None:
    chooser = PlanChooser(topology, topology.hosts)
    choice = chooser.choose(size_bytes)
    model = CostModel(topology)
    assert choice.cost.total_s == min(
        model.estimate(plan, size_bytes).total_s for plan in chooser.plans.values()
    )
    assert choice.plan in chooser.plans.values()


@given(st.from_type(Topology), st.integers(0, 64 * MIB))
def test_every_rank_chooses_the_same(topology: Topology, size_bytes: int) -> None:
    copy = Topology.model_validate(topology.model_dump())
    first = PlanChooser(topology, topology.hosts).choose(size_bytes)
    assert PlanChooser(copy, copy.hosts).choose(size_bytes) == first


def test_switches_that_can_aggregate_are_used(star: Callable[..., Topology]) -> None:
    for size_bytes in (KIB, 64 * MIB):
        assert make_plan("auto", star(8), size_bytes=size_bytes).algorithm == "inc"


def test_the_choice_depends_on_the_size(thin_middle: Topology) -> None:
    chooser = PlanChooser(thin_middle, thin_middle.hosts)
    # Small: one round of requests. Large: only one partial sum of each half crosses the middle.
    assert chooser.choose(KIB).plan.algorithm == "inc"
    assert chooser.choose(64 * MIB).plan.algorithm == "halving-doubling"


def test_the_explanation_has_numbers(star: Callable[..., Topology]) -> None:
    plan = make_plan("auto", star(8).with_overrides(rate_bps=200e6), size_bytes=16 * MIB)
    assert plan.why.startswith("inc for 16777216 bytes per rank, 8 ranks on star8: about 67")
    for algorithm in ("ring", "ps", "halving-doubling"):
        assert f"{algorithm} about " in plan.why
    assert "on the busiest link, s0 to h0" in plan.why


def test_halving_doubling_is_excluded_where_it_is_impossible(star: Callable[..., Topology]) -> None:
    assert set(PlanChooser(star(6), star(6).hosts).plans) == {"inc", "ring", "ps"}


def test_latency_counts_the_longest_chain(star: Callable[..., Topology]) -> None:
    topology = star(8).with_overrides(rate_bps=None, delay_s=0.01)
    model = CostModel(topology)
    latency_s = {
        name: model.estimate(plan, KIB).latency_s
        for name, plan in PlanChooser(topology, topology.hosts).plans.items()
    }
    round_trip_s = latency_s["inc"]  # contributions go to the switch ahead of the requests
    assert 0.02 <= round_trip_s < 0.021
    # Between hosts a request crosses two links; seven hops of a ring, then the result.
    assert round(latency_s["ring"] / round_trip_s) == 2 * (7 + 1)
    assert round(latency_s["halving-doubling"] / round_trip_s) == 2 * (3 + 1)
    assert round(latency_s["ps"] / round_trip_s) == 2 * 2
