"""Ranks that have dropped what all ranks hold the sum of, when switches are lost in the middle."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.settings import Settings
from innet.topology import load_topology

ELEMENTS = 1 << 17
SMALL_WINDOW = Settings().with_assignments(("transport.max_window=16",))


def without_caches(name: str) -> innet.Topology:
    """A topology whose nodes make a sum again that a rank has lost."""
    topology = load_topology(name).with_overrides(rate_bps=1e8, delay_s=1e-4, mtu_bytes=1500)
    nodes = {
        name: node.model_copy(update={"cache_bytes": 0}) for name, node in topology.nodes.items()
    }
    return innet.Topology(name=topology.name, nodes=nodes, links=topology.links)


def roots(comm: Communicator) -> set[str]:
    """The switches that finish the sums."""
    return {root.node for root in comm._runner.variants.for_size(4 * ELEMENTS).plan.roots}


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("lost", "returns_s"), [("leaf0", 0.03), ("spine0", 0.03), ("spine0", 100.0)]
)
def test_every_rank_gets_its_sum_when_a_switch_is_lost_during_it(
    lost: str, returns_s: float, seed: int, beside: bool
) -> None:
    topology = without_caches("leaf-spine:2x2x2")
    random = np.random.default_rng(seed)
    mine = [random.integers(0, 1000, ELEMENTS).astype(np.float32) for _ in topology.hosts]
    want = np.sum(mine, axis=0)
    with innet.Simulation(topology, settings=SMALL_WINDOW, seed=seed) as sim:
        for link in topology.links:
            sim.change_link(link.a.node, link.b.node, loss=0.02)
            sim.change_link(link.b.node, link.a.node, loss=0.02)

        async def total(comm: Communicator) -> None:
            array = mine[comm.rank].copy()
            result = await comm.iallreduce(array, out=None if beside else array)
            array[...] = -1 if beside else array
            np.testing.assert_array_equal(result, want)

        group = sim.group(algorithm="inc", timeout_s=60.0)
        assert roots(group[0]) == {"spine0", "spine1"}
        sim.at(sim.now_s + 0.03, sim.crash, lost)
        sim.at(sim.now_s + 0.03 + returns_s, sim.restart, lost)
        sim.run(*(total(comm) for comm in group))
        assert returns_s < 1 or roots(group[0]) == {"spine1"}
