"""Jobs of a simulation, and the keys of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core
from innet.errors import SimulationError
from innet.security.keys import node_certificate_name, node_key_prefix
from innet.topology import Topology

_SHARED_KEY_NAME = "/g/k"


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """Hosts whose groups have names and keys of their own, and a part of what switches have.

    Attributes:
        name: what its names begin with: ``train`` for ``/train``.
        hosts: which belong to no other job.
        weight: its part of slots and tables, beside others' weights.
    """

    name: str
    hosts: tuple[str, ...]
    weight: int = 1

    @property
    def prefix(self) -> str:
        """What its names begin with."""
        return f"/{self.name}"


class SimulatedKeys:
    """What nodes sign with and whom they trust; all of it follows from the seed.

    Hosts of a job have a key that the job shares, all other nodes another one. Each host has an
    Ed25519 pair for its objects; only those of a job's hosts are trusted, by their job.
    """

    def __init__(
        self, topology: Topology, jobs: Sequence[SimulatedJob], digest: Callable[..., bytes]
    ) -> None:
        """``digest`` gives 32 bytes for a thing, always the same.

        Raises:
            SimulationError: a host of a job is none of the topology, or in two jobs.
        """
        self._digest = digest
        self._job_of: dict[str, SimulatedJob] = {}
        for job in jobs:
            for host in job.hosts:
                if host not in topology.hosts or host in self._job_of:
                    what = "in two jobs" if host in self._job_of else "no host of the topology"
                    raise SimulationError(f"{host!r} of job {job.name!r} is {what}")
                self._job_of[host] = job
        self._public = {host: self._public_key(host) for host in self._job_of}

    def job_of(self, host: str) -> SimulatedJob | None:
        """The job of a host, if it has one."""
        return self._job_of.get(host)

    def signing(self, node: str, incarnation: int) -> _core.SigningKey:
        """What a node signs segments and sums with."""
        return self._shared(self._job_of.get(node), node, incarnation)

    def trusted(self, node: str) -> list[_core.SigningKey]:
        """Whose signatures a node takes."""
        job = self._job_of.get(node)
        return [self._shared(None)] if job is None else self.of_job(job)

    def objects(self, host: str) -> _core.SigningKey:
        """What a host signs its objects with: a pair of its own, which its job trusts.

        Never the shared key: each object has a signer of its own, whose nonces would be others'.
        """
        return _core.SigningKey("ed25519", self._own_name(host), self._digest("pair", host))

    def signing_of_job(self, job: SimulatedJob, node: str, incarnation: int) -> _core.SigningKey:
        """What a switch signs the sums of ``job`` with."""
        return self._shared(job, node, incarnation)

    def of_job(self, job: SimulatedJob) -> list[_core.SigningKey]:
        """The keys that vouch for the names of ``job``."""
        return [self._shared(job), *(self._public[host] for host in job.hosts)]

    def _shared(
        self, job: SimulatedJob | None, node: str = "", incarnation: int = 0
    ) -> _core.SigningKey:
        """With the salt of ``node`` to sign there: no nonce repeats."""
        name = _SHARED_KEY_NAME if job is None else f"{job.prefix}/KEY"
        of_job = () if job is None else (job.name,)
        salt = self._digest("salt", node, incarnation)[:6] if node else b""
        return _core.SigningKey("gmac", name, self._digest("key", *of_job)[:16], salt)

    def _public_key(self, host: str) -> _core.SigningKey:
        private = Ed25519PrivateKey.from_private_bytes(self._digest("pair", host))
        public = private.public_key().public_bytes_raw()
        return _core.SigningKey("ed25519", self._own_name(host), public)

    def _own_name(self, host: str) -> str:
        job = self._job_of.get(host)
        return node_key_prefix(host) if job is None else node_certificate_name(host, job.name)
