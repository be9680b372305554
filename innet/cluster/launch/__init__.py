"""Launching: a session is a running network with switches and controller; jobs run on it.

* ``session``: a running network, held by this process;
* ``supervision``: a job's workers, and what becomes of the job when one dies;
* ``worker_environment``: what a worker, and ``torchrun``, find in their environment;
* ``server``, ``client``, ``messages``: how another terminal uses it;
* ``run_status``: what a run says about itself, whoever asks;
* ``launcher_telemetry``, ``run_broker``, ``viewing``, ``commanding``: its telemetry.
"""

from innet.cluster.launch.session import Session
from innet.cluster.launch.supervision import RestartPolicy
from innet.errors import JobFailed

__all__ = ["JobFailed", "RestartPolicy", "Session"]
