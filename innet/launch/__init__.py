"""Launching: a session is a running network with its switches and its controller; jobs run on it."""

from innet.launch.session import JobFailed, Session

__all__ = ["JobFailed", "Session"]
