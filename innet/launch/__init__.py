"""Launching: a session is a running network with switches and controller; jobs run on it."""

from innet.launch.session import JobFailed, Session

__all__ = ["JobFailed", "Session"]
