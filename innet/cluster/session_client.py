"""Uses a session of another process: runs jobs, changes links, reads its kernel's counters.

The other end is in :mod:`innet.cluster.launch.session`. A job must not outlive the program that
requested it: when the connection ends, for any reason, the session cancels the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from innet.cluster.emulation.kernel_network import LinkStatus
from innet.cluster.emulation.processes import MOST_GRACE_S, SupervisedProcess
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.emulation.termination import TerminationSignals
from innet.cluster.requests import RequestClient
from innet.errors import ControlError, EmulationError, NoAnswer
from innet.telemetry.logs.output import OutputSink
from innet.validation_messages import StrictModel
from innet.worker.job_file import OnDeath

SESSION_SOCKET_NAME = "session.sock"
"""Name of the socket in the run directory."""
_COUNTERS_TIMEOUT_S = 10.0
_LINK_TIMEOUT_S = 30.0
MOST_LINK_CHANGE_S = 86400.0
OnGivenUp = Callable[[SupervisedProcess], object]
_links: TypeAdapter[list[LinkStatus]] = TypeAdapter(list[LinkStatus])


_RESTARTS_WAITED_FOR = 3
_RESTARTS_OF_SERVERS = 1_000_000
"""Practically no limit: the number of failures in a row counts."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Restarts of the workers of a job, and the end of the job when one of them dies.

    Attributes:
        max_restarts: how often each worker is restarted; by default 3 times when others wait for
            it, and otherwise never.
        elastic: the job goes on without a worker that is not restarted, and succeeds when any
            worker does.
        on_worker_death: what the workers themselves do; those that shrink need an elastic job.
        serve: the workers are servers that do not need each other: each that dies is restarted,
            after a pause that grows, unless it dies repeatedly soon after its start. The others go
            on.
        grace_s: that each worker has between SIGTERM and SIGKILL, at most a day; by default the
            setting ``recovery.stop_grace_s``.
    """

    max_restarts: int | None = None
    elastic: bool = False
    on_worker_death: OnDeath = "abort"
    serve: bool = False
    grace_s: Annotated[float, Field(ge=0, le=MOST_GRACE_S)] | None = None

    @property
    def restarts(self) -> int:
        """How often each worker is restarted."""
        if self.max_restarts is not None:
            return self.max_restarts
        if self.serve:
            return _RESTARTS_OF_SERVERS
        return _RESTARTS_WAITED_FOR if self.on_worker_death == "wait" else 0

    @property
    def goes_on_without(self) -> bool:
        """Whether the job goes on without a worker that is not restarted."""
        return self.elastic or self.serve or self.on_worker_death == "shrink"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a job's workers; ``output``, ``stdin`` and ``on_given_up`` are not sent to another
    process.

    Attributes:
        env: added to the launcher's environment; may have secrets.
        algorithm: for programs that do not choose one.
        hosts: the node of each rank; all hosts by default.
        ranks: in place of ``hosts``: for how many ranks the controller chooses free hosts.
        directory: working directory of the workers, the launcher's by default.
        output: takes the lines that the workers print, the session's own sink by default.
        trace: the file for a timeline of the job (``innet.telemetry.trace``), also of one that
            fails.
        restarts: what becomes of the job when a worker dies; by default it ends.
        job_name: for displays, and part of its names; ``j<number>`` by default.
        weight: the job's part of the switches beside other jobs' weights.
        threads: that each rank computes with (OpenMP, MKL, OpenBLAS); by default its share of the
            processors, unless ``env`` or the launcher's environment sets OMP_NUM_THREADS.
        stdin: descriptor that rank 0 reads as its standard input; the others' is empty.
        on_given_up: is called with the last process of a worker that is not restarted any more.
    """

    env: Mapping[str, str] | None = None
    algorithm: str = "auto"
    hosts: Sequence[str] | None = None
    ranks: int | None = None
    directory: Path | None = None
    output: Annotated[OutputSink | None, Field(exclude=True)] = None
    trace: Path | None = None
    restarts: RestartPolicy | None = None
    job_name: str | None = None
    weight: int = 1
    threads: int | None = None
    stdin: Annotated[int | None, Field(exclude=True)] = None
    on_given_up: Annotated[OnGivenUp | None, Field(exclude=True)] = None


class JobRequest(StrictModel):
    """Parameters of ``run_job``: a command for the hosts."""

    argv: tuple[str, ...] = Field(min_length=1)
    options: WorkerOptions


class OutputLine(StrictModel):
    """A line that a worker printed, ahead of the reply."""

    label: str
    text: str


class JobEnd(StrictModel):
    """Result of ``run_job``."""

    exit_code: int
    error: str = ""
    lost: tuple[str, ...] = ()
    """How those workers ended that an elastic job went on without."""


class LinkRequest(StrictModel):
    """Parameters of ``change_link``: what the link between two nodes is to be from now on."""

    ends: tuple[str, str]
    settings: dict[str, str] = Field(default_factory=dict)
    """In place of those of the topology, as it has them: ``{"rate": "10mbit"}``."""
    is_up: bool = True
    lasts_s: float | None = Field(default=None, gt=0, le=MOST_LINK_CHANGE_S)
    """After which the link is as in the topology; ``None``: until the next change."""


async def change_link(record: RunRecord, request: LinkRequest) -> str:
    """Change a link of a network that another process holds; what it is now, for people."""
    client = _client(record)
    try:
        with _session_errors(record):
            params = request.model_dump(mode="json")
            return str(await client.request("change_link", params, _LINK_TIMEOUT_S))
    finally:
        client.close()


async def run_job(record: RunRecord, request: JobRequest, output: OutputSink) -> JobEnd:
    """Run a job on the network of ``record``, which another process holds.

    Ctrl-C and SIGTERM cancel it, and then end this program once the workers are gone.
    """

    def show(document: Any) -> None:
        line = OutputLine.model_validate(document)
        output(line.label, line.text)

    client = _client(record)
    signals = TerminationSignals(hurry=client.close)
    signals.install()
    try:
        with _session_errors(record):
            result = await client.request("run_job", request.model_dump(mode="json"), None, show)
            return JobEnd.model_validate(result)
    except asyncio.CancelledError:
        await client.hang_up()
        signals.raise_received()
        raise
    finally:
        client.close()
        signals.restore()


async def read_counters(record: RunRecord) -> list[LinkStatus]:
    """The kernel's counters of the links of a run; none in local mode."""
    client = _client(record)
    try:
        with _session_errors(record):
            result = await client.request("counters", {}, _COUNTERS_TIMEOUT_S)
            return _links.validate_python(result)
    finally:
        client.close()


def _client(record: RunRecord) -> RequestClient:
    path, who = record.run_dir / SESSION_SOCKET_NAME, f"the launcher of {record.run_id}"
    return RequestClient(path, who=who, is_patient=False)


@contextmanager
def _session_errors(record: RunRecord) -> Iterator[None]:
    try:
        yield
    except NoAnswer as error:
        if error.has_ended:
            raise EmulationError(
                f"network {record.run_id} was taken down meanwhile. Start it again with `innet up`."
            ) from error
        if record.is_stale:
            raise EmulationError(
                f"the launcher of {record.run_id} (pid {record.launcher.pid}) has ended, and the "
                f"network and its jobs with it. `innet down {record.run_id}` removes what it left; "
                "then launch it again."
            ) from error
        raise EmulationError(
            f"{error} It may still be starting; `innet down {record.run_id}` ends it and removes "
            "what is left."
        ) from error
    except ControlError as error:
        raise EmulationError(str(error)) from error
