"""Costs of folded plans are those of the plans themselves."""

from __future__ import annotations

import pytest

from innet.plans import Load, make_plan
from innet.plans.cost import CostModel
from innet.plans.folding import FoldedPlan, fold
from innet.topology import load_topology
from innet.topology.routes import Routes
from tests.plans.test_processor import costs_of

COSTS = costs_of(
    operation_s=1e-4,
    wake_up_s=5e-5,
    packet_s=3e-6,
    carried_byte_s=3e-10,
    forwarded_s=1.1e-6,
    operand_s=1.3e-6,
    added_byte_s=1e-10,
    signature_s=1.7e-6,
    signed_byte_s=1.9e-10,
)


@pytest.mark.parametrize(
    ("name", "ranks", "racks"),
    [
        ("leaf-spine:4x2x4", 16, 4),
        ("leaf-spine:4x2x4", 13, 3),  # the last host is alone
        ("fat-tree:4", 16, 8),
        ("star:8", 8, 0),  # its switch is the root
        ("rails:4x2", 4, 0),
    ],
)
@pytest.mark.parametrize("first", [0, 2])
def test_folding_a_plan_does_not_change_its_cost(name, ranks, racks, first, monkeypatch):
    topology = load_topology(name).with_overrides(rate_bps=1e9, delay_s=1e-6)
    hosts = topology.hosts[:ranks]
    plan = make_plan("inc", topology, hosts[first:] + hosts[:first])
    racks -= bool(first and racks)  # one is in two parts then
    assert len(fold(plan, Routes(topology)).racks) in (racks, racks + 1)
    load = Load(link_bps={"h1": {next(iter(topology.links_of["h1"])): 8e8}}, processor={"h2": 0.5})
    folded = [
        CostModel(topology, costs, load).estimate(plan, size_bytes)
        for costs in (None, COSTS, COSTS.model_copy(update={"shared": True}))
        for size_bytes in (1000, 1 << 24)
    ]
    monkeypatch.setattr("innet.plans.cost.fold", lambda plan, _: FoldedPlan(plan, {}))
    plain = [
        CostModel(topology, costs, load).estimate(plan, size_bytes)
        for costs in (None, COSTS, COSTS.model_copy(update={"shared": True}))
        for size_bytes in (1000, 1 << 24)
    ]
    for ours, theirs in zip(folded, plain, strict=True):
        assert ours.latency_s == pytest.approx(theirs.latency_s)
        assert ours.busiest.time_s == pytest.approx(theirs.busiest.time_s)
        assert ours.processor_s == pytest.approx(theirs.processor_s)
