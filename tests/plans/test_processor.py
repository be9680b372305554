"""Processor time in the automatic choice: counted by node, shared by those on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import innet
from innet.collectives import Communicator
from innet.plans import PlanChooser, ProcessorCosts, make_plan
from innet.plans.cost import CostModel
from innet.topology import Topology, load_topology

KIB, MIB = 1 << 10, 1 << 20
SEGMENT_BYTES = 1000
FREE = {
    name: 0.0
    for name, field in ProcessorCosts.model_fields.items()
    if name.endswith("_s") and field.is_required()
}


def costs_of(**changes: float | bool) -> ProcessorCosts:
    """Costs of nodes that share two cores, all 0 but those given."""
    shared = {"cores": 2, "shared": True, "segment_bytes": SEGMENT_BYTES, "bulk_segment_bytes": 0}
    return ProcessorCosts.model_validate({**FREE, **shared, **changes})


any_costs = st.builds(
    costs_of,
    cores=st.integers(1, 64),
    shared=st.booleans(),
    segment_bytes=st.integers(1000, 65000),
    bulk_segment_bytes=st.integers(0, 65000),
    **{name: st.floats(0, 1e-3 if "byte" not in name else 1e-8) for name in FREE},
)


def processor_s(
    plan_name: str, topology: Topology, size_bytes: int, costs: ProcessorCosts
) -> float:
    plan = make_plan(plan_name, topology)
    return CostModel(topology, costs).estimate(plan, size_bytes).processor_s


# Two hosts and a switch add three segments, so each link carries each of them in both directions.
@pytest.mark.parametrize(
    ("cost", "total"),
    [
        ("operation_s", 2),  # two ranks
        ("packet_s", 3 * 12),  # two contributions; the sum and its requests for two; at both ends
        ("carried_byte_s", 2500 * 8),
        ("wake_up_s", 4),  # of the switch by each host, of each host by the sum
        ("operand_s", 3 * 2),  # two contributions
        ("added_byte_s", 2500 * 2),
        ("signature_s", 3 * 7),  # three signers; two verifications at the switch, one at each host
        ("signed_byte_s", 2500 * 7),
        ("forwarded_s", 0),  # nobody passes anything on
    ],
)
def test_the_work_of_switches_is_counted(
    star: Callable[..., Topology], cost: str, total: float
) -> None:
    found = processor_s("inc", star(2), 2500, costs_of(**{cost: 1.0}, cores=1))
    assert found == pytest.approx(total)


def test_the_work_of_a_parameter_server_is_counted(star: Callable[..., Topology]) -> None:
    # One contribution goes to the server by way of the switch, and the sum comes back.
    for cost, total in (
        ("packet_s", 3 * 16),
        ("wake_up_s", 8),
        ("forwarded_s", 3 * 2),
        ("signature_s", 3 * 4),
        ("operand_s", 3 * 2),
    ):
        found = processor_s("ps", star(2), 2500, costs_of(**{cost: 1.0}, cores=1))
        assert found == pytest.approx(total), cost


def test_requests_for_several_contributions_wake_a_node_once(
    star: Callable[..., Topology],
) -> None:
    # The server wakes up the switch, that each of three hosts, their answers the switch and then
    # the server; three hosts request the sum of the switch, that of the server; it comes back.
    expected = 1 + 3 + 3 + 1 + 3 + 1 + 1 + 3
    found = processor_s("ps", star(4), 100, costs_of(wake_up_s=1.0, cores=1))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["star:8", "leaf-spine:2x1x4", "fat-tree:4"])
@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
def test_the_counted_packets_are_those_that_nodes_send(name: str, algorithm: str) -> None:
    topology = load_topology(name).with_overrides(rate_bps=1e9, delay_s=1e-6)
    ends = processor_s(algorithm, topology, SEGMENT_BYTES, costs_of(packet_s=1.0, cores=1))
    with innet.Simulation(topology) as sim:

        async def program(communicator: Communicator) -> None:
            await communicator.iallreduce(sim.array(SEGMENT_BYTES))

        sim.run(*map(program, sim.group(algorithm=algorithm)))
        links = [link for node in sim.network.nodes.values() for link in node.status()["links"]]
    sent = sum(link["interests_out"] + link["data_out"] for link in links)
    assert ends == pytest.approx(2 * sent, rel=0.05)


def test_nodes_share_the_cores_of_one_machine(star: Callable[..., Topology]) -> None:
    def time_s(**changes: float) -> float:
        return processor_s("inc", star(8), SEGMENT_BYTES, costs_of(packet_s=1.0, **changes))

    total, of_the_switch = 8 * 6, 8 * 3
    assert time_s(cores=1) == pytest.approx(total)
    assert time_s(cores=64) == pytest.approx(of_the_switch)  # a node runs on one core at a time
    assert time_s(cores=1, shared=False) == pytest.approx(of_the_switch)


@given(st.from_type(Topology), any_costs, st.integers(0, 4 * MIB), st.integers(0, 4 * MIB))
def test_more_bytes_in_segments_of_one_size_take_no_less_time(
    topology: Topology, costs: ProcessorCosts, size_bytes: int, more_bytes: int
) -> None:
    model = CostModel(topology, costs.model_copy(update={"bulk_segment_bytes": 0}))
    for plan in PlanChooser(topology, topology.hosts).plans.values():
        less = model.estimate(plan, size_bytes)
        more = model.estimate(plan, size_bytes + more_bytes)
        assert more.processor_s >= less.processor_s * (1 - 1e-9)
        assert more.total_s >= less.total_s * (1 - 1e-9)


@given(st.from_type(Topology), any_costs, st.integers(1, 64 * MIB))
def test_every_rank_chooses_the_same(
    topology: Topology, costs: ProcessorCosts, size_bytes: int
) -> None:
    # As a rank reads them from its job's file.
    topology_there = Topology.model_validate_json(topology.model_dump_json())
    costs_there = ProcessorCosts.model_validate_json(costs.model_dump_json())
    here = PlanChooser(topology, topology.hosts, processor=costs).choose(size_bytes)
    there = PlanChooser(topology_there, topology_there.hosts, processor=costs_there)
    assert there.choose(size_bytes) == here


@given(st.from_type(Topology), any_costs, st.sampled_from([1, KIB, MIB, 64 * MIB]))
def test_no_other_plan_is_cheaper(
    topology: Topology, costs: ProcessorCosts, size_bytes: int
) -> None:
    chooser = PlanChooser(topology, topology.hosts, processor=costs)
    model = CostModel(topology, costs)
    assert chooser.choose(size_bytes).cost.total_s == min(
        model.estimate(plan, size_bytes).total_s for plan in chooser.plans.values()
    )


_PRINTS_COSTS = """
from innet.plans import PlanChooser, ProcessorCosts
from innet.plans.cost import CostModel
from innet.topology import load_topology
from tests.plans.test_processor import FREE, costs_of
costs = costs_of(**{name: 1e-6 / (3 + place) for place, name in enumerate(FREE)})
for name in ("star:8", "leaf-spine:4x2x3", "fat-tree:4"):
    topology = load_topology(name)
    for plan in PlanChooser(topology, topology.hosts).plans.values():
        for size_bytes in (1, 7777, 123457):
            print(CostModel(topology, costs).estimate(plan, size_bytes))
"""


def test_estimates_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", _PRINTS_COSTS],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(2)
    }
    assert len(said) == 1


def test_the_choice_considers_processors_and_links(star: Callable[..., Topology]) -> None:
    """Hosts that add: links prefer equal shares, processors one server, which does least work."""
    slow = star(8, slots=0).with_overrides(rate_bps=1e6, delay_s=0.0)
    fast = slow.with_overrides(rate_bps=None)
    costs = costs_of(packet_s=1e-6, wake_up_s=1e-5)
    sizes_bytes = 8 * SEGMENT_BYTES

    def choice(topology: Topology, processor: ProcessorCosts | None) -> str:
        chooser = PlanChooser(topology, topology.hosts, processor=processor)
        return chooser.choose(sizes_bytes).plan.algorithm

    assert choice(slow, costs) != "ps"
    assert choice(fast, costs) == "ps"
    assert choice(fast, None) == "inc"


def test_the_explanation_has_both_estimates(star: Callable[..., Topology]) -> None:
    topology = star(8).with_overrides(rate_bps=200e6)
    why = make_plan(
        "auto", topology, size_bytes=16 * MIB, processor=costs_of(carried_byte_s=1e-9)
    ).why
    assert "671 ms on the busiest link, s0 to h0 beside 268 ms of the processors" in why
