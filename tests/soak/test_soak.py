"""The soak judges rightly: what happens follows from the seed, and growth is seen."""

from __future__ import annotations

import random

import pytest

from innet.topology import load_topology
from tests.soak.faults import Fault, draw_faults
from tests.soak.memory import Growth

TOPOLOGY = load_topology("leaf-spine:2x2x2")
DURATION_S = 600.0


def drawn(seed: int, most_killed: int | None = None) -> list[Fault]:
    hosts = ["h1", "h2", "h3"]
    return list(draw_faults(TOPOLOGY, random.Random(seed), DURATION_S, hosts, most_killed))


def test_the_seed_says_what_happens():
    assert drawn(7) == drawn(7) != drawn(8)


@pytest.mark.parametrize("seed", range(20))
def test_two_ranks_survive_and_all_is_over_in_the_end(seed):
    faults = drawn(seed, most_killed=2)
    killed = [fault.target for fault in faults if fault.kind == "kill"]
    assert "h0" not in killed
    assert sum(target in TOPOLOGY.hosts for target in killed) <= 2
    assert all(fault.at_s + fault.for_s <= DURATION_S for fault in faults)
    assert {fault.kind for fault in faults} == {"kill", "stop", "down"}


@pytest.mark.parametrize(
    ("what", "before", "after", "flat"),
    [
        ("resident_bytes", 90 << 20, 92 << 20, True),
        ("resident_bytes", 90 << 20, 100 << 20, False),
        ("descriptors", 20, 22, True),
        ("descriptors", 20, 30, False),
        ("slots_in_use", 40, 0, True),
    ],
)
def test_growth_beyond_chance_is_seen(what, before, after, flat):
    assert Growth("s0", 1, what, 100.0, before, after).is_flat is flat
