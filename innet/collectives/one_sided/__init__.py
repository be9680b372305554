"""One-sided ``get`` and ``put`` of registered arrays: the owner's program takes no part.

* ``calls``: the methods of a communicator;
* ``one_sided``: what carries them out;
* ``remote_arrays``: the asking side of a get or put;
* ``array_server``: the owner's side, on a thread of its own;
* ``registered_array``: an array with its versions, and the snapshots that are fetched;
* ``requests``: how askers number what they ask of an owner;
* ``records``: what an asker and an owner say to each other;
* ``transfers``: named bytes under a group's names, published and fetched;
* ``exchange``: an operation of several stages.

A snapshot is one version of an array under a name of its own, so a get sees one version however
many puts come meanwhile, and many ranks that fetch the same version share Interests and caches.
"""

from innet.collectives.one_sided.calls import OneSidedCalls
from innet.collectives.one_sided.one_sided import OneSided
from innet.collectives.one_sided.registered_array import RegisteredArray
from innet.collectives.one_sided.remote_arrays import Snapshot
from innet.collectives.one_sided.transfers import Transfers

__all__ = ["OneSided", "OneSidedCalls", "RegisteredArray", "Snapshot", "Transfers"]
