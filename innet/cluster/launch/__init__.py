"""Launching: a session is a running network with switches and controller; jobs run on it.

* ``session``: a running network, held by this process, and the requests of other terminals;
* ``infrastructure``: its controller and switch processes, its broker and telemetry;
* ``jobs``, ``supervision``: a job's environment and its workers, and how a worker's
  death is handled.
"""

from innet.cluster.launch.session import Session
from innet.cluster.session_client import RestartPolicy, WorkerOptions
from innet.errors import JobFailed

__all__ = ["JobFailed", "RestartPolicy", "Session", "WorkerOptions"]
