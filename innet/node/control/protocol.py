"""Requests and answers on control sockets: one JSON document each (on nodes' sockets, a line).

{"method": "status", "params": {}}
{"ok": true, "result": {...}}
{"ok": false, "error": "no group named g7; ..."}
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from innet.node.control.jobs import Job
from innet.security.key import Key
from innet.security.keys import JobTrust

MAX_ANNOUNCED_PREFIXES = 4096
"""Of one node that the others are told of."""
Failure = tuple[str, int | None]
"""What ended a group, and the rank (in that group) that failed if one did."""


class Request(BaseModel):
    """What a client asks."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    method: str
    params: dict[str, Any] = {}


class Answer(BaseModel):
    """What a server says to it: a result, or an error for people.

    Attributes:
        is_host_taken: the error is a :class:`~innet.errors.HostTaken`.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ok: bool
    result: Any = None
    error: str = ""
    is_host_taken: bool = False


class JobMessage(BaseModel):
    """A job that a switch is to serve, with its keys."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    prefix: str
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the job, and of no other."""
    keys: JobTrust
    admits_others: bool
    """Those faces carry names of no job, too."""


def job_message(job: Job, keys: JobTrust, *, admits_others: bool) -> JobMessage:
    """What a switch is told of ``job``."""
    return JobMessage(
        prefix=job.prefix,
        weight=job.weight,
        hosts=job.hosts,
        keys=keys,
        admits_others=admits_others,
    )


KV_PREFIX: Final = "/kv"
"""First component of the names of all KV blocks."""


def tenant_prefix(tenant: str) -> str:
    """The prefix of all names of a tenant's pool, of blocks and of requests.

    >>> tenant_prefix("a1b2")
    '/kv/a1b2'
    """
    return f"{KV_PREFIX}/{tenant}"


class PoolMessage(BaseModel):
    """A pool of blocks that a switch is to serve."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    prefix: str
    """Two components: ``/kv/<tenant>``."""
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the pool, beside those of their jobs."""
    key: Key
    """The tenant's public key: it vouches for names of the pool, and for no others."""


class Registrations(BaseModel):
    """What the programs of a node serve.

    Attributes:
        version: grows with each change of it, as long as the node's process lives.
        prefixes: as URIs, without repetition.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    prefixes: tuple[str, ...] = Field(max_length=MAX_ANNOUNCED_PREFIXES)


class RuleMessage(BaseModel):
    """One reduction rule, as :class:`innet.plans.Rule` has it, in plain types."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

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
