"""Virtual time: topologies larger than the machine, and faults that can be repeated."""

from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.simulation import Simulation

__all__ = ["SimulatedJob", "Simulation"]
