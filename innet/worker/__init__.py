"""A worker process: its node, its place in the job, and the groups it joins.

The launcher describes it in the environment; :func:`current_worker` opens it once per process.
"""

from innet.worker.collector import Collector
from innet.worker.context import Worker
from innet.worker.current import close_worker, current_worker
from innet.worker.membership import Membership

__all__ = ["Collector", "Membership", "Worker", "close_worker", "current_worker"]
