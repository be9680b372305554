"""Sums that do not wait for the last rank: k of n by a deadline (docs/faults.md, Stragglers).

``policy`` says when a round closes, ``round_table`` decides who is in it (sans-IO), ``coordinator``
does so on rank 0's host over the network, ``rounds`` is what every rank has of it, ``allreduce_of``
the sum over those who are in, ``calls`` the methods of a communicator.
"""

from innet.collectives.partial.allreduce_of import PartialSum
from innet.collectives.partial.calls import PartialCalls
from innet.collectives.partial.coordinator import Coordinator
from innet.collectives.partial.policy import KOfN
from innet.collectives.partial.rounds import Rounds

__all__ = ["Coordinator", "KOfN", "PartialCalls", "PartialSum", "Rounds"]
