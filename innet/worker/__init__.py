"""A worker process: its node, its place in the job, and the groups it joins.

The launcher describes it in the environment; :func:`current_worker` opens it once per process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from innet.worker.collector import Collector
    from innet.worker.context import Worker
    from innet.worker.current import close_worker, current_worker
    from innet.worker.membership import Membership

__all__ = ["Collector", "Membership", "Worker", "close_worker", "current_worker"]

# Loaded at first use: what needs one module of this package does not pay for all of them.
_HOMES = {
    "Collector": "innet.worker.collector",
    "Membership": "innet.worker.membership",
    "Worker": "innet.worker.context",
    "close_worker": "innet.worker.current",
    "current_worker": "innet.worker.current",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
