"""One-sided ``get`` and ``put`` of registered arrays: the owner's program takes no part.

Start with ``one_sided``, the requesting side; ``array_server`` is the owner's side, in the
background of its program, with the versions and snapshots of each array; ``requests`` is what both
sides exchange.

A snapshot is one version of an array under a name of its own, so a get sees one version however
many puts are made meanwhile, and ranks that fetch the same version share Interests and caches.
"""

from innet.collectives.one_sided.array_server import RegisteredArray
from innet.collectives.one_sided.one_sided import OneSided, Snapshot
from innet.collectives.one_sided.requests import Combine

__all__ = ["Combine", "OneSided", "RegisteredArray", "Snapshot"]
