"""A worker process: its node, its place in the job, and the groups it joins.

The launcher describes it in the environment; :func:`current_worker` opens it once per process.
Start with ``context``, the worker; ``membership`` is its part in groups of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.worker.collector import Collector
    from innet.worker.context import Worker
    from innet.worker.current import close_worker, current_worker
    from innet.worker.membership import Membership

__all__ = ["Collector", "Membership", "Worker", "close_worker", "current_worker"]

# Loaded at first use: importing one module of this package does not load the others.
__getattr__ = lazy_names(
    __name__,
    {
        "Collector": "collector",
        "Membership": "membership",
        "Worker": "context",
        "close_worker": "current",
        "current_worker": "current",
    },
)
