"""The jobs on a network: each has its own hosts, and all share the switches.

They are not stored on disk. The launcher keeps a :class:`LaunchRecord`, and passes it to a
controller that replaces a dead one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from innet.cluster.control.placements import Loss
from innet.errors import ControlError
from innet.node.messages import MAX_WEIGHT, JobMessage
from innet.security.group_keys import GroupKeySource
from innet.security.keys import JobTrust

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,11}")
"""Short, because it is part of every packet."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its hosts.

    Attributes:
        name: as users know it, unique among those that run.
        prefix: what its names begin with: ``/j1``, or ``/train.2`` for one named ``train``. Never
            used twice on a network, for caches may hold what the name meant before.
        hosts: node of each rank.
        weight: its part of the switches' slots, tables and caches, beside others' weights.
    """

    name: str
    prefix: str
    hosts: tuple[str, ...]
    weight: int


def job_message(job: Job, keys: JobTrust, *, admits_others: bool) -> JobMessage:
    """The message to switches about ``job``."""
    return JobMessage(
        prefix=job.prefix,
        weight=job.weight,
        hosts=job.hosts,
        keys=keys,
        admits_others=admits_others,
    )


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class KnownJob(_Document):
    """A job that runs.

    Attributes:
        keys: what switches sign and verify its names with; ``None``: they do not serve it yet.
        groups: what the keys of its groups are made from.
    """

    job: Job
    keys: JobTrust | None = None
    groups: GroupKeySource | None = None


class LaunchRecord(_Document):
    """The launcher's requests to the controller that are still in effect.

    Attributes:
        generation: how often the controller was started again.
        authority: the private key that signs the keys of groups (PKCS#8, hexadecimal).
        admitted: number of jobs so far.
        jobs: those that run, by name.
        failed: by failed node of these jobs, why; in the order of the failures.
        gone: by node that no other process will take, why; empty for one that ended well.
        lost: the lost switches.
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
        """Drop a job that is over."""
        self.jobs.pop(job.name, None)
        for host in job.hosts:
            self.failed.pop(host, None)
            self.gone.pop(host, None)


class JobRegistry:
    """Assigns hosts to jobs."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._all_hosts = tuple(hosts)
        self._jobs: dict[str, Job] = {}
        self._admitted = 0

    def admit(self, name: str | None, hosts: Sequence[str], weight: int) -> Job:
        """Give ``hosts`` to a new job, called ``j<number>`` when it has no name."""
        self._require_free(hosts)
        if not 1 <= weight <= MAX_WEIGHT:
            raise ControlError(f"a job's weight is from 1 to {MAX_WEIGHT}, not {weight}")
        if name is not None and not _NAME.fullmatch(name):
            raise ControlError(
                f"{name!r} cannot be a job's name: up to 12 letters, digits, _ and -, the first a "
                "letter"
            )
        if name in self._jobs:
            raise ControlError(f"a job named {name} is running already; choose another name")
        self._admitted += 1
        numbered = f"j{self._admitted}"
        # The dot keeps a chosen name apart from all numbered ones.
        prefix = f"/{numbered}" if name is None else f"/{name}.{self._admitted}"
        job = Job(name or numbered, prefix, tuple(hosts), weight)
        self._jobs[job.name] = job
        return job

    def restore(self, jobs: Iterable[Job], admitted: int) -> None:
        """Take over the jobs that run, and how many there have been."""
        self._jobs = {job.name: job for job in jobs}
        self._admitted = admitted

    def remove(self, job: Job) -> None:
        """The job is over: its hosts are free."""
        self._jobs.pop(job.name, None)

    def prefixes(self) -> list[str]:
        """The prefixes of the jobs that run."""
        return [job.prefix for job in self._jobs.values()]

    def find(self, node: str) -> Job | None:
        """The job that has ``node``; ``None``: none has."""
        return next((job for job in self._jobs.values() if node in job.hosts), None)

    def of(self, node: str) -> Job:
        """The job that has ``node``.

        Raises:
            ControlError: none has.
        """
        if (job := self.find(node)) is None:
            raise ControlError(f"no job runs on {node}; start one with `innet run`")
        return job

    def describe(self) -> list[dict[str, Any]]:
        """The jobs that run, for status displays."""
        return [
            {
                "name": job.name,
                "prefix": job.prefix,
                "hosts": list(job.hosts),
                "weight": job.weight,
            }
            for job in self._jobs.values()
        ]

    def _require_free(self, hosts: Sequence[str]) -> None:
        taken = {host: job.name for job in self._jobs.values() for host in job.hosts}
        if not (clashes := [host for host in hosts if host in taken]):
            return
        free = [host for host in self._all_hosts if host not in taken]
        others = ", ".join(dict.fromkeys(taken[host] for host in clashes))
        raise ControlError(
            f"{', '.join(clashes)} {'has' if len(clashes) == 1 else 'have'} a job already "
            f"({others}), and each host holds one rank. "
            + (f"Choose among {', '.join(free)} by --hosts" if free else "No host is free: wait")
            + "; `innet status` shows the jobs of a network."
        )
