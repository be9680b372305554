"""Uses a session of another process: runs jobs on its network, reads its kernel's counters.

The other end is in :mod:`innet.cluster.launch.session`. A job must not outlive the program that
requested it: when the connection ends, for any reason, the session cancels the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from innet.cluster.emulation.kernel_network import DirectedLink, LinkCounters
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.emulation.termination import TerminationSignals
from innet.cluster.requests import RequestClient
from innet.errors import ControlError, EmulationError, NoAnswer
from innet.telemetry.logs.output import OutputSink
from innet.worker.job_file import OnDeath

SESSION_SOCKET_NAME = "session.sock"
"""Name of the socket in the run directory."""
_COUNTERS_TIMEOUT_S = 10.0


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class JobRequest(_Message):
    """Parameters of ``run_job``: a command for the hosts. Its environment may have secrets."""

    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str]
    directory: str
    algorithm: str
    hosts: tuple[str, ...] | None
    """Node of each rank; ``None`` for all hosts."""
    job_name: str | None = None
    weight: int = 1
    threads: int | None = None
    """That each rank computes with; ``None``: its share of the processors."""
    max_restarts: int | None = None
    elastic: bool = False
    on_worker_death: OnDeath = "abort"
    serve: bool = False
    trace: str | None = None
    """The file for the job's timeline; ``None`` for none."""


class OutputLine(_Message):
    """A line that a worker printed, ahead of the reply."""

    label: str
    text: str


class JobEnd(_Message):
    """Result of ``run_job``."""

    exit_code: int
    error: str = ""
    lost: tuple[str, ...] = ()
    """How those workers ended that an elastic job went on without."""


class Counters(_Message):
    """Result of ``counters``: what the kernel has counted; empty in modes without kernel links."""

    links: tuple[tuple[DirectedLink, LinkCounters], ...] = ()


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
            result = await client.request("run_job", request.model_dump(), None, show)
            return JobEnd.model_validate(result)
    except asyncio.CancelledError:
        await client.hang_up()
        signals.raise_received()
        raise
    finally:
        client.close()
        signals.restore()


async def read_counters(record: RunRecord) -> Counters:
    """What the kernel has counted on the links of a run (nothing in local mode)."""
    client = _client(record)
    try:
        with _session_errors(record):
            result = await client.request("counters", {}, _COUNTERS_TIMEOUT_S)
            return Counters.model_validate(result)
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
        raise EmulationError(
            f"{error} It may still be starting; `innet down {record.run_id}` ends it and removes "
            "what is left."
        ) from error
    except ControlError as error:
        raise EmulationError(str(error)) from error
