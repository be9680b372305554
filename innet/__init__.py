"""innet: distributed machine learning over named data, with reductions inside the network.

In a worker that ``innet run`` started::

    import innet, numpy as np
    comm = innet.init()
    total = comm.allreduce(np.ones(4, np.float32))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from innet.cluster.attachment import attach, detach
    from innet.cluster.launch import Session
    from innet.collectives import (
        Communicator,
        Cost,
        KOfN,
        PartialSum,
        Work,
        init,
        measure,
        present_nodes,
    )
    from innet.collectives.masked import MaskedSum, MaskedTotal
    from innet.kv.kv_pool import KVPool
    from innet.lab.simulation import Simulation
    from innet.ndn.functions.call import call
    from innet.ndn.functions.flow import flow
    from innet.ndn.functions.function import function
    from innet.ndn.functions.server import serve, serving
    from innet.topology import Topology, load_topology

    __version__: str

__all__ = [
    "Communicator",
    "Cost",
    "KOfN",
    "KVPool",
    "MaskedSum",
    "MaskedTotal",
    "PartialSum",
    "Session",
    "Simulation",
    "Topology",
    "Work",
    "attach",
    "call",
    "detach",
    "flow",
    "function",
    "init",
    "load_topology",
    "measure",
    "present_nodes",
    "serve",
    "serving",
]

# Loaded at first use: a tool that only reads a topology does not pay for the packet path.
_HOMES = {
    "Communicator": "innet.collectives",
    "Cost": "innet.collectives",
    "KOfN": "innet.collectives",
    "PartialSum": "innet.collectives",
    "Work": "innet.collectives",
    "KVPool": "innet.kv.kv_pool",
    "MaskedSum": "innet.collectives.masked",
    "MaskedTotal": "innet.collectives.masked",
    "init": "innet.collectives",
    "measure": "innet.collectives",
    "present_nodes": "innet.collectives",
    "Session": "innet.cluster.launch",
    "attach": "innet.cluster.attachment",
    "detach": "innet.cluster.attachment",
    "call": "innet.ndn.functions",
    "flow": "innet.ndn.functions",
    "function": "innet.ndn.functions",
    "serve": "innet.ndn.functions",
    "serving": "innet.ndn.functions",
    "Simulation": "innet.lab.simulation",
    "Topology": "innet.topology",
    "load_topology": "innet.topology",
}


_SUBPACKAGES = {"ndn"}
"""Packages that are reached as ``innet.<name>`` without an import of their own."""


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("innet")
    if name in _SUBPACKAGES:
        return importlib.import_module(f"innet.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'innet' has no attribute {name!r}")
    from innet.imports import no_garbage_collection

    with no_garbage_collection():
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """All names, those that are not imported yet as well: what shells complete."""
    return sorted({*globals(), *__all__})
