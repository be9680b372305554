"""What content stores have answered."""

from __future__ import annotations

from innet.lab.simulation.simulation import Simulation


class SwitchHits:
    """Interests that the switches' content stores have answered."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._before = dict.fromkeys(sim.topology.switches, 0)

    def begin(self) -> None:
        """Count from here on."""
        self._before = self._now()

    def since_begin(self) -> dict[str, int]:
        """By switch; one that has crashed meanwhile has forgotten what it had answered."""
        now = self._now()
        return {switch: max(0, now[switch] - self._before.get(switch, 0)) for switch in now}

    def _now(self) -> dict[str, int]:
        network = self._sim.network
        return {
            switch: int(network.nodes[switch].status()["node"]["cache_hits"])
            for switch in self._sim.topology.switches
            if network.is_alive(switch)
        }
