"""Collectives over named reductions: "publish mine, fetch those names".

Start with ``communicator``, the operations that users call; ``group_member`` has its other methods.
``operation`` states what each collective publishes and fetches, ``runner`` starts it, ``work`` is
one under way.
``one_sided``, ``keyed``, ``partial`` and ``masked`` are imported when they are first used.
"""

from typing import TYPE_CHECKING

from innet.collectives.communicator import Communicator
from innet.collectives.joining import Cost, init, measure, present_nodes
from innet.collectives.work import Work
from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.collectives.partial import KOfN, PartialSum

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

__getattr__ = lazy_names(__name__, {"KOfN": "partial", "PartialSum": "partial"})
