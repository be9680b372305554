"""Replays of request traces, the same in simulations, on emulated networks, and without packets.

* ``plan`` divides memory and requests by design; ``worker`` serves a host's requests and counts;
* ``rank`` is a worker's process on an emulated network;
* ``block_model`` replays without packets and time, and has the rates of one store for all.
"""

from innet.lab.replay.block_model import ReferenceRates, hit_rate

__all__ = ["ReferenceRates", "hit_rate"]
