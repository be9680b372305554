"""A parameter server for asynchronous SGD, in the manner of DistBelief's Downpour.

Workers add their updates to the server's parameters and fetch the parameters at any time, without
waiting for each other; with bounded staleness, no worker runs too far ahead of the slowest (stale
synchronous parallel). Any rank can be the server; several servers hold a shard each.

* ``server``: the ranks that hold parameters;
* ``client``: a worker;
* ``sharding``: parameters as one vector, in shards;
* ``clocks``: the number of pushes of each worker.

Sources: J. Dean et al., "Large Scale Distributed Deep Networks" (NIPS 2012), section 4.1; Q. Ho et
al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server" (NIPS 2013).
"""

from innet.torch_backend.parameter_server.client import Client
from innet.torch_backend.parameter_server.server import Server

__all__ = ["Client", "Server"]
