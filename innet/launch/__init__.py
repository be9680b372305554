"""Launching: a session is a running network with switches and controller; jobs run on it.

* ``session``: a running network, held by this process;
* ``server``, ``client``, ``messages``: how another terminal uses it;
* ``run_status``: what a run says about itself, whoever asks.
"""

from innet.errors import JobFailed
from innet.launch.session import Session

__all__ = ["JobFailed", "Session"]
