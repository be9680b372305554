"""Networks in virtual time: larger than the machine, with repeatable faults."""

from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.simulation import Simulation

__all__ = ["SimulatedJob", "Simulation"]
