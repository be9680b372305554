"""What a controller that was started again learns of the run: from its launcher, and from workers.

The launcher hands a :class:`LaunchRecord` over at the start; each worker's node answers with a
:class:`~innet.node.control.worker_reports.WorkerReport`. Nothing else is kept anywhere.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from innet.node.control.jobs import Job
from innet.node.control.survivors import Loss
from innet.security.group_keys import GroupKeySource
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
