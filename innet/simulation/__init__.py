"""Virtual time: topologies larger than the machine, and faults that can be repeated."""

from innet.simulation.jobs import SimulatedJob
from innet.simulation.simulation import Simulation

__all__ = ["SimulatedJob", "Simulation"]
