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
    """Hosts whose groups have their own names and keys, and a share of the switches.

    Attributes:
        name: first component of its names: ``train`` for ``/train``.
        hosts: which belong to no other job.
        weight: its share of slots and tables, relative to other jobs.
    """

    name: str
    hosts: tuple[str, ...]
    weight: int = 1

    @property
    def prefix(self) -> str:
        """The prefix of its names."""
        return f"/{self.name}"


class SimulatedKeys:
    """The keys with which nodes sign, and those that they trust; all follow from the seed.

    The hosts of a job share a key; all other nodes share another one. Each host has an Ed25519 pair
    for its objects, which the hosts of its job trust.
    """

    def __init__(
        self, topology: Topology, jobs: Sequence[SimulatedJob], digest: Callable[..., bytes]
    ) -> None:
        """
        Args:
            topology: with the hosts.
            jobs: that share the network.
            digest: derives 32 bytes from the seed and its arguments.

        Raises:
            SimulationError: a job's host does not exist, or belongs to two jobs.
        """
        self._digest = digest
        self._job_of: dict[str, SimulatedJob] = {}
        for job in jobs:
            for host in job.hosts:
                if host not in topology.hosts or host in self._job_of:
                    what = "in two jobs" if host in self._job_of else "not a host of the topology"
                    raise SimulationError(f"{host!r} of job {job.name!r} is {what}")
                self._job_of[host] = job
        self._public = {host: self._public_key(host) for host in self._job_of}

    def job_of(self, host: str) -> SimulatedJob | None:
        """The job of a host, if it has one."""
        return self._job_of.get(host)

    def signing(self, node: str, incarnation: int) -> _core.SigningKey:
        """The key with which a node signs segments and sums."""
        return self._shared(self._job_of.get(node), node, incarnation)

    def trusted(self, node: str) -> list[_core.SigningKey]:
        """The keys whose signatures a node accepts."""
        job = self._job_of.get(node)
        return [self._shared(None)] if job is None else self.of_job(job)

    def objects(self, host: str) -> _core.SigningKey:
        """The key with which a host signs its objects: its own pair, which its job trusts.

        The shared key would repeat nonces, because each object has its own signer.
        """
        return _core.SigningKey("ed25519", self._own_name(host), self._digest("pair", host))

    def signing_of_job(self, job: SimulatedJob, node: str, incarnation: int) -> _core.SigningKey:
        """The key with which a switch signs the sums of ``job``."""
        return self._shared(job, node, incarnation)

    def of_job(self, job: SimulatedJob) -> list[_core.SigningKey]:
        """The keys that are trusted for the names of ``job``."""
        return [self._shared(job), *(self._public[host] for host in job.hosts)]

    def _shared(
        self, job: SimulatedJob | None, node: str = "", incarnation: int = 0
    ) -> _core.SigningKey:
        """The shared key, with a salt of ``node`` for signing, so that no nonce repeats."""
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
