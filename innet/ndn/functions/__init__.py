"""Functions that are called by their names, wherever in the network they are.

::

    @innet.function("/sum")
    def total(values: np.ndarray) -> float:
        return float(values.sum())

    async with innet.serving(total):        # in one program
        ...

    await innet.call("/sum", np.ones(4))    # in another one: 4.0

``call.py`` and ``server.py`` are the two ends of a call, ``flow.py`` is for data that flows through
several functions. docs/functions.md describes the packets and their names.
"""

from innet.ndn.functions.admission import InputLimits
from innet.ndn.functions.call import call
from innet.ndn.functions.flow import flow
from innet.ndn.functions.function import Function, function
from innet.ndn.functions.server import FunctionServer, serve, serving

__all__ = [
    "Function",
    "FunctionServer",
    "InputLimits",
    "call",
    "flow",
    "function",
    "serve",
    "serving",
]
