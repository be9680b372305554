"""What users have without in-network aggregation, over simulated TCP: a ring, a parameter server.

Both reduce lengths, not values: they are there to be timed.
"""

from innet.lab.simulation.baselines.parameter_server import ParameterServer
from innet.lab.simulation.baselines.ring import Ring

__all__ = ["ParameterServer", "Ring"]
