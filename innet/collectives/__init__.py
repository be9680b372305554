"""Collectives over named reductions: "publish mine, fetch those names".

``communicator`` is what users hold; each collective has a file of its own that says what it
publishes and what it fetches. ``work`` is an operation under way, ``arrays`` the border to NumPy.
"""

from innet.collectives.communicator import Communicator
from innet.collectives.cost import Cost, measure
from innet.collectives.joining import init, present_nodes
from innet.collectives.partial import KOfN, PartialSum
from innet.collectives.work import Work

__all__ = [
    "Communicator",
    "Cost",
    "KOfN",
    "PartialSum",
    "Work",
    "init",
    "measure",
    "present_nodes",
]
