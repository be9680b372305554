"""Recorded requests: what came when, how long it was, and which of its prefix was seen before.

* ``request`` is one of them; ``mooncake`` and ``azure`` read two formats;
* ``loading`` tells them apart.
"""

from innet.lab.traces.loading import load_trace
from innet.lab.traces.request import Request

__all__ = ["Request", "load_trace"]
