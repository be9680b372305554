"""Jobs on a running network: each with hosts, keys and files of its own, gone when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.runs import writing_into
from innet.errors import EmulationError
from innet.node.control.jobs import Job
from innet.node.control.protocol import job_of
from innet.security import KeyDealer
from innet.topology import Topology


@dataclass(frozen=True, slots=True)
class Place:
    """What a job asks for.

    Attributes:
        hosts: the node of each rank.
        name: ``None`` for one that is made up.
        weight: its part of the switches beside other jobs' weights.
    """

    hosts: tuple[str, ...]
    name: str | None = None
    weight: int = 1


class JobAdmission:
    """Lets jobs onto a network whose switches run."""

    def __init__(
        self,
        topology: Topology,
        controller: RemoteController,
        dealer: KeyDealer,
        keys_path: Callable[[str], Path],
        certificates_path: Callable[[Job], Path],
    ) -> None:
        """Args:
        topology: the network.
        controller: told of jobs.
        dealer: of their keys.
        keys_path: where the worker of a host looks for its keys.
        certificates_path: where the workers of a job look for its certificates.
        """
        self._topology = topology
        self._controller = controller
        self._dealer = dealer
        self._keys_path = keys_path
        self._certificates_path = certificates_path

    @asynccontextmanager
    async def admit(self, place: Place) -> AsyncIterator[Job]:
        """A job with its hosts, served by all switches, until the block ends.

        Raises:
            EmulationError: the hosts are not different hosts of this network.
            ControlError: a host has a job already, or a switch does not answer.
        """
        self._require_hosts(place.hosts)
        job = await asyncio.to_thread(
            self._controller.admit_job, place.name, place.hosts, place.weight
        )
        try:
            await asyncio.to_thread(self._open, job)
            yield job
        finally:
            await asyncio.to_thread(self._close, job)

    def _open(self, job: Job) -> None:
        keys = self._dealer.deal(job_of(job.prefix), job.hosts)
        with writing_into(self._certificates_path(job).parent):
            keys.certificates.save(self._certificates_path(job))
        for host, host_keys in keys.hosts.items():
            path = self._keys_path(host)
            with writing_into(path.parent):
                host_keys.save(path)
        self._controller.open_job(job, keys.switches, keys.groups)

    def _close(self, job: Job) -> None:
        for host in job.hosts:
            self._keys_path(host).unlink(missing_ok=True)
        self._certificates_path(job).unlink(missing_ok=True)
        self._controller.close_job(job)

    def _require_hosts(self, ranks: Sequence[str]) -> None:
        unknown = [node for node in ranks if node not in self._topology.hosts]
        if unknown or len(set(ranks)) != len(ranks) or not ranks:
            raise EmulationError(
                f"ranks must be placed on different hosts of {self._topology.name}; "
                f"got {', '.join(ranks) or 'none'}; it has {', '.join(self._topology.hosts)}"
            )
