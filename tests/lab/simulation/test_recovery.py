"""A simulated network goes round what is gone, as a real one does, and sums keep their bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import CollectiveError
from innet.settings import Settings
from innet.topology import load_topology

LINK_TIMEOUT_S = Settings().recovery.link_timeout_s
RATE_BPS = 1e9
Array = npt.NDArray[np.float32]


def two_spines() -> innet.Topology:
    return load_topology("leaf-spine:2x2x2").with_overrides(rate_bps=RATE_BPS)


async def a_sum(comm: Communicator) -> Array:
    mine = np.random.default_rng(comm.rank).random(1 << 17, np.float32)
    return await comm.iallreduce(mine)


def sums(sim: innet.Simulation, group: list[Communicator]) -> tuple[list[Array], float]:
    began_s = sim.now_s
    return sim.run(*(a_sum(comm) for comm in group)), sim.now_s - began_s


def undisturbed() -> tuple[Array, float]:
    with innet.Simulation(two_spines()) as sim:
        found, took_s = sums(sim, sim.group(algorithm="inc"))
        return found[0], took_s


def spine_of(sim: innet.Simulation, group: list[Communicator]) -> str:
    """The spine that makes the group's sums."""
    made = {root.node for plan in sim.host("h0").groups["g0"].plans.values() for root in plan.roots}
    return next(node for node in sorted(made) if node.startswith("spine"))


@pytest.mark.parametrize("algorithm", ["inc", "auto"])
def test_a_crashed_switch_is_avoided_and_the_sum_has_the_same_bits(algorithm: str) -> None:
    expected, _ = undisturbed()
    with innet.Simulation(two_spines()) as sim:
        group = sim.group(algorithm=algorithm, timeout_s=5.0)
        sim.at(0.002, sim.crash, spine_of(sim, group))
        found, took_s = sums(sim, group)
        assert took_s < LINK_TIMEOUT_S
        if algorithm == "inc":
            assert all(np.array_equal(each, expected) for each in found)


def disturb_link(sim: innet.Simulation, spine: str) -> None:
    sim.set_link_up("leaf0", spine, False)


def disturb_switch(sim: innet.Simulation, spine: str) -> None:
    sim.pause(spine)


@pytest.mark.parametrize("disturb", [disturb_link, disturb_switch])
def test_a_silent_link_or_node_is_avoided_after_its_timeout(
    disturb: Callable[[innet.Simulation, str], None],
) -> None:
    expected, _ = undisturbed()
    with innet.Simulation(two_spines()) as sim:
        group = sim.group(algorithm="inc")
        sim.at(0.002, disturb, sim, spine_of(sim, group))
        found, took_s = sums(sim, group)
        assert LINK_TIMEOUT_S < took_s < LINK_TIMEOUT_S + 2
        assert all(np.array_equal(each, expected) for each in found)
        assert sums(sim, group)[1] < 0.5


def test_sums_and_their_times_return_with_the_switch() -> None:
    expected, at_first_s = undisturbed()
    with innet.Simulation(two_spines()) as sim:
        group = sim.group(algorithm="inc", timeout_s=5.0)
        spine = spine_of(sim, group)
        sim.at(0.002, sim.crash, spine)
        sums(sim, group)
        assert spine_of(sim, group) != spine
        sim.restart(spine)
        assert spine_of(sim, group) == spine
        found, took_s = sums(sim, group)
        assert took_s < 1.2 * at_first_s
        assert all(np.array_equal(each, expected) for each in found)


def test_recovery_is_deterministic() -> None:
    def digest() -> dict[str, int]:
        with innet.Simulation(two_spines(), seed=4) as sim:
            group = sim.group(algorithm="inc", timeout_s=5.0)
            spine = spine_of(sim, group)
            sim.at(0.002, sim.crash, spine)
            sim.at(0.5, sim.restart, spine)
            sums(sim, group)
            return sim.counters()

    assert digest() == digest()


def test_ranks_that_stay_unreachable_get_the_reason() -> None:
    topology = load_topology("star:3").with_overrides(rate_bps=RATE_BPS)
    with innet.Simulation(topology) as sim:
        sim.at(0.001, sim.set_link_up, "h1", "s0", False)
        with pytest.raises(CollectiveError, match="h1--s0 has carried nothing for 15 s"):
            sums(sim, sim.group(algorithm="inc", timeout_s=60.0))
