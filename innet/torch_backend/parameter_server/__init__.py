"""A parameter server for asynchronous SGD, in the manner of DistBelief's Downpour.

Workers add what they learned to the server's parameters and fetch these when they like, without
waiting for each other; or, with bounded staleness, without running too far ahead of the slowest
(stale synchronous parallel). A server is any rank, or several that have a shard each.

* ``server``: the ranks that hold parameters;
* ``client``: a worker's side;
* ``sharding``: parameters as one vector, in parts;
* ``clocks``: how far every worker is.

Sources: J. Dean et al., "Large Scale Distributed Deep Networks" (NIPS 2012), section 4.1; Q. Ho et
al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server" (NIPS 2013).
"""

from innet.torch_backend.parameter_server.client import Client
from innet.torch_backend.parameter_server.server import Server

__all__ = ["Client", "Server"]
