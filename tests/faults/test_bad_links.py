"""Links that lose or corrupt what they carry, between real processes: right bits, more slowly."""

from __future__ import annotations

import pytest

from innet.topology import Topology, load_topology
from tests.faults.conftest import digests, run_with_faults, worker

pytestmark = pytest.mark.faults


def with_bad_uplink(**quality: float) -> Topology:
    """A leaf-spine network with one link of that quality, between a leaf and a spine."""
    topology = load_topology("leaf-spine:2x2x2")
    links = tuple(
        link.model_copy(update=quality) if set(link.nodes) == {"leaf0", "spine0"} else link
        for link in topology.links
    )
    return topology.model_copy(update={"links": links})


@pytest.mark.parametrize("mode", ["local", pytest.param("netns", marks=pytest.mark.netns)])
async def test_a_link_that_loses_a_third_stays_in_use(mode):
    result = await run_with_faults(
        with_bad_uplink(loss=0.3), worker("steps.py", 60, 20000, 0.05), mode=mode
    )
    good = await run_with_faults("leaf-spine:2x2x2", worker("steps.py", 60, 20000, 0))
    assert result.failure == good.failure == ""
    assert digests(result) == digests(good)
    assert "carried nothing" not in result.said("controller")


async def test_a_corrupting_link_changes_no_bit():
    result = await run_with_faults(
        with_bad_uplink(corrupt=0.2), worker("steps.py", 60, 20000, 0.05)
    )
    good = await run_with_faults("leaf-spine:2x2x2", worker("steps.py", 60, 20000, 0))
    assert result.failure == good.failure == ""
    assert digests(result) == digests(good)
    assert "carried nothing" not in result.said("controller")
