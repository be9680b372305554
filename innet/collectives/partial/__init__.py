"""Sums that do not wait for the last rank: k of n by a deadline (docs/stragglers.md).

Start with ``allreduce_of``. ``rounds`` decides who is in a round (sans-IO).
"""

from innet.collectives.partial.allreduce_of import PartialReductions, PartialSum
from innet.collectives.partial.rounds import KOfN

__all__ = ["KOfN", "PartialReductions", "PartialSum"]
