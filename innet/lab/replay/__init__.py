"""What replays of traces share.

* ``single_store`` is one store for all requests, the reference for all others;
* ``statistics`` is counted on the workers, ``counts`` is what comes of it: blocks by place.
"""

from innet.lab.replay.single_store import ReferenceRates, hit_rate

__all__ = ["ReferenceRates", "hit_rate"]
