"""Jobs on a running network: admission, keys, and the environment of their workers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.control.jobs import Job
from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.kernel_network import HOST_ADDRESS_LABEL
from innet.cluster.emulation.runs import writing_into
from innet.errors import EmulationError
from innet.node.messages import job_of
from innet.security import KeyDealer
from innet.topology import Topology
from innet.worker import agent_rendezvous
from innet.worker.job_file import ATTACHED_VARIABLE, LOCAL_RANKS_VARIABLE


class JobAdmission:
    """Admits jobs to a network whose switches run."""

    def __init__(
        self,
        topology: Topology,
        controller: RemoteController,
        dealer: KeyDealer,
        keys_path: Callable[[str], Path],
        certificates_path: Callable[[Job], Path],
    ) -> None:
        self._topology = topology
        self._controller = controller
        self._dealer = dealer
        self._keys_path = keys_path
        self._certificates_path = certificates_path

    @asynccontextmanager
    async def admit(
        self,
        hosts: Sequence[str] | None,
        name: str | None = None,
        weight: int = 1,
        ranks: int | None = None,
    ) -> AsyncIterator[Job]:
        """A job with its hosts, served by all switches, until the block ends.

        Args:
            hosts: of its ranks; ``None``: the controller chooses free ones.
            name: ``None``: ``j<number>``.
            weight: its part of the switches beside other jobs' weights.
            ranks: how many hosts the controller chooses.
        """
        if hosts is not None:
            self._require_hosts(hosts)
        opening = asyncio.ensure_future(asyncio.to_thread(self._admit, hosts, name, weight, ranks))
        try:
            yield await asyncio.shield(opening)
        finally:
            # A cancelled caller does not stop the thread: what it admits is to be closed, too.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await asyncio.to_thread(self._close, opening.result())

    def _admit(
        self, hosts: Sequence[str] | None, name: str | None, weight: int, ranks: int | None
    ) -> Job:
        job = self._controller.admit_job(name, hosts, weight, ranks)
        try:
            self._open(job)
        except BaseException:
            self._close(job)
            raise
        return job

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
        hosts = f"hosts of {self._topology.name}: {', '.join(self._topology.hosts)}"
        for rank, node in enumerate(ranks):
            if node not in self._topology.hosts:
                raise EmulationError(f"rank {rank} cannot run on {node!r}; {hosts}")
            if node in ranks[:rank]:
                raise EmulationError(
                    f"ranks {ranks.index(node)} and {rank} are both placed on {node}, which "
                    f"runs one rank of a job; {hosts}"
                )
        if not ranks:
            raise EmulationError(f"a job needs at least one host; {hosts}")


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""How many threads OpenMP, MKL and OpenBLAS start; the latter two follow the first."""

RESTART_COUNT_VARIABLE = "TORCHELASTIC_RESTART_COUNT"
"""How often the worker was started before this time, as ``torchrun`` says it."""


@dataclass(frozen=True)
class Seat:
    """The place of a rank among its job's machines, and among the job's ranks on its machine.

    Attributes:
        machine: number of its machine, in the order of their first ranks.
        local_rank: its number among the ranks on that machine.
    """

    rank: int
    machine: int
    machines: int
    local_rank: int
    local_ranks: int


def seats(topology: Topology, ranks: Sequence[str]) -> list[Seat]:
    """The seat of each rank, given the ranks' nodes.

    >>> from innet.topology import load_topology
    >>> two = load_topology("star:2").with_workers(2)
    >>> [(seat.machine, seat.local_rank) for seat in seats(two, two.hosts)]
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    on: dict[str, list[int]] = {}
    for rank, node in enumerate(ranks):
        on.setdefault(topology.machine_of[node], []).append(rank)
    found = [
        Seat(rank, number, len(on), local_rank, len(those))
        for number, those in enumerate(on.values())
        for local_rank, rank in enumerate(those)
    ]
    return sorted(found, key=lambda seat: seat.rank)


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of a job meet.

    Attributes:
        master_address: where rank 0 opens PyTorch's store.
        file: through which the agents of ``torchrun`` meet; of this job alone.
        run_id: distinguishes this rendezvous from others at the same address.
    """

    world_size: int
    master_address: str
    master_port: int
    file: Path
    run_id: str
    max_restarts: int = 0


def rank_variables(meeting: Rendezvous, seat: Seat, address: str) -> dict[str, str]:
    """Everything that ``torchrun`` sets for its workers.

    Libraries read different ones: PyTorch RANK and WORLD_SIZE, Lightning NODE_RANK or GROUP_RANK,
    others TORCHELASTIC_RUN_ID. See `torchrun's list
    <https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables>`_. Other hosts
    reach this one at ``address``.
    """
    size = str(meeting.world_size)
    of_workers = {
        "RANK": str(seat.rank),
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(seat.local_rank),
        "LOCAL_WORLD_SIZE": str(seat.local_ranks),
        LOCAL_RANKS_VARIABLE: str(seat.local_ranks),
        ATTACHED_VARIABLE: "",  # the launcher itself may be an attached process
        "NODE_RANK": str(seat.machine),
        "GROUP_RANK": str(seat.machine),
        "GROUP_WORLD_SIZE": str(seat.machines),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(seat.rank),
        "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": meeting.master_address,
        "MASTER_PORT": str(meeting.master_port),
        "TORCHELASTIC_RUN_ID": meeting.run_id,
        "TORCHELASTIC_MAX_RESTARTS": str(meeting.max_restarts),
        # Rank 0 opens the store itself: there is no agent that did.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    return {**of_workers, **_torchrun_options(meeting, address)}


def interface_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The interface of a rank in its namespace, for Gloo, TensorPipe and NCCL.

    Without them, Gloo takes the address of the machine's name, which in a namespace is loopback.
    What ``environment`` sets stays.
    """
    names = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    return {name: HOST_ADDRESS_LABEL for name in names if name not in environment}


def _torchrun_options(meeting: Rendezvous, address: str) -> dict[str, str]:
    """Options of ``torchrun`` itself, which reads each from a variable with the prefix ``PET_``.

    Its agents meet through a file of the run (:mod:`innet.worker.agent_rendezvous`): a store that
    one of them held would end with that agent, and the others would print traces; and whoever
    reached its port could run code in them. The endpoint is for a rendezvous of the user's choice.
    """
    return {
        "PET_NNODES": str(meeting.world_size),
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": meeting.master_address,
        "PET_MASTER_PORT": str(meeting.master_port),
        "PET_LOCAL_ADDR": address,
        "PET_RDZV_BACKEND": agent_rendezvous.BACKEND,
        agent_rendezvous.ENDPOINT_VARIABLE: f"{meeting.master_address}:{meeting.master_port}",
        agent_rendezvous.FILE_VARIABLE: str(meeting.file),
        "PET_RDZV_ID": meeting.run_id,
    }


def thread_share(ranks: int, processors: int | None = None) -> int:
    """The processors that each of ``ranks`` workers on a machine may use, at least 1.

    ``processors``: of the machine; by default of this one.
    """
    return max(1, (processors or len(os.sched_getaffinity(0))) // ranks)


def thread_variables(
    environment: Mapping[str, str],
    ranks: int,
    threads: int | None = None,
    *,
    processors: int | None = None,
) -> dict[str, str]:
    """The number of threads that each of ``ranks`` workers on a machine computes with.

    More threads than processors make small operations wait for each other: 8 ranks on 2 processors
    train several times slower with a thread per processor each than with one each.

    Args:
        environment: of the workers. What it sets stays.
        ranks: workers that share the machine.
        threads: of each worker; by default its share of the processors, at least 1.
        processors: of the machine; by default of this one.

    Returns:
        What to add to the environment; nothing where it sets ``OMP_NUM_THREADS``.
    """
    if threads is None:
        if "OMP_NUM_THREADS" in environment:
            return {}
        threads = thread_share(ranks, processors)
        return {name: str(threads) for name in THREAD_VARIABLES if name not in environment}
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def search_path(environment: Mapping[str, str]) -> str:
    """PATH with the folder of this interpreter first: ``python`` is the one that has innet."""
    own = str(Path(sys.executable).parent)
    others: Sequence[str] = environment.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([own, *(folder for folder in others if folder != own)])
