"""What a controller that was started again learns of the run: from its launcher, and from workers.

The launcher hands a :class:`LaunchRecord` over at the start; each worker's node answers with a
:class:`WorkerReport`. Nothing else is kept anywhere.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from innet.control.jobs import Job
from innet.control.survivors import Loss
from innet.security.group_keys import GroupKeySource
from innet.security.key import Key
from innet.security.keys import JobTrust


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class KnownJob(_Part):
    """A job that runs, with its keys once the switches serve it, and what its groups' come from."""

    job: Job
    keys: JobTrust | None = None
    groups: GroupKeySource | None = None


class LaunchRecord(_Part):
    """What the launcher has told its controller, as far as it holds still.

    Attributes:
        generation: how often the controller was started again.
        authority: the private key that says which keys a group has (PKCS#8, hexadecimal).
        admitted: jobs so far.
        jobs: those that run, by name.
        failed: why, by node of those jobs, the first to fail at the beginning.
        gone: likewise of nodes for which no other process will come; empty for those that ended
            well.
        lost: the switches that are gone.
        watches: whether all switches were up once, and so are missed when they are silent.
    """

    generation: int = 0
    authority: str | None = Field(default=None, repr=False)
    admitted: int = 0
    jobs: dict[str, KnownJob] = {}
    failed: dict[str, str] = {}
    gone: dict[str, str] = {}
    lost: dict[str, Loss] = {}
    watches: bool = False

    def forget(self, job: Job) -> None:
        """The job is over."""
        self.jobs.pop(job.name, None)
        for host in job.hosts:
            self.failed.pop(host, None)
            self.gone.pop(host, None)


class GroupReport(_Part):
    """A worker's place in a group.

    Attributes:
        name, number, algorithm, ranks: as the controller gave them.
        plans: by name prefix, as made for the whole network.
        ready: the worker answers for its names.
        left: it needs nothing more of the group.
        failure: what it was told of the group's end.
    """

    name: str
    number: int
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, dict[str, Any]]
    ready: bool
    left: bool
    failure: tuple[str, int | None] | None


class PoolReport(_Part):
    """A worker's part in a pool of blocks.

    Attributes:
        tenant: whose blocks they are: the component that stands for it in names.
        key: that verifies them.
        capacity_bytes: of memory that the worker offers to others; 0: none.
        weight: the pool's part of the switches' memory, beside other pools' and jobs' weights.
    """

    tenant: str = Field(pattern="^[0-9a-f]{2,128}$")
    key: Key
    capacity_bytes: int = Field(ge=0)
    weight: int


class WorkerReport(_Part):
    """A worker, and the groups and pools that it is in.

    Attributes:
        node: its host.
        pid: its process.
        incarnation: as the controller gave it.
        failed: why it can go on no longer, if it cannot.
        sealing_key: what is sealed to it, hexadecimal.
        groups: with those that it has left while others have not.
        pools: that it is a member of.
    """

    node: str
    pid: int
    incarnation: int
    failed: str | None
    sealing_key: str | None = None
    groups: list[GroupReport]
    pools: list[PoolReport] = []
