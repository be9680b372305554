"""Requests and answers on control sockets: one JSON document each (on nodes' sockets, a line).

{"method": "status", "params": {}}
{"ok": true, "result": {...}}
{"ok": false, "error": "no group named g7; ..."}
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from innet.control.jobs import Job
from innet.security.key import Key
from innet.security.keys import JobTrust


class Request(BaseModel):
    """What a client asks."""

    model_config = ConfigDict(extra="forbid")

    method: str
    params: dict[str, Any] = {}


class Answer(BaseModel):
    """What a server says to it: a result, or an error for people."""

    model_config = ConfigDict(extra="forbid")

    ok: bool
    result: Any = None
    error: str = ""


class JobMessage(BaseModel):
    """A job that a switch is to serve, with its keys."""

    model_config = ConfigDict(extra="forbid")

    prefix: str
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the job, and of nothing else."""
    keys: JobTrust


def job_message(job: Job, keys: JobTrust) -> JobMessage:
    """What a switch is told of ``job``."""
    return JobMessage(prefix=job.prefix, weight=job.weight, hosts=job.hosts, keys=keys)


class PoolMessage(BaseModel):
    """A pool of blocks that a switch is to serve."""

    model_config = ConfigDict(extra="forbid")

    prefix: str
    """Two components: ``/kv/<tenant>``."""
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the pool, beside those of their jobs."""
    key: Key
    """The tenant's public key: it vouches for names of the pool, and for no others."""


class RuleMessage(BaseModel):
    """One reduction rule, as :class:`innet.plans.Rule` has it, in plain types."""

    model_config = ConfigDict(extra="forbid")

    interval: str
    operands: list[tuple[str, str]]
    """(interval, node that answers for it)."""
    primary: bool


def job_of(prefix: str) -> str:
    """The job that a plan's name prefix belongs to.

    >>> job_of("/j1/g0.inc")
    'j1'
    """
    return prefix.split("/")[1]
