"""Launching: a session is a running network with switches and controller; jobs run on it.

* ``session``: a running network, held by this process;
* ``supervision``: a job's workers, and what becomes of the job when one dies;
* ``torchrun``: what ``torchrun`` finds in a worker's environment;
* ``server``, ``client``, ``messages``: how another terminal uses it;
* ``run_status``: what a run says about itself, whoever asks.
"""

from innet.cluster.launch.session import Session
from innet.cluster.launch.supervision import RestartPolicy
from innet.errors import JobFailed

__all__ = ["JobFailed", "RestartPolicy", "Session"]
